"""Reports of subtasks."""

from collections.abc import Sequence

from penstock.model.ids import SubtaskId, Version
from penstock.model.metric_readings import MetricReading
from penstock.model.subtask_work import SubtaskWork
from penstock.runtime.process.messages import SubtaskReport


def subtask_report(
    subtask: SubtaskId, work: SubtaskWork, *, rows_out: int = 0, metrics: Sequence[MetricReading] = ()
) -> SubtaskReport:
    """The report of a subtask that has done this work."""
    version = Version(1, 1, "n")
    rows_in = sum(work.inputs)
    return SubtaskReport(
        subtask, 1, version, rows_in, rows_out, 0, [], {}, None, None, [], [], metrics=list(metrics), work=work
    )
