"""The checkpoints of a job over all its attempts: requested, completed, aborted, and their figures."""

from collections.abc import Callable
from contextlib import suppress

from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.no_checkpoints import AttemptLog, Coordinator, NoCheckpoints, NoJobLog
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.control.driver_log import DriverLog
from penstock.control.registry import Registry
from penstock.control.terminal import print_warning
from penstock.errors import CheckpointFailedError, StorageError
from penstock.jobmanager.attempt.attempt import Attempt
from penstock.jobmanager.job_history import JobHistory, SlowCheckpoints
from penstock.jobmanager.job_savepoints import JobSavepoints
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.execution import JobStatus
from penstock.model.snapshot import StateSize


class JobCheckpoints:
    """Follows the coordinator of the attempt that runs. Any thread may call it."""

    def __init__(
        self,
        job_id: str,
        settings: JobSettings,
        registry: Registry,
        log: DriverLog,
        history: JobHistory,
        release: Callable[[int], None],
    ) -> None:
        """`release` is called with the epoch of each completed checkpoint: what it covers is final."""
        self._job_id = job_id
        self._has_checkpoints = settings.takes_checkpoints
        self._registry = registry
        self._driver_log = log
        self._history = history
        self._release = release
        self._slow = SlowCheckpoints(settings.attempt_settings)
        self._attempt = 0
        self._coordinator: Coordinator = NoCheckpoints()
        self._log: AttemptLog = NoJobLog()
        self._written_sizes: list[StateSize] | None = None
        self._last_completed: int | None = None
        self.first_free = 0
        """Above every number that ended attempts have used, even for checkpoints that left no trace."""

    @property
    def last_completed(self) -> int | None:
        """The number of the newest completed checkpoint."""
        newest = self._coordinator.newest_completed
        if newest is not None:  # None again once the job has ended
            self._last_completed = newest.checkpoint_id
        return self._last_completed

    @property
    def state_bytes(self) -> int | None:
        """The size of all keyed state at the last completed checkpoint; None if it is not known."""
        sizes = self._written_sizes
        return None if sizes is None else sum(size.size_bytes for size in sizes)

    def take(self, *, full: bool = False) -> int:
        """Take a checkpoint now; its number, once it is complete. `full`: it inherits nothing."""
        status = self._history.status
        if self._has_checkpoints and status is not JobStatus.RUNNING:
            raise CheckpointFailedError(FailureReason.NOT_RUNNING.text(f"the job is {status.name}"))
        return self._coordinator.request(full=full).result()

    def report(self, savepoints: JobSavepoints) -> CheckpointReport:
        """What is known of the job's checkpoints and savepoints now."""
        coordinator, view = self._coordinator, self._log.view()
        retained = frozenset(complete.checkpoint for complete in view.retained) if coordinator.can_recover else None
        return self._history.report(coordinator.history(), savepoints.stats(), retained)

    # ---- attempts

    def detach(self) -> None:
        """The attempt is over: what is pending never completes, its figures stay."""
        self._coordinator.close(FailureReason.SUSPENDING)
        self.first_free = max(self.first_free, self._coordinator.next_id)
        self._write_figures()

    def forget(self) -> None:
        """Another attempt claims the job, which fences the last one."""
        self.detach()
        self._coordinator, self._log = NoCheckpoints(), NoJobLog()

    def attach(self, attempt: Attempt) -> None:
        """Follow this attempt, which owns the job now."""
        self._attempt = attempt.number
        self._coordinator, self._log = attempt.coordinator, attempt.log

    def check_fenced(self) -> None:
        """Raise FencedError if another driver owns the job now (PROTOCOL R4)."""
        with suppress(StorageError):  # a storage that does not answer says nothing about owners
            self._log.check_fenced()

    def end_job(self, status: Status) -> None:
        """Write the status to the log, and delete what is not kept (PROTOCOL R31)."""
        self._coordinator.end_job(status)

    # ---- the completing thread

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete and its sinks are committed."""
        for stats in self._coordinator.history():
            if stats.checkpoint_id == checkpoint_id:
                self._driver_log.write("checkpoint", completed_text(stats), attempt=self._attempt)
        self.release_completed()

    def aborted(self, checkpoint_id: int, reason: str) -> None:
        """A checkpoint was given up; the next one covers its epochs too."""
        text = f"checkpoint {checkpoint_id} was aborted: {reason}"
        self._driver_log.write("checkpoint", text, level="WARN", attempt=self._attempt)
        self._write_figures()

    def release_completed(self) -> None:
        """What the newest completed checkpoint covers is final."""
        newest = self._coordinator.newest_completed
        if newest is not None:
            self._release(newest.epoch)
        self._write_sizes()
        self._write_figures()
        slow = self._slow.warning(self._coordinator.history())
        if slow is not None:
            print_warning(slow)

    def _write_sizes(self) -> None:
        """Once per checkpoint: with many key groups this is much more than the record."""
        sizes = self._coordinator.state_sizes
        if sizes is not None and sizes is not self._written_sizes:
            self._written_sizes = sizes
            with suppress(StorageError):
                self._registry.write_sizes(self._job_id, sizes)

    def _write_figures(self) -> None:
        if self._coordinator.can_recover:  # otherwise the figures of another driver could be there
            with suppress(StorageError):
                figures = self._history.add_checkpoints(self._coordinator.history())
                self._registry.write_checkpoints(self._job_id, figures)


def completed_text(stats: CheckpointStats) -> str:
    """A completed checkpoint, for the log."""
    return (
        f"checkpoint {stats.checkpoint_id} completed in {stats.duration_ms} ms: {stats.written_bytes} bytes written, "
        f"{stats.full_bytes} bytes in all"
    )
