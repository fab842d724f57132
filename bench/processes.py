"""Runs the processes of one round and watches what they use.

Whatever way a round ends, none of its processes is left: the tree below each started process is remembered while it
is alive, and killed at the end.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from bench.errors import RoundFailedError

SAMPLE_S = 0.2
MIB = 1024 * 1024
LOG_TAIL_LINES = 20
# Settings of the caller's own Python and Spark must not reach an engine's environment.
DROPPED_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Usage:
    """What a round took. `foreign_cpu_percent` is the part of the machine that other work used meanwhile."""

    wall_s: float
    peak_rss_mb: float
    foreign_cpu_percent: float
    stopped_at_limit: bool
    peak_of_marked_mb: float = 0.0
    """Of the largest process whose command line has the mark."""


class TreeSampler:
    """Memory and CPU time of processes and all below them, sampled. `mark`: a part of some command lines."""

    def __init__(self, mark: str = "") -> None:
        self.peak_rss = 0
        self.peak_rss_of_marked = 0
        self.seen: dict[psutil.Process, float] = {}
        self._mark = mark

    def sample(self, roots: Sequence[int]) -> None:
        """Look at the trees once."""
        rss = 0
        for process in _trees(roots):
            try:
                with process.oneshot():
                    own = process.memory_info().rss
                    rss += own
                    if self._mark and own > self.peak_rss_of_marked and self._mark in " ".join(process.cmdline()):
                        self.peak_rss_of_marked = own
                    times = process.cpu_times()
                    self.seen[process] = times.user + times.system
            except psutil.Error:
                continue  # It ended in between; what was seen of it before still counts.
        self.peak_rss = max(self.peak_rss, rss)

    def cpu_s(self) -> float:
        """CPU time of all processes seen, up to their last sample."""
        return sum(self.seen.values())


def run_processes(
    commands: Sequence[Sequence[str]],
    work: Path,
    limit_s: float,
    on_tick: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
    mark: str = "",
) -> Usage:
    """Run the commands side by side to their end and say what they used.

    `on_tick` gets the seconds since the start, a few times per second. Output goes to `process-N.log` in `work`.
    `mark` is a part of the command lines of processes whose memory is also told alone.
    Raises RoundFailedError, with the end of its log, when a process fails.
    """
    with _Processes(commands, work, mark) as processes:
        busy_before_s, started = _machine_busy_s(), clock()
        stopped_at_limit = False
        while processes.alive():
            processes.sampler.sample(processes.pids)
            elapsed_s = clock() - started
            on_tick(elapsed_s)
            if elapsed_s > limit_s:
                stopped_at_limit = True
                break
            time.sleep(SAMPLE_S)
        wall_s = clock() - started
        foreign_s = _machine_busy_s() - busy_before_s - processes.sampler.cpu_s()
        return Usage(
            wall_s=wall_s,
            peak_rss_mb=processes.sampler.peak_rss / MIB,
            foreign_cpu_percent=max(0.0, 100 * foreign_s / (wall_s * (os.cpu_count() or 1))),
            stopped_at_limit=stopped_at_limit,
            peak_of_marked_mb=processes.sampler.peak_rss_of_marked / MIB,
        )


class _Processes:
    """The processes of one round; leaving the block ends all that is left of them."""

    def __init__(self, commands: Sequence[Sequence[str]], work: Path, mark: str) -> None:
        self.sampler = TreeSampler(mark)
        self._commands = commands
        self._work = work
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "_Processes":
        environment = {name: value for name, value in os.environ.items() if name not in DROPPED_VARIABLES}
        for index, command in enumerate(self._commands):
            with self._log(index).open("wb") as log:
                self._started.append(
                    subprocess.Popen(
                        command,
                        cwd=self._work,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,  # An interrupt at the terminal reaches us only; we end the rest.
                    )
                )
        return self

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._started]

    def alive(self) -> bool:
        """Whether any process still runs. Raises RoundFailedError as soon as one has failed."""
        codes = [process.poll() for process in self._started]
        for index, code in enumerate(codes):
            if code:
                raise RoundFailedError(f"the process ended with {code}; {self._log(index)} ends:\n{self._tail(index)}")
        return None in codes

    def _log(self, index: int) -> Path:
        return self._work / f"process-{index}.log"

    def _tail(self, index: int) -> str:
        return "\n".join(self._log(index).read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in {*self.sampler.seen, *_trees(self.pids)}:
            try:
                process.kill()
            except psutil.Error:
                continue  # It has ended already, and a reused pid is another process to psutil.
        for started in self._started:
            started.wait()


def _trees(roots: Sequence[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in roots:
        try:
            root = psutil.Process(pid)
            found += [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
    return found


def _machine_busy_s() -> float:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # Already part of user and nice.
    return float(sum(times) - idle - guest)
