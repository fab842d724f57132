"""Checkpoints as JSON, with Flink's names."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.control.running_job import JobFacts
from penstock.graph.job_graph import StagePlan
from penstock.model.execution import ExternalizedCheckpointRetention
from penstock.state.backend.backend_registry import find_backend

NOT_ADDRESSABLE = "<checkpoint-not-externally-addressable>"
"""Flink's path of a checkpoint in the JobManager's memory."""
NEVER_MS = 9223372036854775807
"""Flink's interval without periodic checkpoints."""
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def checkpoint_statistics(report: CheckpointReport, facts: JobFacts) -> dict[str, Any]:
    """/jobs/:jobid/checkpoints: newest first."""
    restore = report.latest_restore
    return {
        "counts": {
            "restored": report.restored,
            "total": report.completed + report.failed + report.in_progress,
            "in_progress": report.in_progress,
            "completed": report.completed,
            "failed": report.failed,
        },
        "summary": {
            "checkpointed_size": summary(figure.written_bytes for figure in report.figures),
            "state_size": summary(figure.full_bytes for figure in report.figures),
            "end_to_end_duration": summary(figure.duration_ms for figure in report.figures),
            "alignment_buffered": summary(0 for _ in report.figures),
            "processed_data": summary(figure.processed_bytes for figure in report.figures),
            "persisted_data": summary(figure.persisted_bytes for figure in report.figures),
        },
        "latest": {
            "completed": _or_none(report.latest_completed, report, facts),
            "savepoint": _or_none(report.latest_savepoint, report, facts),
            "failed": _or_none(report.latest_failed, report, facts),
            "restored": None
            if restore is None
            else {
                "id": restore.checkpoint_id,
                "restore_timestamp": restore.at_ms,
                "is_savepoint": restore.is_savepoint,
                "external_path": restore.path,
            },
        },
        "history": [checkpoint(stats, report, facts) for stats in newest_first(report)],
    }


def newest_first(report: CheckpointReport) -> list[CheckpointStats]:
    """Checkpoints and savepoints together. A checkpoint that was only taken for a savepoint is not listed beside it."""
    taken = {stats.checkpoint_id for stats in report.savepoints}
    others = [stats for stats in report.history if not (stats.savepoint and stats.checkpoint_id in taken)]
    return sorted((*others, *report.savepoints), key=lambda stats: stats.trigger_ms, reverse=True)


