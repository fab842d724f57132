"""The history of a job: its statuses, its failures, its checkpoints over all attempts (features P7)."""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.file_names import CHECKPOINT_FOLDERS
from penstock.checkpoint.stats.checkpoint_history import HISTORY_LENGTH, CheckpointStats
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport, CheckpointTally, RestoreStats
from penstock.clock import Clock
from penstock.control.registry import FailureRecord, Registry, StatusChange
from penstock.errors import JobNotFoundError, PenstockError, StorageError, UserFunctionError
from penstock.jobmanager.attempt.attempt import Attempt
from penstock.model.execution import JobStatus
from penstock.model.options import checkpointing_options

FAILURE_COUNT = 16
TRANSITION_COUNT = 64
MESSAGE_CHARS = 4000
"""Of a failure's message; the whole message is in driver.log."""


class JobHistory:
    """Thread safe. A terminal status is the last one."""

    def __init__(
        self, clock: Clock, failures: Iterable[FailureRecord] = (), checkpoints: Iterable[CheckpointStats] = ()
    ) -> None:
        """`failures` and `checkpoints` are those that older drivers of the job have recorded."""
        self._clock = clock
        self._lock = threading.Lock()
        self._transitions: deque[StatusChange] = deque(maxlen=TRANSITION_COUNT)
        self._failures = deque(failures, maxlen=FAILURE_COUNT)
        self._checkpoints = {stats.checkpoint_id: stats for stats in checkpoints}
        self._tally = CheckpointTally()
        self._tally.note(self._checkpoints.values())
        self._status = JobStatus.INITIALIZING
        self.enter(JobStatus.INITIALIZING)

    @property
    def status(self) -> JobStatus:
        """The current status."""
        return self._status

    def enter(self, status: JobStatus) -> None:
        """Change the status. A job that is being cancelled only gets a terminal one, which then stays."""
        with self._lock:
            is_leaving = self._status is JobStatus.CANCELLING and not status.is_terminal_state()
            if not self._status.is_terminal_state() and not is_leaving:
                self._status = status
                self._transitions.append(StatusChange(status.name, self._clock.now_ms()))

    def failed(self, error: BaseException, attempt: int) -> bool:
        """An attempt has ended with this error. False if the attempt before it ended in the same way."""
        record = failure_record(error, attempt, self._clock.now_ms())
        with self._lock:
            before = self._failures[-1] if self._failures else None
            self._failures.append(record)
        return before is None or (before.error, before.root_cause) != (record.error, record.root_cause)

    def add_checkpoints(self, of_attempt: Iterable[CheckpointStats]) -> list[CheckpointStats]:
        """The last checkpoints of the job, oldest first, updated with those of the running attempt."""
        with self._lock:
            known = {stats.checkpoint_id: stats for stats in of_attempt}
            self._tally.note(known.values())
            self._checkpoints.update(known)
            for number in sorted(self._checkpoints)[:-HISTORY_LENGTH]:
                del self._checkpoints[number]
            return [self._checkpoints[number] for number in sorted(self._checkpoints)]

    def restored(self, attempt: Attempt) -> None:
        """An attempt begins from a checkpoint or savepoint; not recorded for a job without checkpoints."""
        manifest, storage = attempt.manifest, attempt.storage
        if manifest is None or storage is None:
            return
        path = attempt.origin.path or f"{storage.uri}/{CHECKPOINT_FOLDERS}{manifest.checkpoint_id}"
        now_ms, is_savepoint = self._clock.now_ms(), bool(manifest.savepoint)
        self._tally.restore(RestoreStats(manifest.checkpoint_id, now_ms, is_savepoint, path))

    def report(
        self,
        of_attempt: Iterable[CheckpointStats],
        savepoints: Sequence[CheckpointStats],
        retained: frozenset[int] | None,
    ) -> CheckpointReport:
        """Everything that is known about the job's checkpoints and savepoints now."""
        return self._tally.report(self.add_checkpoints(of_attempt), savepoints[-HISTORY_LENGTH:], retained)

    def transitions(self) -> list[StatusChange]:
        """The last statuses, oldest first."""
        with self._lock:
            return list(self._transitions)

    def failures(self) -> list[FailureRecord]:
        """The last failures, oldest first."""
        with self._lock:
            return list(self._failures)

    def figures(self) -> dict[str, Any]:
        """What the job's record says of its history."""
        return {"transitions": self.transitions(), "failures": self.failures()}


class SlowCheckpoints:
    """Warns once if several checkpoints in a row take longer than their interval."""

    IN_A_ROW = 3

    def __init__(self, settings: CheckpointSettings) -> None:
        self._interval_ms = settings.interval_ms
        self._has_warned = False

    def warning(self, history: Iterable[CheckpointStats]) -> str | None:
        """The warning about the last checkpoints; None if they were fast, or if there was a warning before."""
        durations = [stats.duration_ms or 0 for stats in history if stats.status == "completed"][-self.IN_A_ROW :]
        interval_ms = self._interval_ms
        if self._has_warned or interval_ms is None or len(durations) < self.IN_A_ROW or min(durations) <= interval_ms:
            return None
        self._has_warned = True
        return (
            f"the last {self.IN_A_ROW} checkpoints took {min(durations) / 1000:.1f} s and more, longer than the "
            f"interval of {interval_ms / 1000:g} s, so they follow each other without a pause; "
            f"set a longer {checkpointing_options.INTERVAL.key}, or {checkpointing_options.MIN_PAUSE.key}"
        )


def known_failures(registry: Registry, job_id: str) -> list[FailureRecord]:
    """Of a job that is resumed: what its older drivers recorded."""
    try:
        return registry.read(job_id).failures
    except (JobNotFoundError, StorageError):
        return []


def failure_record(error: BaseException, attempt: int, now_ms: int) -> FailureRecord:
    """A failure as it is shown: its class, its message, and its root cause."""
    if isinstance(error, UserFunctionError):
        return FailureRecord(now_ms, attempt, type(error).__name__, _end_of(str(error)), error.summary)
    root = error
    seen = {id(error)}
    while (cause := root.__cause__ or root.__context__) is not None and id(cause) not in seen:
        root = cause
        seen.add(id(cause))
    root_cause = None if root is error else f"{type(root).__name__}: {root}"[:MESSAGE_CHARS]
    return FailureRecord(now_ms, attempt, type(error).__name__, _end_of(str(error)), root_cause)


def last_line(error: BaseException) -> str:
    """One line for an error: its summary, the last line of its message, or its class if it has none."""
    if isinstance(error, PenstockError):
        return error.summary
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _end_of(text: str) -> str:
    """The end of a long message, where a traceback names the error."""
    return text if len(text) <= MESSAGE_CHARS else "… " + text[-MESSAGE_CHARS:]
