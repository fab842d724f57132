"""The metrics of functions as JSON, with Flink's names of metrics: operator, groups and name, separated by dots."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import RequestRefusedError
from penstock.graph.job_graph import StagePlan
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import Figure, MetricReading

AGGREGATIONS = ("min", "max", "sum", "avg")
_REPLACED = str.maketrans(" .:,", "____")
Readings = Iterable[tuple[SubtaskId, MetricReading]]


def subtask_metrics(readings: Readings, stage: StagePlan, query: Mapping[str, str], index: int) -> list[dict[str, Any]]:
    """/jobs/:jobid/vertices/:vertexid/subtasks/:index/metrics: names, or the values of the requested ones."""
    values = {name: value for place, name, value in figures_of(readings, stage) if place == index}
    return names_or_values(values, query)


def vertex_metrics(readings: Readings, stage: StagePlan, query: Mapping[str, str]) -> list[dict[str, Any]]:
    """/jobs/:jobid/vertices/:vertexid/metrics: the same for all subtasks; each name starts with the index."""
    return names_or_values({f"{index}.{name}": value for index, name, value in figures_of(readings, stage)}, query)


def aggregated_metrics(readings: Readings, stage: StagePlan, query: Mapping[str, str]) -> list[dict[str, Any]]:
    """/jobs/:jobid/vertices/:vertexid/subtasks/metrics: names, or numbers merged over subtasks."""
    chosen = listed(query, "agg") or list(AGGREGATIONS)
    if unknown := [name for name in chosen if name not in AGGREGATIONS]:
        raise RequestRefusedError(400, "BAD_REQUEST", f"agg: {unknown[0]!r} is not one of {', '.join(AGGREGATIONS)}")
    only = listed(query, "subtasks")
    numbers: dict[str, list[float]] = {}
    for index, name, value in figures_of(readings, stage):
        if not isinstance(value, str) and (not only or str(index) in only):
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
    names = {plan.uid: plan.name.translate(_REPLACED) for plan in stage.operators}
    for subtask, reading in readings:
        if subtask.stage != stage.id:
            continue
        name = f"{names.get(reading.operator, reading.operator)}.{reading.name}"
        for word, figure in reading.figures.items():
            yield subtask.index, name if len(reading.figures) == 1 else f"{name}_{word}", figure


def listed(query: Mapping[str, str], parameter: str) -> list[str]:
    """The parts of a parameter, which are separated by commas."""
    return [part for part in query.get(parameter, "").split(",") if part]