def summary(values: Iterable[int]) -> dict[str, Any]:
    """Minimum, maximum, mean and percentiles; zeros without values, as in Flink.

    >>> summary(range(1, 101))["p90"], summary([])["p999"]
    (90, 0)
    """
    found = sorted(values) or [0]
    ranks = {name: found[math.ceil(share * len(found)) - 1] for name, share in _PERCENTILES.items()}
    return {"min": found[0], "max": found[-1], "avg": sum(found) // len(found), **ranks}


def checkpoint(stats: CheckpointStats, report: CheckpointReport, facts: JobFacts) -> dict[str, Any]:
    """One checkpoint, with its tasks."""
    view = {
        "className": stats.status,
        "id": stats.checkpoint_id,
        "status": stats.status.upper(),
        "is_savepoint": bool(stats.savepoint),
        "savepointFormat": stats.savepoint.upper() or None,
        "trigger_timestamp": stats.trigger_ms,
        "checkpoint_type": stats.checkpoint_type,
        **_sizes(stats.parts),
        "latest_ack_timestamp": _latest_ack_ms(stats, stats.parts),
        "end_to_end_duration": _duration_ms(stats),
        "checkpointed_size": stats.written_bytes,
        "state_size": stats.full_bytes,
        "num_subtasks": stats.subtasks,
        "num_acknowledged_subtasks": stats.acknowledged,
        "tasks": {stage.id: _task(stage, stats) for stage in facts.graph.stages},
    }
    if stats.status == "completed":
        view["external_path"] = external_path(stats, facts)
        view["discarded"] = is_discarded(stats, report)
    if stats.status == "failed":
        view["failure_timestamp"] = stats.complete_ms
        view["failure_message"] = stats.failure
    return view


def subtask_statistics(stats: CheckpointStats, stage_id: str, facts: JobFacts) -> dict[str, Any]:
    """/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid."""
    stage = facts.graph.stage(stage_id)
    parts = _parts_of(stage_id, stats)
    by_index = {part.subtask.index: part for part in parts}
    return {
        **_task(stage, stats),
        "summary": {
            "checkpointed_size": _spread(parts, lambda part: part.written_bytes),
            "state_size": _spread(parts, lambda part: part.full_bytes),
            "end_to_end_duration": _spread(parts, lambda part: part.duration_ms),
            "checkpoint_duration": {
                "sync": _spread(parts, lambda part: part.sync_ms),
                "async": _spread(parts, lambda part: part.async_ms),
            },
            "alignment": {
                "buffered": _spread(parts, lambda part: 0),
                "processed": _spread(parts, lambda part: part.figures.processed_bytes),
                "persisted": _spread(parts, lambda part: part.figures.persisted_bytes),
                "duration": _spread(parts, lambda part: part.figures.alignment_ms),
            },
            "start_delay": _spread(parts, lambda part: part.figures.start_delay_ms),
        },
        "subtasks": [_subtask(index, by_index.get(index), stats) for index in range(_parallelism(stage, stats))],
    }


def checkpoint_config(facts: JobFacts) -> dict[str, Any]:
    """/jobs/:jobid/checkpoints/config."""
    chosen = facts.checkpoints or CheckpointSettings(None)
    retention = chosen.retention or ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    is_memory = facts.checkpoint_dir is None
    return {
        "mode": chosen.mode.name.lower(),
        "interval": chosen.interval_ms if chosen.interval_ms is not None else NEVER_MS,
        "timeout": chosen.timeout_ms,
        "min_pause": chosen.min_pause_ms,
        "max_concurrent": chosen.max_concurrent,
        "externalization": {
            "enabled": retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
            "delete_on_cancellation": retention is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
        },
        "state_backend": find_backend(facts.backend).class_name,
        "checkpoint_storage": "JobManagerCheckpointStorage" if is_memory else "FileSystemCheckpointStorage",
        "unaligned_checkpoints": chosen.unaligned,
        "tolerable_failed_checkpoints": chosen.tolerable_failures,
        "aligned_checkpoint_timeout": chosen.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": None,
        "changelog_storage": None,
    }


def external_path(stats: CheckpointStats, facts: JobFacts) -> str:
    """The path of a completed checkpoint or savepoint."""
    if stats.path is not None:
        return stats.path
    if facts.checkpoint_dir is None:
        return NOT_ADDRESSABLE
    return f"{facts.checkpoint_dir}/chk-{stats.checkpoint_id}"


def is_discarded(stats: CheckpointStats, report: CheckpointReport) -> bool:
    """Return whether its files were deleted; those of a savepoint belong to the user."""
    return not stats.savepoint and report.retained is not None and stats.checkpoint_id not in report.retained


def _or_none(stats: CheckpointStats | None, report: CheckpointReport, facts: JobFacts) -> dict[str, Any] | None:
    return None if stats is None else checkpoint(stats, report, facts)


def _parallelism(stage: StagePlan, stats: CheckpointStats) -> int:
    """That of the checkpoint. The stage may have been rescaled since; all subtasks of a complete one have a part."""
    parts = _parts_of(stage.id, stats)
    return len(parts) if parts and stats.status == "completed" else stage.parallelism


def _task(stage: StagePlan, stats: CheckpointStats) -> dict[str, Any]:
    parts = _parts_of(stage.id, stats)
    return {
        "id": stats.checkpoint_id,
        "status": stats.status.upper(),
        **_sizes(parts),
        "latest_ack_timestamp": _latest_ack_ms(stats, parts),
        "end_to_end_duration": max((part.duration_ms for part in parts), default=_duration_ms(stats)),
        "alignment_duration": max((part.figures.alignment_ms for part in parts), default=0),
        "num_subtasks": _parallelism(stage, stats),
        "num_acknowledged_subtasks": len(parts),
    }


def _subtask(index: int, part: SubtaskStats | None, stats: CheckpointStats) -> dict[str, Any]:
    if part is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": stats.trigger_ms + part.duration_ms,
        "end_to_end_duration": part.duration_ms,
        "checkpointed_size": part.written_bytes,
        "state_size": part.full_bytes,
        "checkpoint": {"sync": part.sync_ms, "async": part.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": part.figures.processed_bytes,
            "persisted": part.figures.persisted_bytes,
            "duration": part.figures.alignment_ms,
        },
        "start_delay": part.figures.start_delay_ms,
        "unaligned_checkpoint": part.figures.in_flight_rows > 0,
        "aborted": False,
    }


def _sizes(parts: Sequence[SubtaskStats]) -> dict[str, Any]:
    return {
        "checkpointed_size": sum(part.written_bytes for part in parts),
        "state_size": sum(part.full_bytes for part in parts),
        "alignment_buffered": 0,
        "processed_data": sum(part.figures.processed_bytes for part in parts),
        "persisted_data": sum(part.figures.persisted_bytes for part in parts),
    }


def _spread(parts: Sequence[SubtaskStats], figure: Callable[[SubtaskStats], int]) -> dict[str, Any]:
    return summary(figure(part) for part in parts)


def _parts_of(stage_id: str, stats: CheckpointStats) -> list[SubtaskStats]:
    return [part for part in stats.parts if part.subtask.stage == stage_id]


def _latest_ack_ms(stats: CheckpointStats, parts: Sequence[SubtaskStats]) -> int:
    """The time of the last acknowledgement, from the subtasks' durations; -1 if there is none."""
    return max((stats.trigger_ms + part.duration_ms for part in parts), default=-1)


def _duration_ms(stats: CheckpointStats) -> int:
    return stats.duration_ms if stats.duration_ms is not None else -1
