"""All metrics of a job in Prometheus's text format.

Names are Flink's in Prometheus's form: `numRecordsIn` of a subtask is `penstock_subtask_num_records_in`. What functions
register keeps its name, with the operator as a label: `penstock_function_seen{operator="…"}`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.control.registry import JobRecord, Registry
from penstock.control.running_job import ControlledJob
from penstock.graph.job_graph import StagePlan
from penstock.model.execution import JobStatus
from penstock.model.metric_readings import Figure
from penstock.rest import builtin_metrics
from penstock.rest.metric_names import operator_labels

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "penstock_"
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_]")
_COUNTERS = re.compile(
    r"num_(records|late|untimed|restarts|rows).*|accumulate_.*|status_process_cpu_time_ms|number_of_(completed|failed)_.*|total_.*"
)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
KINDS = {"counter": "counter", "gauge": "gauge"}


@dataclass
class MetricFamily:
    """All samples of one name."""

    kind: str
    lines: list[str] = field(default_factory=list)


def prometheus_text(control: ControlledJob) -> str:
    """The metrics now."""
    families: dict[str, MetricFamily] = {}
    record = control.job.record()
    job = {"job_id": record.job_id, "job_name": record.name}
    for name, kind, labels, value in samples(control, record):
        family = families.setdefault(name, MetricFamily(kind))
        family.lines.append(f"{name}{{{_labels({**job, **labels})}}} {_number(value)}")
    lines: list[str] = []
    for name, family in families.items():
        lines += [f"# TYPE {name} {family.kind}", *family.lines]
    return "\n".join(lines) + "\n"


def samples(control: ControlledJob, record: JobRecord) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Name, type, labels and value. Text has no value in Prometheus and is left out."""
    report, facts = control.job.checkpoints(), control.facts
    for status in JobStatus:
        yield f"{PREFIX}job_status", "gauge", {"status": status.name}, float(record.status == status.name)
    yield from _plain("job_", builtin_metrics.job_metrics(record, report, facts).items(), {})
    for process in record.processes:
        if process.role == "taskmanager":
            figures = builtin_metrics.taskmanager_metrics(record, process)
            yield from _plain("taskmanager_", figures.items(), {"taskmanager": process.id})
    for stage in facts.graph.stages:
        for index, name, value in builtin_metrics.subtask_metrics(record, report, stage):
            labels = {"vertex": stage.id, "vertex_name": stage.name, "subtask": str(index)}
            operator, dot, short = name.rpartition(".")
            scope = "operator_" if dot else "subtask_"
            yield from _plain(scope, [(short, value)], {**labels, "operator": operator} if dot else labels)
    yield from _function_samples(control, facts.graph.stages)
    for size in Registry(Path(record.log_dir).parent).read_sizes(record.job_id):
        labels = {"operator": size.operator_uid, "state": size.name}
        yield f"{PREFIX}state_entries", "gauge", labels, float(size.entries)
        yield f"{PREFIX}state_bytes", "gauge", labels, float(size.size_bytes)


def _plain(
    scope: str, figures: Iterable[tuple[str, Figure]], labels: Mapping[str, str]
) -> Iterator[tuple[str, str, dict[str, str], float]]:
    for name, value in figures:
        if not isinstance(value, str):
            short = snake(name)
            kind = "gauge" if short.endswith("_per_second") or not _COUNTERS.fullmatch(short) else "counter"
            yield f"{PREFIX}{scope}{short}", kind, dict(labels), float(value)


def _function_samples(
    control: ControlledJob, stages: Iterable[StagePlan]
) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Metrics of functions. A meter has a count and a rate; a distribution is a summary with its extremes."""
    known = {stage.id: operator_labels(stage) for stage in stages}
    for subtask, reading in control.job.metrics():
        names = known.get(subtask.stage, {})
        labels = {
            "vertex": subtask.stage,
            "subtask": str(subtask.index),
            "operator": names.get(reading.operator, reading.operator),
        }
        base = f"{PREFIX}function_{_NOT_ALLOWED.sub('_', reading.name)}"
        for word, figure in reading.figures.items():
            if isinstance(figure, str):
                continue
            name = base if reading.kind in KINDS else f"{base}_{word}"
            kind = KINDS.get(reading.kind, "counter" if word == "count" else "gauge")
            yield name, kind, labels, float(figure)


def snake(name: str) -> str:
    """
    >>> snake("numRecordsInPerSecond"), snake("busyTimeMsPerSecond")
    ('num_records_in_per_second', 'busy_time_ms_per_second')
    """
    return _NOT_ALLOWED.sub("_", _CAPITAL.sub("_", name)).lower()


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - not a number
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
