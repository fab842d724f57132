"""Metrics as JSON, with Flink's names: those of functions are named by operator, groups and name, separated by dots."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from penstock.control.running_job import ControlledJob
from penstock.errors import RequestRefusedError
from penstock.graph.job_graph import StagePlan
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import Figure, MetricReading
from penstock.rest import builtin_metrics
from penstock.rest.metric_names import operator_names

AGGREGATIONS = ("min", "max", "sum", "avg")
Readings = Iterable[tuple[SubtaskId, MetricReading]]
PlacedFigure = tuple[int, str, Figure]
"""Index of the subtask, name and value."""


def placed_figures(control: ControlledJob, stage: StagePlan) -> list[PlacedFigure]:
    """All metrics of a stage: those that every subtask has, and those of functions."""
    job = control.job
    own = builtin_metrics.subtask_metrics(job.record(), job.checkpoints(), stage)
    return list(chain(own, figures_of(job.metrics(), stage)))


def job_metrics(control: ControlledJob) -> dict[str, Figure]:
    """The metrics of the job."""
    return builtin_metrics.job_metrics(control.job.record(), control.job.checkpoints(), control.facts)


def subtask_metrics(figures: Sequence[PlacedFigure], query: Mapping[str, str], index: int) -> list[dict[str, Any]]:
    """/jobs/:jobid/vertices/:vertexid/subtasks/:index/metrics: names, or the values of the requested ones."""
    return names_or_values({name: value for place, name, value in figures if place == index}, query)


def vertex_metrics(figures: Sequence[PlacedFigure], query: Mapping[str, str]) -> list[dict[str, Any]]:
    """/jobs/:jobid/vertices/:vertexid/metrics: the same for all subtasks; each name starts with the index."""
    return names_or_values({f"{index}.{name}": value for index, name, value in figures}, query)


def aggregated_metrics(figures: Iterable[tuple[str, Figure]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    """Metrics of several subtasks, TaskManagers or jobs: names, or numbers merged over them."""
    chosen = listed(query, "agg") or list(AGGREGATIONS)
    if unknown := [name for name in chosen if name not in AGGREGATIONS]:
        raise RequestRefusedError(400, "BAD_REQUEST", f"agg: {unknown[0]!r} is not one of {', '.join(AGGREGATIONS)}")
    numbers: dict[str, list[float]] = {}
    for name, value in figures:
        if not isinstance(value, str):
            numbers.setdefault(name, []).append(value)
    if "get" not in query:
        return [{"id": name} for name in sorted(numbers)]
    return [
        {"id": name, **{key: value for key, value in aggregates(numbers[name]).items() if key in chosen}}
        for name in listed(query, "get")
        if name in numbers
    ]


def aggregates(numbers: list[float]) -> dict[str, float]:
    """All aggregations of the subtasks' numbers."""
    total = sum(numbers)
    return {"min": min(numbers), "max": max(numbers), "avg": total / len(numbers), "sum": total}


def names_or_values(values: Mapping[str, Figure], query: Mapping[str, str]) -> list[dict[str, Any]]:
    """As in Flink: the names without `get`, the values as text with it."""
    if "get" not in query:
        return [{"id": name} for name in sorted(values)]
    return [{"id": name, "value": str(values[name])} for name in listed(query, "get") if name in values]


def figures_of(readings: Readings, stage: StagePlan) -> Iterable[tuple[int, str, Figure]]:
    """Index of the subtask, name and value. A meter or distribution has several figures, each with a suffix."""
    names = operator_names(stage)
    for subtask, reading in readings:
        if subtask.stage != stage.id:
            continue
        name = f"{names.get(reading.operator, reading.operator)}.{reading.name}"
        for word, figure in reading.figures.items():
            yield subtask.index, name if len(reading.figures) == 1 else f"{name}_{word}", figure


def is_chosen(query: Mapping[str, str], parameter: str, place: str) -> bool:
    """Whether a parameter names this place, or none at all.

    >>> is_chosen({}, "subtasks", "1"), is_chosen({"subtasks": "0,2"}, "subtasks", "1")
    (True, False)
    """
    only = listed(query, parameter)
    return not only or place in only


def listed(query: Mapping[str, str], parameter: str) -> list[str]:
    """The parts of a parameter, which are separated by commas."""
    return [part for part in query.get(parameter, "").split(",") if part]
