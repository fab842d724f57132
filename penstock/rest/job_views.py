"""A job as JSON, with Flink's names."""

from typing import Any

from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.control.registry import FailureRecord, JobRecord, RescaleRecord
from penstock.control.running_job import ControlledJob, JobFacts
from penstock.graph.plan_json import describe_plan
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from penstock.model.options.autoscale_options import AUTOSCALE, AUTOSCALE_MAX, AUTOSCALE_MIN
from penstock.rest.job_times import TASK_STATES, job_times, task_counts
from penstock.rest.vertex_views import vertex_summary


def job_id_and_status(record: JobRecord) -> dict[str, Any]:
    """One entry of /jobs."""
    return {"id": record.job_id, "status": record.status}


def job_overview(control: ControlledJob) -> dict[str, Any]:
    """One entry of /jobs/overview."""
    record, facts = control.job.record(), control.facts
    counts = task_counts(record, sum(stage.parallelism for stage in facts.graph.stages))
    return {
        "jid": record.job_id,
        "name": record.name,
        "jobType": "STREAMING",
        "schedulerType": "Default",
        **job_times(record),
        "state": record.status,
        "last-modification": _entered(record),
        "tasks": {"total": sum(counts.values()), **counts},
        "pending-operators": 0,
    }


def job_details(control: ControlledJob, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid."""
    record, facts = control.job.record(), control.facts
    vertices = [vertex_summary(record, stage) for stage in facts.graph.stages]
    states = [vertex["status"] for vertex in vertices]
    return {
        "jid": record.job_id,
        "name": record.name,
        "isStoppable": not record.ended,
        "state": record.status,
        "job-type": "STREAMING",
        "schedulerType": "Default",
        **job_times(record),
        "maxParallelism": facts.graph.max_parallelism,
        "now": now_ms,
        "timestamps": _timestamps(record),
        "vertices": vertices,
        "status-counts": {state.upper(): states.count(state.upper()) for state in TASK_STATES},
        "plan": job_plan(record, facts),
        "pending-operators": 0,
    }


def job_figures(control: ControlledJob, now_ms: int) -> dict[str, Any]:
    """What /jobs/:jobid/figures and every event have: how the job is doing, and its last epochs."""
    job = control.job
    record = job.record()
    return {
        "now": now_ms,
        "state": record.status,
        "ended": JobStatus[record.status].is_terminal_state(),
        "start-time": record.started_ms,
        "end-time": record.ended_ms,
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
        "checkpoints": None if control.facts.checkpoints is None else _tallies(job.checkpoints()),
        "failure": record.failure,
        "failures": len(record.failures),
        "rescale": record.rescale,
        "last-rescale-at": record.rescales[-1].at_ms if record.rescales else None,
        "processes": record.processes,
        "subtasks": record.subtasks,
        "epochs": job.epochs(),
    }


def _tallies(report: CheckpointReport) -> dict[str, int]:
    """A change of one of them means that there is a new checkpoint or savepoint to show."""
    return {
        "completed": report.completed,
        "failed": report.failed,
        "in-progress": report.in_progress,
        "savepoints": len(report.savepoints),
        "newest": max((stats.checkpoint_id for stats in (*report.history, *report.savepoints)), default=0),
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


def _timestamps(record: JobRecord) -> dict[str, int]:
    """The time when the job last entered each status; 0 if it never did."""
    found = dict.fromkeys((status.name for status in JobStatus), 0)
    found.update({change.status: change.at_ms for change in record.transitions})
    return found


def _entered(record: JobRecord) -> int:
    return record.transitions[-1].at_ms if record.transitions else record.started_ms


def rescales(control: ControlledJob) -> dict[str, Any]:
    """The parallelism now, and the last changes of it, oldest first; also those that were given up."""
    record = control.job.record()
    return {
        "parallelism": record.parallelism,
        "autoscaler": _autoscaler(control.facts),
        "rescales": [
            {
                "timestamp": rescale.at_ms,
                "from": rescale.before,
                "to": rescale.after,
                "checkpointId": rescale.checkpoint,
                "pause-ms": rescale.pause_ms,
                "reason": rescale.why,
                "failure-cause": rescale.failure or None,
            }
            for rescale in record.rescales
        ],
    }


def _autoscaler(facts: JobFacts) -> dict[str, Any] | None:
    """Its bounds; None if it is off. The upper one is None if it is the number of Spark's cores."""
    settings = Configuration.from_dict(facts.settings)
    if not settings.get(AUTOSCALE) or facts.graph.batch or facts.checkpoint_dir is None:
        return None
    return {"min-parallelism": settings.get(AUTOSCALE_MIN), "max-parallelism": settings.get(AUTOSCALE_MAX) or None}


def rescaled(result: object) -> dict[str, Any]:
    """A rescale that has ended."""
    assert isinstance(result, RescaleRecord)
    return {
        "from": result.before,
        "to": result.after,
        "checkpointId": result.checkpoint,
        "pause-ms": result.pause_ms,
    }


def job_config(record: JobRecord, facts: JobFacts) -> dict[str, Any]:
    """/jobs/:jobid/config. Secret values are hidden."""
    return {
        "jid": record.job_id,
        "name": record.name,
        "execution-config": {
            "execution-mode": "PIPELINED",
            "restart-strategy": facts.restart,
            "job-parallelism": record.parallelism,
            "object-reuse-mode": False,
            "user-config": dict(facts.job_parameters),
        },
    }


def execution_result(record: JobRecord) -> dict[str, Any]:
    """/jobs/:jobid/execution-result: IN_PROGRESS until the job has ended."""
    if not record.ended:
        return {"status": {"id": "IN_PROGRESS"}}
    result: dict[str, Any] = {
        "id": record.job_id,
        "application-status": _APPLICATION_STATUS.get(record.status, "UNKNOWN"),
        "accumulator-results": {},
        "net-runtime": job_times(record)["duration"],
    }
    if record.failure is not None:
        kind = record.failures[-1].error if record.failures else record.status
        result["failure-cause"] = {"class": kind, "stack-trace": record.failure}
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


_APPLICATION_STATUS = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "CANCELED": "CANCELED"}
