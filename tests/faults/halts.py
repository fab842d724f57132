"""A process is halted at a crash point, and meanwhile a process of the job is killed: which one does not matter.

So a TaskManager or a Python worker can die while the driver is between two steps of a commit, and the other way round,
however busy the machine is.
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.jobs import JobProcess, is_alive
from tests.faults.kills import FINISH_LIMIT_S, RECOVERY_LIMIT_S, candidates, outliving
from tests.waiting import wait_until


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
        try:
            victim = self._victim(job, halted)
            family = job.family()
            assert is_alive(victim), f"the {self.victim} ended before {self.armed}"
            victim.send_signal(signal.SIGKILL)
            if self.victim == "driver":
                job.kill()
        finally:
            with suppress(psutil.NoSuchProcess):
                halted.send_signal(signal.SIGCONT)
        left = outliving(family if self.victim == "driver" else [victim])
        assert not left, f"these have not ended: {left}"

    def _await(self, job: JobProcess, log: Path) -> psutil.Process:
        def halted() -> list[int]:
            assert job.exit_code is None, f"the driver ended with {job.exit_code} before {self.armed}: {job.log_tail()}"
            return halted_pids(log, self.armed)

        [pid] = wait_until(halted, timeout_s=FINISH_LIMIT_S, pause_s=0.02)
        process = psutil.Process(pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, timeout_s=RECOVERY_LIMIT_S)
        return process

    def _victim(self, job: JobProcess, halted: psutil.Process) -> psutil.Process:
        if self.victim == "taskmanager" and self.role == "tm":
            return halted
        found: Sequence[psutil.Process] = wait_until(lambda: candidates(job, self.victim), timeout_s=RECOVERY_LIMIT_S)
        return found[0]


def halted_pids(log: Path, armed: str) -> list[int]:
    """The process that has reached the point, if one has."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [int(line.split()[3]) for line in lines if line.split()[-1] == armed]


def resume(pid: int) -> None:
    """Let a halted process go on."""
    os.kill(pid, signal.SIGCONT)
