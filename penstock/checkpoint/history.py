"""Figures of the last checkpoints, for people to look at."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

HISTORY_LENGTH = 10


@dataclass(frozen=True)
class CheckpointStats:
    """One checkpoint: `status` is in_progress, completed or failed."""

    checkpoint_id: int
    status: str
    trigger_ms: int
    complete_ms: int | None = None
    written_bytes: int = 0
    failure: str | None = None
    manual: bool = False
    """Somebody asked for it."""
    subtasks: int = 0
    acknowledged: int = 0
    """How many of the subtasks had sent their part when it ended."""

    @property
    def duration_ms(self) -> int | None:
        """From the trigger to the end; None while it is in progress."""
        return None if self.complete_ms is None else max(0, self.complete_ms - self.trigger_ms)


class CheckpointHistory:
    """The last ten checkpoints, oldest first, and how many there were of each end."""

    def __init__(self) -> None:
        self._entries: deque[CheckpointStats] = deque(maxlen=HISTORY_LENGTH)
        self.completed_count = 0
        self.failed_count = 0

    def entries(self) -> tuple[CheckpointStats, ...]:
        """A copy that does not change."""
        return tuple(self._entries)

    def started(self, checkpoint_id: int, now_ms: int, *, subtasks: int = 0, manual: bool = False) -> None:
        """Note that one begins."""
        self._entries.append(CheckpointStats(checkpoint_id, "in_progress", now_ms, manual=manual, subtasks=subtasks))

    def completed(self, checkpoint_id: int, now_ms: int, written_bytes: int) -> None:
        """Note that one exists."""
        self.completed_count += 1
        self._change(
            checkpoint_id,
            lambda entry: replace(
                entry,
                status="completed",
                complete_ms=now_ms,
                written_bytes=written_bytes,
                acknowledged=entry.subtasks,
            ),
        )

    def failed(self, checkpoint_id: int, now_ms: int, failure: str, acknowledged: int = 0) -> None:
        """Note that one was aborted, and why."""
        self.failed_count += 1
        self._change(
            checkpoint_id,
            lambda entry: replace(
                entry, status="failed", complete_ms=now_ms, failure=failure, acknowledged=acknowledged
            ),
        )

    def _change(self, checkpoint_id: int, change: Callable[[CheckpointStats], CheckpointStats]) -> None:
        for position, entry in enumerate(self._entries):
            if entry.checkpoint_id == checkpoint_id:
                self._entries[position] = change(entry)
