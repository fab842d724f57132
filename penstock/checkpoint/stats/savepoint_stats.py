"""Statistics of a savepoint."""

from penstock.checkpoint.pending_checkpoint import PendingSavepoint
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats


def savepoint_stats(
    pending: PendingSavepoint, now_ms: int, *, path: str | None = None, failure: str | None = None
) -> CheckpointStats:
    """The figures of a savepoint at its end."""
    acks = (pending.counted() or ()) if failure is None else ()
    parts = tuple(SubtaskStats.of(ack) for ack in acks)
    written = sum(part.written_bytes for part in parts)
    return CheckpointStats(
        checkpoint_id=pending.checkpoint_id,
        status="completed" if failure is None else "failed",
        trigger_ms=pending.started_ms,
        checkpoint_type="SYNC_SAVEPOINT" if pending.request.is_stop else "SAVEPOINT",
        written_bytes=written,
        full_bytes=written,
        alignment_ms=max((part.figures.alignment_ms for part in parts), default=0),
        failure=failure,
        manual=True,
        subtasks=len(pending.subtasks),
        acknowledged=len(parts),
        parts=parts,
        savepoint=pending.request.format,
        path=path,
    ).ended(now_ms)
