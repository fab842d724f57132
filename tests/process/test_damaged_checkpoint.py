"""`penstock run --resume` on a job whose newest checkpoint is damaged: exit code 5, then `--allow-fallback` (R24)."""

import json
import os
import signal
from pathlib import Path

import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest
from penstock.storage.local import LocalStorage
from tests.process.programs import Started
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

PROGRAM = """
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield row.value, self.count.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(500)
env.set_parallelism(2)
rows = env.from_dataframe(env.spark.readStream.schema("value bigint").option("maxFilesPerTrigger", 1).json("in/"))
counted = rows.key_by(lambda row: row.value % 5).process(Count(), output_type="value bigint, nth bigint").uid("count")
counted.sink_to(FileSink.for_row_format("out", "json").build()).uid("out")
env.execute("damaged")
"""
RUN = [
    "penstock",
    "run",
    "-Dexecution.checkpointing.num-retained=3",
    "-Dexecution.checkpointing.data-inline-threshold=0",
    "--resume",
]
STEPS, PER_STEP = 3, 40


def feed(folder: Path, step: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    rows = [json.dumps({"value": step * PER_STEP + row}) for row in range(PER_STEP)]
    (folder / f".{step}.json").write_text("\n".join(rows), encoding="utf-8")
    (folder / f".{step}.json").rename(folder / "in" / f"{step}.json")


def shown(folder: Path) -> list[tuple[int, int]]:
    files = [path for path in (folder / "out").glob("*") if not path.name.startswith((".", "_"))]
    rows = [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]
    return [(row["value"], row["nth"]) for row in rows]


def await_values(run: Started, count: int) -> None:
    def enough() -> bool:
        assert run.process.poll() is None, run.err
        return len({value for value, _ in shown(run.folder)}) >= count

    wait_until(enough)


def flip_newest_state(folder: Path) -> str:
    (job,) = (folder / "penstock-checkpoints").iterdir()
    storage = LocalStorage(job)
    newest = read_log(storage).lineage[-1]
    marks = f"-{newest.checkpoint}-"
    path = next(path for path in sorted(file_paths(load_manifest(storage, newest))) if marks in path)
    data = bytearray((job / path).read_bytes())
    data[len(data) // 2] ^= 1
    (job / path).write_bytes(data)
    return path


def test_r24_a_killed_job_with_a_damaged_checkpoint_exits_with_5_and_goes_back_when_told(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM, encoding="utf-8")
    run = Started.of([*RUN, "job.py"], tmp_path)
    for step in range(STEPS):
        feed(tmp_path, step)
        await_values(run, (step + 1) * PER_STEP)
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    before = shown(tmp_path)
    assert sorted(value for value, _ in before) == list(range(STEPS * PER_STEP))
    path = flip_newest_state(tmp_path)
    run = Started.of([*RUN, "job.py"], tmp_path)
    assert run.process.wait(LIMIT_S) == 5
    assert path in run.err and "--allow-fallback" in run.err and "Traceback" not in run.err
    assert sorted(shown(tmp_path)) == sorted(before), "a refusal changes nothing"
    feed(tmp_path, STEPS)
    run = Started.of([*RUN, "--allow-fallback", "job.py"], tmp_path)
    await_values(run, (STEPS + 1) * PER_STEP)
    assert run.interrupt() == 130
    assert path in run.err and "is read and processed again" in run.err
    rows = shown(tmp_path)
    assert {value for value, _ in rows} == set(range((STEPS + 1) * PER_STEP))
    assert len(set(rows)) == (STEPS + 1) * PER_STEP < len(rows), "some came twice, each with its one count"
