"""When `penstock supervise` starts a driver again, and how often.

The driver is a process of its own. Its end says what to do: a process that a signal has killed, and a job that has
failed, go on from the newest checkpoint. Whatever a restart cannot change ends the supervision with the driver's exit
code: a job that has finished, was suspended or belongs to another driver, a program that is wrong, damaged data.
"""

from collections import deque
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.control.registry import SUSPENDED, JobRecord
from penstock.control.standby.active_driver import job_end
from penstock.errors import CheckpointError, StorageError
from penstock.model.configuration import Configuration
from penstock.model.options.availability_options import (
    SUPERVISE_BACKOFF,
    SUPERVISE_MAX_BACKOFF,
    SUPERVISE_RESTARTS,
    SUPERVISE_WINDOW,
)
from penstock.storage.address import join_address

FAILED_EXIT = 1
KILLED_EXIT = 128


class RestartBudget:
    """How many restarts are left, and how long to wait before the next one."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self.limit = configuration.get(SUPERVISE_RESTARTS)
        self.window_s = configuration.get(SUPERVISE_WINDOW) / 1000
        self._backoff_s = configuration.get(SUPERVISE_BACKOFF) / 1000
        self._longest_s = configuration.get(SUPERVISE_MAX_BACKOFF) / 1000
        self._clock = clock
        self._restarts_s: deque[float] = deque()

    def next_delay_s(self) -> float | None:
        """Take one restart: the seconds to wait before it; None if there is none left in this window."""
        now_s = self._clock.monotonic_s()
        while self._restarts_s and now_s - self._restarts_s[0] >= self.window_s:
            self._restarts_s.popleft()
        count = len(self._restarts_s)
        if count >= self.limit:
            return None
        self._restarts_s.append(now_s)
        return min(self._longest_s, self._backoff_s * float(2 ** min(count, 30)))


@dataclass(frozen=True)
class DriverEnd:
    """How a driver has ended, and what it said of its job."""

    exit_code: int
    """Negative: the number of the signal that killed it."""
    record: JobRecord | None = None
    """None: it had not submitted a job."""
    job_ended: bool = False
    """The job's log says that it has finished or was cancelled."""

    @property
    def is_killed(self) -> bool:
        """Nothing that the driver or its user has done ended it."""
        return self.exit_code < 0

    @property
    def shell_code(self) -> int:
        """The exit code as shells count."""
        return KILLED_EXIT - self.exit_code if self.is_killed else self.exit_code

    def needs_restart(self) -> bool:
        """Whether starting the driver again can help."""
        if self.job_ended or (self.record is not None and self.record.status == SUSPENDED):
            return False
        has_failed = self.record is not None and self.record.status == "FAILED"
        return self.is_killed or (self.exit_code == FAILED_EXIT and has_failed)

    def describe(self) -> str:
        """Why there is a restart, in a few words."""
        job = f" of job {self.record.name!r} ({self.record.job_id})" if self.record is not None else ""
        if self.is_killed:
            return f"the driver{job} was killed by signal {-self.exit_code}"
        reason = (self.record.failure or "").strip().splitlines() if self.record is not None else []
        return f"the job{job.removeprefix(' of job')} has failed" + (f": {reason[-1]}" if reason else "")


def has_ended(record: JobRecord) -> bool:
    """Whether the job has finished or was cancelled by its log, whatever became of its driver after that."""
    if record.checkpoint_dir is None:
        return False
    try:
        return job_end(join_address(record.checkpoint_dir, record.job_id)) in ("FINISHED", "CANCELED")
    except (StorageError, CheckpointError):
        return False  # the next start reads the log too, and says what is wrong
