"""A job as JSON, with Flink's names."""

from typing import Any

from penstock.control.registry import FailureRecord, JobRecord, RescaleRecord
from penstock.control.running_job import ControlledJob, JobFacts, RunningJob
from penstock.graph.job_graph import StagePlan
from penstock.graph.plan_json import describe_plan
from penstock.model.execution import JobStatus

TASK_STATES = (
    "created",
    "scheduled",
    "deploying",
    "running",
    "finished",
    "canceling",
    "canceled",
    "failed",
    "reconciling",
    "initializing",
)
_TASK_STATES_OF = {
    JobStatus.RUNNING.name: "RUNNING",
    JobStatus.FINISHED.name: "FINISHED",
    JobStatus.CANCELLING.name: "CANCELING",
    JobStatus.CANCELED.name: "CANCELED",
    JobStatus.FAILED.name: "FAILED",
    JobStatus.INITIALIZING.name: "INITIALIZING",
}
NOT_YET = -1
"""Flink's end time of a job that has not ended."""


def job_id_and_status(record: JobRecord) -> dict[str, Any]:
    """One entry of /jobs."""
    return {"id": record.job_id, "status": record.status}


def job_overview(control: ControlledJob) -> dict[str, Any]:
    """One entry of /jobs/overview."""
    record, facts = control.job.record(), control.facts
    counts = _task_counts(record, sum(stage.parallelism for stage in facts.graph.stages))
    return {
        "jid": record.job_id,
        "name": record.name,
        "jobType": "STREAMING",
        "schedulerType": "Default",
        **_times(record),
        "state": record.status,
        "last-modification": _entered(record),
        "tasks": {"total": sum(counts.values()), **counts},
        "pending-operators": 0,
    }


def job_details(control: ControlledJob, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid."""
    record, facts = control.job.record(), control.facts
    vertices = [_vertex(record, stage) for stage in facts.graph.stages]
    states = [vertex["status"] for vertex in vertices]
    return {
        "jid": record.job_id,
        "name": record.name,
        "isStoppable": not record.ended,
        "state": record.status,
        "job-type": "STREAMING",
        "schedulerType": "Default",
        **_times(record),
        "maxParallelism": facts.graph.max_parallelism,
        "now": now_ms,
        "timestamps": _timestamps(record),
        "vertices": vertices,
        "status-counts": {state.upper(): states.count(state.upper()) for state in TASK_STATES},
        "plan": job_plan(record, facts),
        "pending-operators": 0,
    }


def job_figures(job: RunningJob, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid/figures: how the job is doing, and its last epochs."""
    record = job.record()
    return {
        "now": now_ms,
        "state": record.status,
        "start-time": record.started_ms,
        "attempt": record.attempt,
        "phase": None if record.phase is None else str(record.phase),
        "parallelism": record.parallelism,
        "epoch": record.epoch,
        "rows": record.rows,
        "epoch-rows": record.epoch_rows,
        "rows-per-s": record.rows_per_s,
        "rows-late": record.rows_late,
        "rows-dropped": record.rows_dropped,
        "has-backlog": record.has_backlog,
        "watermark": record.watermark,
        "last-checkpoint": record.last_checkpoint,
        "checkpoint-dir": record.checkpoint_dir,
        "failure": record.failure,
        "processes": record.processes,
        "subtasks": record.subtasks,
        "epochs": job.epochs(),
    }


def job_plan(record: JobRecord, facts: JobFacts) -> dict[str, Any]:
    """The job's graph, as in `get_execution_plan`."""
    nodes = [{**node, "id": str(node["id"])} for node in describe_plan(facts.graph)["nodes"]]
    return {"jid": record.job_id, "name": record.name, "type": "STREAMING", "nodes": nodes}


def exception_history(record: JobRecord, most: int) -> dict[str, Any]:
    """/jobs/:jobid/exceptions, newest first."""
    newest = list(reversed(record.failures))
    entries = [_exception(failure) for failure in newest[:most]]
    return {"exceptionHistory": {"entries": entries, "truncated": len(newest) > most}}


def _exception(failure: FailureRecord) -> dict[str, Any]:
    cause = f"\nCaused by: {failure.root_cause}" if failure.root_cause is not None else ""
    return {
        "exceptionName": failure.error,
        "stacktrace": f"{failure.message}{cause}",
        "timestamp": failure.at_ms,
        "failureLabels": {"attempt": str(failure.attempt)},
        "taskName": None,
        "endpoint": None,
        "taskManagerId": None,
        "concurrentExceptions": [],
    }


def _vertex(record: JobRecord, stage: StagePlan) -> dict[str, Any]:
    return {
        "id": stage.id,
        "slotSharingGroupId": stage.id,
        "name": stage.name,
        "maxParallelism": stage.max_parallelism,
        "parallelism": stage.parallelism,
        "status": _task_state(record),
        **_times(record),
        "tasks": {state.upper(): count for state, count in _task_counts(record, stage.parallelism).items()},
        "metrics": _unknown_metrics(),
    }


def _unknown_metrics() -> dict[str, Any]:
    """Flink's metrics of an operator. They are not measured here, and `…-complete` says so."""
    names = ("read-bytes", "write-bytes", "read-records", "write-records")
    counts = {key: value for name in names for key, value in ((name, 0), (f"{name}-complete", False))}
    times = ("accumulated-backpressured-time", "accumulated-idle-time", "accumulated-busy-time")
    return {**counts, **dict.fromkeys(times)}


def _task_state(record: JobRecord) -> str:
    return _TASK_STATES_OF.get(record.status, "CREATED")


def _task_counts(record: JobRecord, total: int) -> dict[str, int]:
    own = _task_state(record).lower()
    return {state: total if state == own else 0 for state in TASK_STATES}


def _times(record: JobRecord) -> dict[str, int]:
    ended_ms = record.ended_ms if record.ended_ms is not None else NOT_YET
    last_ms = record.ended_ms if record.ended_ms is not None else record.updated_ms
    return {"start-time": record.started_ms, "end-time": ended_ms, "duration": max(0, last_ms - record.started_ms)}


def _timestamps(record: JobRecord) -> dict[str, int]:
    """The time when the job last entered each status; 0 if it never did."""
    found = dict.fromkeys((status.name for status in JobStatus), 0)
    found.update({change.status: change.at_ms for change in record.transitions})
    return found


def _entered(record: JobRecord) -> int:
    return record.transitions[-1].at_ms if record.transitions else record.started_ms


def rescaled(result: object) -> dict[str, Any]:
    """A rescale that has ended."""
    assert isinstance(result, RescaleRecord)
    return {
        "from": result.before,
        "to": result.after,
        "checkpointId": result.checkpoint,
        "pause-ms": result.pause_ms,
    }
