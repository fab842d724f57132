"""A job that is given more rows at once than it can work on soon: `python -m tests.process.back_pressure`.

The job is warm when the rows come. What is measured are its own figures: how long its checkpoints took, how long their
barriers waited, and what they hold of rows in flight.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.registry import JobRecord, Registry
from tests.faults.outcome import read_output
from tests.process.programs import environment
from tests.waiting import LIMIT_S, Stopwatch, wait_until

PROGRAM = Path(__file__).with_name("slow_program.py")
PARALLELISM = 2
KEYS = 1_000
WARM_ROWS = 200
INTERVAL_MS = 1_000


@dataclass(frozen=True)
class Load:
    """So many rows at once, which are so many seconds of work."""

    rows: int
    backlog_s: float
    unaligned: bool
    kill: bool = False
    """Lose every process in the middle, and go on with `--resume`."""
    failpoint: str = ""

    @property
    def pause_us(self) -> int:
        """For each row, so that all subtasks together need the whole time."""
        return round(1e6 * self.backlog_s * PARALLELISM / self.rows)


@dataclass(frozen=True)
class Figures:
    """What came of it."""

    checkpoints: list[CheckpointStats]
    """Those that were completed while the backlog was worked off."""
    seconds: float
    failpoint_hits: int
    found: Counter[int]
    wrong: list[str]

    @property
    def longest_ms(self) -> int:
        """Of the checkpoints."""
        return max(stats.duration_ms or 0 for stats in self.checkpoints)

    def __str__(self) -> str:
        shown = [(s.duration_ms, s.alignment_ms, s.persisted_bytes) for s in self.checkpoints]
        return f"{len(shown)} checkpoints in {self.seconds:.0f} s (duration, alignment ms, bytes in flight): {shown}"


def run(load: Load, folder: Path) -> Figures:
    """Run the job until all its output is there; what it did, and what is wrong with its output."""
    events, output = folder / "events", folder / "out"
    events.mkdir(parents=True)
    _write_rows(events, range(WARM_ROWS))
    job = _Job(load, folder)
    try:
        job.start()
        wait_until(lambda: sum(_ids(output).values()) == WARM_ROWS)
        before = {stats.checkpoint_id for stats in job.checkpoints()}
        watch = Stopwatch()
        _write_rows(events, range(WARM_ROWS, WARM_ROWS + load.rows))
        if load.kill:
            wait_until(lambda: watch.seconds() > load.backlog_s / 2 and job.note())
            job.kill()
            job.start()

        def all_there() -> bool:
            job.note()
            return sum(_ids(output).values()) >= WARM_ROWS + load.rows

        wait_until(all_there, pause_s=0.5)
        done = [s for n, s in sorted(job.seen.items()) if n not in before and s.status == "completed"]
        return Figures(done, watch.seconds(), job.failpoint_hits(), _ids(output), _wrong(output))
    finally:
        job.kill()


class _Job:
    """The driver of the job, over all its starts."""

    def __init__(self, load: Load, folder: Path) -> None:
        self._load = load
        self._folder = folder
        self._registry = Registry(folder / "registry")
        self._process: subprocess.Popen[bytes] | None = None
        self.seen: dict[int, CheckpointStats] = {}

    def start(self) -> None:
        settings = {
            "spark.master": f"local[{PARALLELISM},4]",
            "penstock.registry.dir": self._registry.folder,
            "execution.checkpointing.dir": self._folder / "checkpoints",
            "execution.checkpointing.interval": INTERVAL_MS,
            "execution.checkpointing.unaligned.enabled": str(self._load.unaligned).lower(),
        }
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        program = [str(PROGRAM), str(self._folder / "events"), str(self._folder / "out"), str(self._load.pause_us)]
        command = [sys.executable, "-m", "penstock", "run", "-p", str(PARALLELISM), "--resume", *flags, *program]
        points = {"PENSTOCK_FAILPOINT": self._load.failpoint, "PENSTOCK_FAILPOINT_LOG": str(self._folder / "hits")}
        with open(self._folder / "driver.log", "ab") as log:
            own = {**environment(self._folder), **(points if self._load.failpoint else {})}
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=own)

    def record(self) -> JobRecord | None:
        return next(iter(self._registry.list()), None)

    def checkpoints(self) -> list[CheckpointStats]:
        record = self.record()
        return self._registry.read_checkpoints(record.job_id) if record is not None else []

    def note(self) -> bool:
        """Keep the figures of the last checkpoints: the job forgets all but ten."""
        assert self._process is not None and self._process.poll() is None, (self._folder / "driver.log").read_text()
        self.seen.update({stats.checkpoint_id: stats for stats in self.checkpoints() if stats.status == "completed"})
        return True

    def failpoint_hits(self) -> int:
        path = self._folder / "hits"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def kill(self) -> None:
        """SIGKILL to every process of the job."""
        if self._process is None:
            return
        try:
            family = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait(LIMIT_S)


def _write_rows(folder: Path, numbers: range) -> None:
    lines = (json.dumps({"id": number, "key": f"k{number * 7919 % KEYS}"}) + "\n" for number in numbers)
    hidden = folder / f".{numbers.start}"
    hidden.write_text("".join(lines), encoding="utf-8")
    os.rename(hidden, folder / f"{numbers.start}.json")


def _ids(output: Path) -> Counter[int]:
    return Counter(row["id"] for row in read_output(output)) if output.is_dir() else Counter()


def _wrong(output: Path) -> list[str]:
    """Keys whose events were not counted from 1 on, each once."""
    counts: dict[str, list[int]] = {}
    for row in read_output(output):
        counts.setdefault(row["key"], []).append(row["count"])
    return [key for key, found in counts.items() if sorted(found) != list(range(1, len(found) + 1))]


def main(arguments: list[str]) -> None:
    """Print the figures of one load."""
    parser = argparse.ArgumentParser(prog="python -m tests.process.back_pressure", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--backlog", type=float, default=60.0, help="seconds of work")
    parser.add_argument("--unaligned", action="store_true")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        load = Load(options.rows, options.backlog, options.unaligned, options.kill)
        figures = run(load, Path(folder))
        total = WARM_ROWS + load.rows
        exact = len(figures.found) == total == sum(figures.found.values()) and not figures.wrong
        print(figures)
        print(f"{sum(figures.found.values())} rows out, {'exact' if exact else 'WRONG'}")


if __name__ == "__main__":
    main(sys.argv[1:])
