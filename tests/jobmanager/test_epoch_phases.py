"""Where an epoch's time went: the phases add up to its duration, whatever clocks say."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.epoch_phases import epoch_phases
from penstock.model.ids import StageId, SubtaskId
from penstock.model.recent_epoch import EpochPhases
from penstock.model.subtask_work import SubtaskWork
from penstock.runtime.process.messages import SubtaskReport
from tests.jobmanager.reports import subtask_report

STARTED = 100_000


def report(stage: str, index: int, work: SubtaskWork) -> SubtaskReport:
    return subtask_report(SubtaskId(StageId(stage), index), work)


def summary(reports: Sequence[SubtaskReport], reported_ms: int, first_task_ms: int | None) -> EpochSummary:
    epoch = EpochSummary(1, 0, 0, STARTED, [], [], [], None, reports=reports)
    return replace(epoch, reported_ms=reported_ms, first_task_ms=first_task_ms)


def test_of_the_subtasks_of_a_stage_the_busiest_counts_and_stages_are_added_up() -> None:
    reports = [
        report("s0", 0, SubtaskWork(STARTED + 60, 10_000, 1_000, 0)),
        report("s0", 1, SubtaskWork(STARTED + 50, 40_000, 2_000, 3_000)),
        report("s1", 0, SubtaskWork(STARTED + 120, 20_000, 0, 1_000)),
    ]
    phases = epoch_phases(summary(reports, STARTED + 190, STARTED + 30), STARTED + 200)
    assert phases == EpochPhases(30, 94, 60, 2, 4, 10)


def test_without_the_first_task_scheduling_ends_when_a_subtask_begins() -> None:
    phases = epoch_phases(summary([report("s0", 0, SubtaskWork(STARTED + 50))], STARTED + 80, None), STARTED + 100)
    assert (phases.scheduling_ms, phases.reading_ms, phases.committing_ms) == (50, 30, 20)


def test_an_epoch_without_stages_is_all_reading() -> None:
    assert epoch_phases(summary([], 0, None), STARTED + 100) == EpochPhases(reading_ms=100)


TIMES = st.integers(STARTED - 500, STARTED + 500)
AMOUNTS = st.integers(0, 1_000_000)
WORKS = st.builds(SubtaskWork, TIMES, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)


@given(st.lists(st.tuples(st.sampled_from(["s0", "s1"]), WORKS), max_size=4), TIMES, st.none() | TIMES, TIMES)
def test_phases_add_up_to_the_duration_whatever_clocks_say(
    works: list[tuple[str, SubtaskWork]], reported_ms: int, first_task_ms: int | None, committed_ms: int
) -> None:
    reports = [report(stage, 0, work) for stage, work in works]
    phases = epoch_phases(summary(reports, reported_ms, first_task_ms), committed_ms)
    parts = [getattr(phases, name) for name in phases.__struct_fields__]
    assert min(parts) >= 0
    assert sum(parts) == max(0, committed_ms - STARTED)
