"""A process is halted at a crash point, and meanwhile a process of the job is killed: which one does not matter.

So a TaskManager or a Python worker can die while the driver is between two steps of a commit, and the other way round,
however busy the machine is.
"""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.failpoints import read_hits
from tests.faults.jobs import JobProcess, is_alive
from tests.faults.kills import FINISH_LIMIT_S, RECOVERY_LIMIT_S, candidates, outliving
from tests.waiting import wait_until

VICTIMS = ("worker", "taskmanager", "driver")
MOMENTS = {
    ("C6.after", "tm"): (4, 8, 12),
    ("C16.before", "tm"): (2, 3, 4),
    ("C17.after", "driver"): (2, 3, 4),
    ("C19.after", "driver"): (2, 3, 4),
    ("C20.before", "driver"): (3, 4, 5),
}
"""The five moments of a checkpoint, as crash points of the protocol, and at which passages the victims die.

Before the pre-commit (the input has ended), after it (the rows are durable, the ack is not sent), after the acks,
before the commits (the checkpoint is complete), and between commits.
"""


@dataclass(frozen=True)
class Halt:
    """A process of that role stops when it passes the point for the `hit`-th time; then a `victim` is killed."""

    point: str
    role: str
    hit: int
    victim: str
    """`driver`, `taskmanager` or `worker`."""

    @property
    def armed(self) -> str:
        """The words for PENSTOCK_FAILPOINT."""
        return f"{self.point}:stop:role={self.role}:hit={self.hit}"

    def strike(self, job: JobProcess, log: Path) -> None:
        """Wait for the halt, kill the victim, and let the halted process go on."""
        halted = self._await(job, log)
        own_kind = "taskmanager" if self.role == "tm" else self.role
        _kill_while_halted(job, halted, self.victim, is_victim=self.victim == own_kind)

    def _await(self, job: JobProcess, log: Path) -> psutil.Process:
        def halted() -> list[int]:
            assert job.exit_code is None, f"the driver ended with {job.exit_code} before {self.armed}: {job.log_tail()}"
            return halted_pids(log, self.armed)

        [pid] = wait_until(halted, timeout_s=FINISH_LIMIT_S, pause_s=0.02)
        process = psutil.Process(pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, timeout_s=RECOVERY_LIMIT_S)
        return process


def strike_all(start: Callable[[str], JobProcess], log: Path, halts: Sequence[Halt]) -> None:
    """One driver, in which all victims die one after the other. If the driver is one of them, it is the last.

    `start` starts it with the words for PENSTOCK_FAILPOINT.
    """
    with start(",".join(halt.armed for halt in halts)) as job:
        for halt in halts:
            halt.strike(job, log)
    assert {halt.armed for halt in halts} <= read_hits(log)


def halts_at(point: str, role: str, hits: Sequence[int]) -> list[Halt]:
    """The victims, at these passages of one point."""
    return [Halt(point, role, hit, victim) for hit, victim in zip(hits, VICTIMS, strict=True)]


def strike_within(job: JobProcess, is_within: Callable[[], bool], victim: str) -> None:
    """Kill the victim while the driver is in the middle of something that no crash point marks, and lasts a moment.

    The driver is stopped whenever it seems to be there. Once it is stopped, the answer cannot change any more.
    """
    driver = psutil.Process(job.pid)

    def stopped() -> bool:
        assert job.exit_code is None, f"the driver ended with {job.exit_code}: {job.log_tail()}"
        if not is_within():
            return False
        driver.send_signal(signal.SIGSTOP)
        wait_until(lambda: driver.status() == psutil.STATUS_STOPPED, pause_s=0.001)
        if is_within():
            return True
        driver.send_signal(signal.SIGCONT)
        return False

    wait_until(stopped, timeout_s=FINISH_LIMIT_S, pause_s=0.001)
    _kill_while_halted(job, driver, victim, is_victim=victim == "driver")


def _kill_while_halted(job: JobProcess, halted: psutil.Process, kind: str, *, is_victim: bool) -> None:
    """Kill the halted process itself, or another one of that kind, which the halted one learns when it goes on."""
    try:
        found = [halted] if is_victim else wait_until(lambda: candidates(job, kind), timeout_s=RECOVERY_LIMIT_S)
        family = job.family()
        assert is_alive(found[0]), f"the {kind} had ended before"
        found[0].send_signal(signal.SIGKILL)
        if kind == "driver":
            job.kill()
    finally:
        with suppress(psutil.NoSuchProcess):
            halted.send_signal(signal.SIGCONT)
    left = outliving(family if kind == "driver" else found[:1])
    assert not left, f"these have not ended: {left}"


def halted_pids(log: Path, armed: str) -> list[int]:
    """The process that has reached the point, if one has."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [int(line.split()[3]) for line in lines if line.split()[-1] == armed]


def resume(pid: int) -> None:
    """Let a halted process go on."""
    os.kill(pid, signal.SIGCONT)
