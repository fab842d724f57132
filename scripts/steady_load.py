"""A job under a steady load: `python scripts/steady_load.py [--minutes 10] [--files-per-s 20] [--json FILE]`.

Files of 1,000 rows arrive at a fixed rate; a job counts the rows of each user into files, exactly once, with a
checkpoint every two seconds. Prints every minute, and at the end: the time from the appearance of a file to the
appearance of its last row in the output, and the peaks of memory and of the number of files in the two halves of the
time after the second minute. The JVM takes memory up to the limit of its heap, so it is judged by the objects that are
alive after the second minute and at the end, which `jcmd` of a JDK counts.
The exit code is 1 if a row is missing or doubled, or if something has grown. A run of less than four minutes is too
short to tell: its figures are those of its start.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from penstock.control.registry import Registry

ROWS = 1_000
USERS = 10_000
POLL_S = 0.2
SAMPLE_S = 5.0
SETTLED_S = 120.0
"""What is there after two minutes is what a running job needs."""
END_LIMIT_S = 120.0
MEMORY_GROWTH = 1.1
FILE_GROWTH = 1.2
"""Files come and go with every checkpoint."""
MIB = 1024 * 1024
JVM = "jvm"
HEAP = "live objects of the jvm"
HISTOGRAM_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
"""The last line of a histogram of the JVM's objects: how many there are, and their bytes."""
PROGRAM = """
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, event, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield event.user, count, event.file


env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(2_000)
env.set_parallelism(2)
events = env.from_dataframe(env.spark.readStream.schema("user string, file bigint").json("in/")).uid("events")
counts = events.key_by("user").process(Count(), output_type="user string, count bigint, file bigint").uid("count")
counts.sink_to(FileSink.for_row_format("out", "json").build()).uid("out")
env.execute("steady-load")
"""


class Producer(threading.Thread):
    """Writes files at a fixed rate and remembers when each of them appeared."""

    def __init__(self, folder: Path, per_s: float, seconds: float) -> None:
        super().__init__(daemon=True)
        self.written: dict[int, float] = {}
        self._folder = folder
        self._per_s = per_s
        self._seconds = seconds

    def run(self) -> None:
        started_s = time.time()
        for number in range(int(self._per_s * self._seconds)):
            time.sleep(max(0.0, started_s + number / self._per_s - time.time()))
            rows = (f'{{"user":"u{(number * ROWS + row) * 7919 % USERS}","file":{number}}}\n' for row in range(ROWS))
            hidden = self._folder / f".{number}.json"
            hidden.write_text("".join(rows), encoding="utf-8")
            self.written[number] = time.time()
            hidden.rename(self._folder / f"{number:08d}.json")


