"""Makes an archive of the classes that Spark loads for a small job: `python scripts/class_archive.py FILE`.

A JVM that is given the archive starts in half the time; the tests start dozens of them (see tests/quick_jvm.py). Where
the Java cannot make one, the file is empty and tests run without. Never fails.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300
PROGRAM = """
import sys
from pathlib import Path
from pyspark import SparkContext
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink

folder = Path(sys.argv[1])
(folder / "in").mkdir()
(folder / "in" / "1.json").write_text('{"value": 1}')
env = StreamExecutionEnvironment.get_execution_environment()
rows = env.spark.readStream.schema("value bigint").json(str(folder / "in"))
numbers = env.from_dataframe(rows).map(lambda row: row.value, Types.LONG())
both = numbers.union(env.from_collection([2, 3], Types.LONG()))
both.key_by(lambda number: number % 2).reduce(lambda a, b: a + b).uid("sum").print()
job = env.execute_async("classes")
job.trigger_checkpoint().result(240)
job.cancel().result()
gateway = SparkContext._gateway
env.spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()  # it writes the archive as the last thing
"""


def main(arguments: list[str]) -> int:
    """Exit code 0 in any case."""
    sys.path.insert(0, str(ROOT))
    from tests.quick_jvm import OPTIONS

    target = Path(arguments[0]).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    print("tests: making an archive of Spark's classes, once", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        archive = Path(folder) / "classes"
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"{OPTIONS} -XX:ArchiveClassesAtExit={archive}",
            "XDG_STATE_HOME": folder,
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-c", PROGRAM, folder]
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
            reason = done.stderr[-2_000:] if done.returncode else "this Java makes none"
        except subprocess.TimeoutExpired:
            reason = f"no end within {LIMIT_S} s"
        if archive.exists() and archive.stat().st_size:
            archive.rename(target)
        else:
            print(f"tests: there is no archive, JVMs start slower: {reason}", file=sys.stderr)
            target.write_bytes(b"")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
