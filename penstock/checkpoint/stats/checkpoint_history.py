"""Statistics of the last checkpoints."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock.model.ids import SubtaskId
from penstock.model.snapshot import BarrierFigures, CheckpointAck, SavepointAck, snapshot_files

HISTORY_LENGTH = 10


class SubtaskStats(msgspec.Struct, frozen=True):
    """One subtask's part of a checkpoint or savepoint."""

    subtask: SubtaskId
    figures: BarrierFigures
    sync_ms: int
    async_ms: int
    written_bytes: int
    full_bytes: int = 0
    """Of all its files, including those of older checkpoints."""

    @staticmethod
    def of(ack: CheckpointAck | SavepointAck) -> "SubtaskStats":
        """The figures in its ack."""
        sync_ms, async_ms = round(1000 * ack.sync_s), round(1000 * ack.async_s)
        full_bytes = sum(file.size for file in snapshot_files(ack.snapshot))
        return SubtaskStats(ack.snapshot.subtask, ack.figures, sync_ms, async_ms, ack.written_bytes, full_bytes)

    @property
    def duration_ms(self) -> int:
        """From the start of the epoch in the JobManager until its files were written."""
        return self.figures.start_delay_ms + self.figures.alignment_ms + self.sync_ms + self.async_ms


class CheckpointStats(msgspec.Struct, frozen=True):
    """One checkpoint: `status` is in_progress, completed or failed."""

    checkpoint_id: int
    status: str
    trigger_ms: int
    complete_ms: int | None = None
    duration_ms: int | None = None
    """From the trigger to the end; None while it is in progress."""
    checkpoint_type: str = "CHECKPOINT"
    """Flink's word: UNALIGNED_CHECKPOINT if the barrier has overtaken rows."""
    written_bytes: int = 0
    full_bytes: int = 0
    """Of all its files, including those of older checkpoints."""
    alignment_ms: int = 0
    """Of the subtask that waited longest for the barriers of all its channels."""
    persisted_bytes: int = 0
    """Of rows in flight."""
    failure: str | None = None
    manual: bool = False
    """It was requested."""
    subtasks: int = 0
    acknowledged: int = 0
    """How many subtasks had written their part when it ended."""
    parts: tuple[SubtaskStats, ...] = ()
    savepoint: str = ""
    """canonical or native, if one was taken at its barrier."""
    path: str | None = None
    """Of a savepoint, once it exists."""

    metadata_bytes: int = 0
    """Of its manifest."""

    def ended(self, now_ms: int) -> "CheckpointStats":
        """The same, at its end."""
        return msgspec.structs.replace(self, complete_ms=now_ms, duration_ms=max(0, now_ms - self.trigger_ms))


class CheckpointHistory:
    """The last ten checkpoints, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[CheckpointStats] = deque(maxlen=HISTORY_LENGTH)

    def entries(self) -> tuple[CheckpointStats, ...]:
        """A copy that does not change."""
        return tuple(self._entries)

    def started(self, checkpoint_id: int, now_ms: int, *, subtasks: int = 0, manual: bool = False) -> None:
        """Note that a checkpoint has started."""
        self._entries.append(CheckpointStats(checkpoint_id, "in_progress", now_ms, manual=manual, subtasks=subtasks))

    def completed(
        self, checkpoint_id: int, now_ms: int, acks: Iterable[CheckpointAck] = (), *, metadata_bytes: int = 0
    ) -> None:
        """Note that a checkpoint exists, with the figures of its subtasks."""
        parts = tuple(SubtaskStats.of(ack) for ack in acks)
        is_unaligned = any(part.figures.in_flight_rows for part in parts)
        self._change(
            checkpoint_id,
            lambda entry: msgspec.structs.replace(
                entry.ended(now_ms),
                status="completed",
                acknowledged=entry.subtasks,
                checkpoint_type="UNALIGNED_CHECKPOINT" if is_unaligned else "CHECKPOINT",
                metadata_bytes=metadata_bytes,
                **figures_of(parts),
            ),
        )

    def saved(self, checkpoint_id: int, savepoint: str, path: str, *, stops: bool) -> None:
        """Note that the savepoint at a checkpoint's barrier exists; the job stops with it or goes on."""
        kind = "SYNC_SAVEPOINT" if stops else "SAVEPOINT"
        self._change(
            checkpoint_id,
            lambda entry: msgspec.structs.replace(entry, savepoint=savepoint, path=path, checkpoint_type=kind),
        )

    def failed(self, checkpoint_id: int, now_ms: int, failure: str, acks: Iterable[CheckpointAck] = ()) -> None:
        """Note that a checkpoint was aborted, and why, with the figures of the subtasks that had written their part."""
        parts = tuple(SubtaskStats.of(ack) for ack in acks)
        self._change(
            checkpoint_id,
            lambda entry: msgspec.structs.replace(
                entry.ended(now_ms), status="failed", failure=failure, acknowledged=len(parts), **figures_of(parts)
            ),
        )

    def _change(self, checkpoint_id: int, change: Callable[[CheckpointStats], CheckpointStats]) -> None:
        for position, entry in enumerate(self._entries):
            if entry.checkpoint_id == checkpoint_id:
                self._entries[position] = change(entry)


def figures_of(parts: tuple[SubtaskStats, ...]) -> dict[str, Any]:
    """The fields that add up those of the subtasks."""
    return {
        "written_bytes": sum(part.written_bytes for part in parts),
        "full_bytes": sum(part.full_bytes for part in parts),
        "alignment_ms": max((part.figures.alignment_ms for part in parts), default=0),
        "persisted_bytes": sum(part.figures.persisted_bytes for part in parts),
        "parts": parts,
    }