@dataclass
class Output:
    """What has appeared in the output folder."""

    folder: Path
    visible: dict[int, float] = field(default_factory=dict)
    """When the last row of an input file appeared."""
    rows: dict[int, int] = field(default_factory=dict)
    """Rows by input file."""
    _seen: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Read the files that are new."""
        for entry in os.scandir(self.folder) if self.folder.exists() else ():
            if entry.name in self._seen or entry.name.startswith((".", "_")):
                continue
            self._seen.add(entry.name)
            appeared_s = entry.stat().st_ctime  # the rename that made it visible
            for number in re.findall(rb'"file":(\d+)', Path(entry.path).read_bytes()):
                file = int(number)
                self.rows[file] = self.rows.get(file, 0) + 1
                self.visible[file] = max(self.visible.get(file, 0.0), appeared_s)


@dataclass(frozen=True)
class Sample:
    """Memory and files at one moment."""

    at_s: float
    memory: dict[str, float]
    """MiB by role."""
    files: dict[str, int]
    """Number of files by folder."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if every row came once and nothing has grown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long files arrive (default 10)")
    parser.add_argument("--files-per-s", type=float, default=20.0, help="files of 1,000 rows per second (default 20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON too")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, also by what is started
    with tempfile.TemporaryDirectory(prefix="penstock-load-") as name:
        folder = Path(name)
        producer = Producer(folder / "in", options.files_per_s, 60 * options.minutes)
        figures = measure(folder, producer)
    print("\n".join(f"{key}: {value}" for key, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(bool(figures["wrong files"] or figures["grown"]))


def measure(folder: Path, producer: Producer) -> dict[str, Any]:
    """Run the job under the load and return the figures."""
    (folder / "in").mkdir()
    (folder / "job.py").write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "SPARK_LOCAL_DIRS": str(folder / "spark")}
    environment["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    output, samples, heap = Output(folder / "out"), list[Sample](), list[float]()
    with (folder / "log.txt").open("wb") as log:
        command = [sys.executable, "-m", "penstock", "run", "-Dexecution.checkpointing.dir=checkpoints", "job.py"]
        job = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        producer.start()
        watch(job, folder, producer, output, samples, heap)
    finally:
        end(job)
        output.look()  # a row that came twice may come late
    return to_figures(producer, output, samples, heap)


def live_heap(pid: int, folder: Path) -> float:
    """The MiB of the JVM's objects that are still in use; to count them it collects all others."""
    jvm = next(process for process, role in processes_of(pid, folder).items() if role == JVM)
    jcmd = Path(jvm.exe()).with_name("jcmd")
    if not jcmd.exists():
        raise SystemExit(f"{str(jcmd)!r} does not exist: the heap is measured with a JDK; set JAVA_HOME to one")
    report = subprocess.run([jcmd, str(jvm.pid), "GC.class_histogram"], capture_output=True, text=True, check=True)
    return live_mib(report.stdout)


def live_mib(histogram: str) -> float:
    """The sum of a histogram of objects."""
    found = HISTOGRAM_TOTAL.search(histogram)
    if found is None:
        raise ValueError(f"a histogram without a total: {histogram[-200:]!r}")
    return int(found[1]) / MIB


def end(job: "subprocess.Popen[bytes]") -> None:
    """Suspend the job, or kill it if that takes too long."""
    with suppress(ProcessLookupError):  # it has ended by itself
        os.killpg(job.pid, signal.SIGINT)
    try:
        job.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def watch(
    job: "subprocess.Popen[bytes]",
    folder: Path,
    producer: Producer,
    output: Output,
    samples: list[Sample],
    heap: list[float],
) -> None:
    """Follow the job until all rows are there, or no more come. `heap` gets what lives at first and at the end."""
    started_s = time.monotonic()
    limit_s: float | None = None
    minute = 0
    while limit_s is None or time.monotonic() < limit_s:
        if job.poll() is not None:
            raise SystemExit(f"the job has ended with {job.returncode}:\n{(folder / 'log.txt').read_text()}")
        output.look()
        now_s = time.monotonic() - started_s
        if not samples or now_s - samples[-1].at_s >= SAMPLE_S:
            samples.append(take_sample(now_s, job.pid, folder))
        if now_s >= SETTLED_S and not heap:
            heap.append(live_heap(job.pid, folder))
        if now_s // 60 > minute:
            minute = int(now_s // 60)
            print(minute_line(minute, output, producer, samples[-1]), flush=True)
        if not producer.is_alive():
            limit_s = limit_s or time.monotonic() + END_LIMIT_S
            if sum(output.rows.values()) >= ROWS * len(producer.written):
                break
        time.sleep(POLL_S)
    heap.append(live_heap(job.pid, folder))


def take_sample(at_s: float, pid: int, folder: Path) -> Sample:
    """The memory of the job's processes and the files in its folders."""
    memory: dict[str, float] = {}
    for process, role in processes_of(pid, folder).items():
        try:
            memory[role] = memory.get(role, 0.0) + process.memory_info().rss / MIB
        except psutil.Error:
            continue  # it has ended in between
    files = {
        name: sum(len(names) for _, _, names in os.walk(folder / name))
        for name in ("checkpoints", "state", "spark", "tmp")
    }
    return Sample(at_s, memory, files)


def processes_of(pid: int, folder: Path) -> dict[psutil.Process, str]:
    """The job's processes and what they are. The job's record has the TaskManagers, which need not be its children."""
    driver = psutil.Process(pid)
    found = {}
    for child in driver.children(recursive=True):
        try:
            is_java = Path(child.exe()).name == "java"
            if is_java and child.name() != "java":
                continue  # the JVM is starting a program: its memory is counted already
            found[child] = JVM if is_java else "spark workers"
        except psutil.Error:
            continue  # it has ended in between
    for record in Registry(folder / "state" / "penstock" / "registry").list():
        for process in record.processes:
            if process.role == "taskmanager":
                with suppress(psutil.NoSuchProcess):
                    found[psutil.Process(process.pid)] = "taskmanagers"
    return {**found, driver: "driver"}


def minute_line(minute: int, output: Output, producer: Producer, sample: Sample) -> str:
    """A line about the last minute."""
    lag = len(producer.written) - len(output.visible)
    memory = ", ".join(f"{role} {mib:,.0f}" for role, mib in sorted(sample.memory.items()))
    files = ", ".join(f"{name} {count}" for name, count in sample.files.items() if count)
    return f"minute {minute}: {len(output.visible)} files visible, {lag} not yet | MiB: {memory} | files: {files}"


def to_figures(producer: Producer, output: Output, samples: list[Sample], heap: Sequence[float]) -> dict[str, Any]:
    """The figures; those of the first two minutes do not count, unless the run was too short for that."""
    is_long = samples[-1].at_s >= 2 * SETTLED_S
    start_s = min(producer.written.values()) + (SETTLED_S if is_long else 0.0)
    delays = sorted(
        output.visible[file] - at_s
        for file, at_s in producer.written.items()
        if at_s >= start_s and file in output.rows
    )
    settled = [sample for sample in samples if sample.at_s >= SETTLED_S] if is_long else samples
    half = max(1, len(settled) // 2)
    first, last = settled[:half], settled[-half:]
    # The greatest values: files and heaps grow until they are cleaned up, over minutes.
    values = {
        (kind, name): tuple(max(getattr(sample, kind).get(name, 0) for sample in part) for part in (first, last))
        for kind in ("memory", "files")
        for name in sorted(getattr(last[-1], kind))
    }
    values["memory", HEAP] = (heap[0], heap[-1])
    limits = {"memory": MEMORY_GROWTH, "files": FILE_GROWTH}
    grown = [
        f"{kind}: {name}"
        for (kind, name), (before, after) in values.items()
        if is_long and name != JVM and after > before * limits[kind] and after - before > 20
    ]
    changes = {f"{kind}: {name}": f"{before:,.0f} -> {after:,.0f}" for (kind, name), (before, after) in values.items()}
    return {
        "files": len(producer.written),
        "rows": sum(output.rows.values()),
        "wrong files": sum(output.rows.get(file, 0) != ROWS for file in producer.written),
        "latency median s": round(statistics.median(delays), 2) if delays else None,
        "latency p95 s": round(delays[int(0.95 * len(delays))], 2) if delays else None,
        "latency max s": round(delays[-1], 2) if delays else None,
        **changes,
        "grown": grown,
    }


if __name__ == "__main__":
    sys.exit(main())
