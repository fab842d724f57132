"""What all JSON about a job and its tasks shares: times and states, with Flink's names."""

from penstock.control.registry import JobRecord
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


def task_state(record: JobRecord) -> str:
    """The state of every task: they run and end together."""
    return _TASK_STATES_OF.get(record.status, "CREATED")


def task_counts(record: JobRecord, total: int) -> dict[str, int]:
    """How many tasks are in each state."""
    own = task_state(record).lower()
    return {state: total if state == own else 0 for state in TASK_STATES}


def job_times(record: JobRecord) -> dict[str, int]:
    """Start, end and duration."""
    ended_ms = record.ended_ms if record.ended_ms is not None else NOT_YET
    last_ms = record.ended_ms if record.ended_ms is not None else record.updated_ms
    return {"start-time": record.started_ms, "end-time": ended_ms, "duration": max(0, last_ms - record.started_ms)}
