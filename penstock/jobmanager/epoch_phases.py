"""Where the time of a committed epoch went, from the reports of its subtasks."""

from collections.abc import Sequence

from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.model.recent_epoch import EpochPhases
from penstock.model.subtask_work import SubtaskWork
from penstock.runtime.process.messages import SubtaskReport


def epoch_phases(summary: EpochSummary, committed_ms: int) -> EpochPhases:
    """The phases of an epoch, which add up to its duration.

    The subtasks of a stage work side by side: the busiest one counts. Stages follow each other and are added up.
    """
    total_ms = max(0, committed_ms - summary.now_ms)
    committing_ms = _within(committed_ms - (summary.reported_ms or committed_ms), total_ms)
    begun = [report.work.began_ms for report in summary.reports if report.work.began_ms]
    first_ms = min([*begun, *([summary.first_task_ms] if summary.first_task_ms else [])], default=summary.now_ms)
    scheduling_ms = _within(first_ms - summary.now_ms, total_ms - committing_ms)
    left_ms = total_ms - committing_ms - scheduling_ms
    busiest = _busiest(summary.reports)
    parts = [sum(times) / 1000 for times in zip(*map(_busy_parts, busiest), strict=True)] or [0.0, 0.0, 0.0]
    # Stages of two branches may work at the same time: then their sum is larger than the epoch.
    scale = min(1.0, left_ms / sum(parts)) if sum(parts) else 0.0
    functions_ms, state_ms, sealing_ms = (int(part * scale) for part in parts)
    reading_ms = left_ms - functions_ms - state_ms - sealing_ms
    return EpochPhases(scheduling_ms, reading_ms, functions_ms, state_ms, sealing_ms, committing_ms)


def _busiest(reports: Sequence[SubtaskReport]) -> list[SubtaskWork]:
    """The work of one subtask of each stage."""
    found: dict[str, SubtaskWork] = {}
    for report in reports:
        known = found.get(report.subtask.stage)
        if known is None or report.work.busy_us > known.busy_us:
            found[report.subtask.stage] = report.work
    return list(found.values())


def _busy_parts(work: SubtaskWork) -> tuple[int, int, int]:
    return work.functions_us, work.state_us, work.sealing_us


def _within(value: int, limit: int) -> int:
    """At least 0, and at most the limit: wall clocks may jump."""
    return max(0, min(value, limit))
