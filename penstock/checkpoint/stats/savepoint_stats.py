"""Statistics of a savepoint."""

from penstock.checkpoint.pending_checkpoint import PendingSavepoint
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats, figures_of


def savepoint_stats(
    pending: PendingSavepoint, now_ms: int, *, path: str | None = None, failure: str | None = None
) -> CheckpointStats:
    """The figures of a savepoint at its end."""
    parts = tuple(SubtaskStats.of(ack) for ack in pending.acknowledged())
    return CheckpointStats(
        checkpoint_id=pending.checkpoint_id,
        status="completed" if failure is None else "failed",
        trigger_ms=pending.started_ms,
        checkpoint_type="SYNC_SAVEPOINT" if pending.request.is_stop else "SAVEPOINT",
        failure=failure,
        manual=True,
        subtasks=len(pending.subtasks),
        acknowledged=len(parts),
        savepoint=pending.request.format,
        path=path,
        **figures_of(parts),
    ).ended(now_ms)
