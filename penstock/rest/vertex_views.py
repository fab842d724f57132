"""The vertices of a job, which are its stages, and their subtasks, as JSON with Flink's names."""

from collections.abc import Sequence
from typing import Any

from penstock.control.registry import JobRecord, ProcessRecord
from penstock.graph.job_graph import StagePlan
from penstock.model.subtask_work import SubtaskFigures
from penstock.rest.job_times import job_times, task_counts, task_state

OK, LOW = 0.1, 0.5
"""Flink's limits of back pressure."""


def figures_of_stage(record: JobRecord, stage: StagePlan) -> list[SubtaskFigures]:
    """One entry per subtask, also before the first epoch is committed."""
    known = {figures.subtask: figures for figures in record.subtasks if figures.vertex == stage.id}
    return [known.get(index, SubtaskFigures(stage.id, index)) for index in range(stage.parallelism)]


def vertex_summary(record: JobRecord, stage: StagePlan) -> dict[str, Any]:
    """One of the vertices of /jobs/:jobid."""
    return {
        "id": stage.id,
        "slotSharingGroupId": stage.id,
        "name": stage.name,
        "maxParallelism": stage.max_parallelism,
        "parallelism": stage.parallelism,
        "status": task_state(record),
        **job_times(record),
        "tasks": {state.upper(): count for state, count in task_counts(record, stage.parallelism).items()},
        "metrics": io_metrics(figures_of_stage(record, stage)),
    }


def io_metrics(subtasks: Sequence[SubtaskFigures]) -> dict[str, Any]:
    """Rows and times of some subtasks. Bytes are not counted, and `…-complete` says so."""
    found: dict[str, Any] = {}
    for name in ("read-bytes", "write-bytes"):
        found |= {name: 0, f"{name}-complete": False}
    rows = {"read-records": "rows_in", "write-records": "rows_out"}
    for name, field in rows.items():
        found |= {name: sum(getattr(one, field) for one in subtasks), f"{name}-complete": True}
    return {
        **found,
        "accumulated-backpressured-time": sum(one.back_pressured_ms for one in subtasks),
        "accumulated-idle-time": sum(one.idle_ms for one in subtasks),
        "accumulated-busy-time": float(sum(one.busy_ms for one in subtasks)),
    }


def vertex_details(record: JobRecord, stage: StagePlan, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid."""
    return {
        "id": stage.id,
        "name": stage.name,
        "parallelism": stage.parallelism,
        "maxParallelism": stage.max_parallelism,
        "now": now_ms,
        "subtasks": [subtask_details(record, figures) for figures in figures_of_stage(record, stage)],
    }


def subtask_details(record: JobRecord, figures: SubtaskFigures) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex."""
    owner = owner_of(record, figures)
    times = job_times(record)
    return {
        "subtask": figures.subtask,
        "status": task_state(record),
        "attempt": max(0, record.attempt - 1),
        "endpoint": owner.host,
        "host": owner.host,
        **times,
        "start_time": times["start-time"],
        "metrics": io_metrics([figures]),
        "taskmanager-id": owner.id,
        "status-duration": {},
        "other-concurrent-attempts": [],
    }


def owner_of(record: JobRecord, figures: SubtaskFigures) -> ProcessRecord:
    """The TaskManager that owns a subtask; one without a name if none does now."""
    name = f"{figures.vertex}/{figures.subtask}"
    return next((one for one in record.processes if name in one.subtasks), ProcessRecord(0, "", "taskmanager"))


def back_pressure(record: JobRecord, stage: StagePlan, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid/backpressure."""
    subtasks = []
    for figures in figures_of_stage(record, stage):
        ratio = figures.back_pressured_ms_per_s / 1000
        subtasks.append(
            {
                "subtask": figures.subtask,
                "attempt-number": max(0, record.attempt - 1),
                "backpressureLevel": pressure_level(ratio),
                "backpressure-level": pressure_level(ratio),
                "ratio": ratio,
                "idleRatio": figures.idle_ms_per_s / 1000,
                "busyRatio": figures.busy_ms_per_s / 1000,
                "other-concurrent-attempts": [],
            }
        )
    worst = max((float(str(one["ratio"])) for one in subtasks), default=0.0)
    level = pressure_level(worst)
    return {
        "status": "ok",
        "backpressureLevel": level,
        "backpressure-level": level,
        "end-timestamp": now_ms,
        "subtasks": subtasks,
    }


def pressure_level(ratio: float) -> str:
    """Flink's word for a share of time.

    >>> [pressure_level(ratio) for ratio in (0.1, 0.5, 0.51)]
    ['ok', 'low', 'high']
    """
    return "ok" if ratio <= OK else "low" if ratio <= LOW else "high"


def watermarks(record: JobRecord, stage: StagePlan) -> list[dict[str, Any]]:
    """/jobs/:jobid/vertices/:vertexid/watermarks: of the subtasks that have one."""
    return [
        {"id": f"{figures.subtask}.currentInputWatermark", "value": str(figures.watermark)}
        for figures in figures_of_stage(record, stage)
        if figures.watermark is not None
    ]


def subtask_times(record: JobRecord, stage: StagePlan, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid/subtasktimes."""
    return {
        "id": stage.id,
        "name": stage.name,
        "now": now_ms,
        "subtasks": [
            {
                "subtask": figures.subtask,
                "endpoint": owner_of(record, figures).host,
                "host": owner_of(record, figures).host,
                **{key: value for key, value in job_times(record).items() if key != "end-time"},
                "timestamps": {change.status: change.at_ms for change in record.transitions},
            }
            for figures in figures_of_stage(record, stage)
        ],
    }


def vertex_taskmanagers(record: JobRecord, stage: StagePlan, now_ms: int) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid/taskmanagers: its subtasks by TaskManager."""
    by_owner: dict[str, list[SubtaskFigures]] = {}
    for figures in figures_of_stage(record, stage):
        by_owner.setdefault(owner_of(record, figures).id, []).append(figures)
    return {
        "id": stage.id,
        "name": stage.name,
        "now": now_ms,
        "taskmanagers": [
            {
                "taskmanager-id": name,
                "endpoint": owner_of(record, owned[0]).host,
                "host": owner_of(record, owned[0]).host,
                "status": task_state(record),
                **job_times(record),
                "metrics": io_metrics(owned),
                "status-counts": {key.upper(): n for key, n in task_counts(record, len(owned)).items()},
                "aggregated": {},
            }
            for name, owned in by_owner.items()
        ],
    }


def vertex_accumulators(stage: StagePlan) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid/accumulators: there are none in this API."""
    return {"id": stage.id, "user-accumulators": []}


def subtask_accumulators(record: JobRecord, stage: StagePlan) -> dict[str, Any]:
    """/jobs/:jobid/vertices/:vertexid/subtasks/accumulators: clients list the subtasks with it."""
    attempt = max(0, record.attempt - 1)
    subtasks = [
        {
            "subtask": figures.subtask,
            "attempt": attempt,
            "endpoint": owner_of(record, figures).host,
            "host": owner_of(record, figures).host,
            "user-accumulators": [],
        }
        for figures in figures_of_stage(record, stage)
    ]
    return {"id": stage.id, "parallelism": stage.parallelism, "subtasks": subtasks}
