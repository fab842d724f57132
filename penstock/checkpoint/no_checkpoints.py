"""A job without checkpoints: a log and a coordinator that do nothing, so that callers need no checks for one.

Each epoch of such a job commits its own output. Savepoints can be taken; a new attempt starts from the beginning, or
from the snapshot that the job was started with.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeAlias

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.log.entries import Entry, Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.errors import UsageError
from penstock.model.ids import CheckpointId, SubtaskId
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    Manifest,
    SourcePosition,
    StateSize,
)
from penstock.storage.memory import MemoryStorage


class NoJobLog:
    """Keeps no entry and is never fenced."""

    in_doubt = False

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        """Holds nothing."""

    def view(self) -> LogView:
        """An empty log."""
        return LogView()

    def append(self, entry: Entry) -> int:
        """Nothing: the entry is lost with the attempt."""
        return 0

    def check_fenced(self, *, max_age_s: float = 0.0) -> None:
        """Nothing: nobody else can own the job."""

    def wait(self, seconds: float) -> None:
        """Pause before a write without a reply is tried again."""
        time.sleep(seconds)


class NoCheckpoints:
    """Starts no checkpoint, so nothing is ever pending and every epoch counts as covered."""

    can_recover = False
    needs_first_checkpoint = False
    is_due = False
    is_settled = True
    next_id = 0
    newest_completed: Manifest | None = None
    state_sizes: list[StateSize] | None = None

    def start(self, epoch: int, subtasks: Sequence[SubtaskId], *, forced: bool = False) -> CheckpointId | None:
        """No checkpoint, not even a forced one."""
        return None

    def check_fenced(self) -> None:
        """Nothing: nobody else can own the job."""

    def epoch_committed(self, record: EpochRecord) -> None:
        """Nothing: the epoch has committed its own output."""

    def abort(self, checkpoint_id: int, reason: FailureReason, detail: str = "") -> None:
        """Nothing is pending."""

    def close(self, reason: FailureReason) -> None:
        """Nothing is pending."""

    def request(self, *, full: bool = False) -> Future[CheckpointId]:
        """Raises UsageError."""
        raise UsageError("the job takes no checkpoints; call env.enable_checkpointing(…) in the program")

    def ack(self, ack: CheckpointAck) -> None:
        """No ack is expected."""

    def decline(self, decline: CheckpointDecline) -> None:
        """No decline is expected."""

    def complete_ready(self) -> list[CheckpointId]:
        """None."""
        return []

    def first_checkpoint(self, source: SourcePosition) -> None:
        """Not needed."""

    def end_job(self, status: Status) -> None:
        """Nothing is left to delete, and no log keeps the status."""

    def hold(self, checkpoint_id: int) -> None:
        """Nothing is pending."""

    def release(self, checkpoint_id: int) -> None:
        """Nothing is pending."""

    def savepoint_taken(self, checkpoint_id: int, request: SavepointRequest, path: str) -> None:
        """No checkpoint has figures to which this belongs."""

    def covers(self, epoch: int) -> bool:
        """Always: each epoch commits its own output."""
        return True

    def failure_of(self, checkpoint_id: int, epoch: int) -> str | None:
        """No checkpoint can fail."""
        return None

    def base_of(self, checkpoint_id: int) -> Manifest | None:
        """None."""
        return None

    def spool_after_ms(self, checkpoint_id: int | None, *, waiting: bool) -> int | None:
        """None: an epoch processes all its rows."""
        return None

    def history(self) -> tuple[CheckpointStats, ...]:
        """Empty."""
        return ()


AttemptLog: TypeAlias = JobLog | NoJobLog
"""The log of an attempt, with or without checkpoints."""
Coordinator: TypeAlias = CheckpointCoordinator | NoCheckpoints
"""The coordinator of an attempt, with or without checkpoints."""
