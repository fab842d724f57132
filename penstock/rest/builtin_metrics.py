"""The metrics that every job has, with Flink's names: of the job, its TaskManagers, its subtasks and their operators.

Times are milliseconds, except for the two whose names Flink gives to nanoseconds. Flink has no metrics of epochs.
"""

from collections.abc import Iterator

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.control.process_figures import process_figures
from penstock.control.registry import JobRecord, ProcessRecord
from penstock.control.running_job import JobFacts
from penstock.graph.job_graph import StagePlan
from penstock.model.metric_readings import Figure
from penstock.model.units import NANOSECONDS_PER_MS
from penstock.rest.checkpoint_views import external_path
from penstock.rest.job_times import job_times
from penstock.rest.metric_names import operator_names
from penstock.rest.vertex_views import figures_of_stage


def job_metrics(record: JobRecord, report: CheckpointReport, facts: JobFacts) -> dict[str, Figure]:
    """/jobs/:jobid/metrics. A metric of the last checkpoint is missing before the first one."""
    found: dict[str, Figure] = {
        "numRestarts": max(0, record.attempt - 1),
        "uptime": job_times(record)["duration"],
        "numRecordsIn": record.rows,
        "numRecordsInPerSecond": record.rows_per_s,
        "numLateRecordsDropped": record.rows_late,
        "numUntimedRecordsDropped": record.rows_dropped,
        "currentEpoch": record.epoch,
        "numberOfInProgressCheckpoints": report.in_progress,
        "numberOfCompletedCheckpoints": report.completed,
        "numberOfFailedCheckpoints": report.failed,
        "totalNumberOfCheckpoints": report.completed + report.failed + report.in_progress,
    }
    if record.watermark is not None:
        found["currentWatermark"] = record.watermark
        found["watermarkLag"] = max(0, record.updated_ms - record.watermark)
    if record.last_epoch is not None:
        phases = record.last_epoch.phases
        found["lastEpochDuration"] = record.last_epoch.committed_ms - record.last_epoch.started_ms
        found |= {_phase_name(field): getattr(phases, field) for field in phases.__struct_fields__}
    if report.latest_completed is not None:
        found |= _last_checkpoint(report.latest_completed, facts)
    if report.latest_restore is not None:
        found["lastCheckpointRestoreTimestamp"] = report.latest_restore.at_ms
    return found


def _phase_name(field: str) -> str:
    """
    >>> _phase_name("scheduling_ms")
    'lastEpochScheduling'
    """
    return f"lastEpoch{field.removesuffix('_ms').title()}"


def _last_checkpoint(stats: CheckpointStats, facts: JobFacts) -> dict[str, Figure]:
    return {
        "lastCompletedCheckpointId": stats.checkpoint_id,
        "lastCheckpointCompletedTimestamp": stats.complete_ms or 0,
        "lastCheckpointDuration": stats.duration_ms or 0,
        "lastCheckpointSize": stats.written_bytes,
        "lastCheckpointFullSize": stats.full_bytes,
        "lastCheckpointMetadataSize": stats.metadata_bytes,
        "lastCheckpointProcessedData": sum(part.figures.processed_bytes for part in stats.parts),
        "lastCheckpointPersistedData": stats.persisted_bytes,
        "lastCheckpointExternalPath": external_path(stats, facts),
    }


def taskmanager_metrics(record: JobRecord, process: ProcessRecord) -> dict[str, Figure]:
    """/taskmanagers/:taskmanagerid/metrics: sums over its subtasks, and what the machine says of the process."""
    own = [one for one in record.subtasks if f"{one.vertex}/{one.subtask}" in process.subtasks]
    return {
        "numRecordsIn": sum(one.rows_in for one in own),
        "numRecordsOut": sum(one.rows_out for one in own),
        "numRecordsInPerSecond": sum(one.rows_in_per_s for one in own),
        "numRecordsOutPerSecond": sum(one.rows_out_per_s for one in own),
        "numRecordsWaiting": sum(one.rows_waiting for one in own),
        **process_figures(process, record.updated_ms),
    }


def subtask_metrics(record: JobRecord, report: CheckpointReport, stage: StagePlan) -> Iterator[tuple[int, str, Figure]]:
    """Index of the subtask, name and value."""
    parts = report.latest_completed.parts if report.latest_completed is not None else ()
    barriers = {part.subtask.index: part.figures for part in parts if part.subtask.stage == stage.id}
    names = operator_names(stage)
    for one in figures_of_stage(record, stage):
        found: dict[str, Figure] = {
            "numRecordsIn": one.rows_in,
            "numRecordsOut": one.rows_out,
            "numRecordsInPerSecond": one.rows_in_per_s,
            "numRecordsOutPerSecond": one.rows_out_per_s,
            "busyTimeMsPerSecond": one.busy_ms_per_s,
            "backPressuredTimeMsPerSecond": one.back_pressured_ms_per_s,
            "idleTimeMsPerSecond": one.idle_ms_per_s,
            "accumulateBusyTimeMs": one.busy_ms,
            "accumulateBackPressuredTimeMs": one.back_pressured_ms,
            "accumulateIdleTimeMs": one.idle_ms,
            "numRecordsWaiting": one.rows_waiting,
        }
        if one.watermark is not None:
            found["currentInputWatermark"] = one.watermark
            found["watermarkLag"] = max(0, record.updated_ms - one.watermark)
        if one.subtask in barriers:
            found["checkpointAlignmentTime"] = barriers[one.subtask].alignment_ms * NANOSECONDS_PER_MS
            found["checkpointStartDelayNanos"] = barriers[one.subtask].start_delay_ms * NANOSECONDS_PER_MS
        for plan, passed in zip(stage.operators, one.operators, strict=False):
            found[f"{names[plan.uid]}.numRecordsIn"] = passed.rows_in
            found[f"{names[plan.uid]}.numRecordsOut"] = passed.rows_out
        for name, value in found.items():
            yield one.subtask, name, value
