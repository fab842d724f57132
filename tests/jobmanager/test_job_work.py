"""What subtasks do: totals since the start of the attempt, and rates over the last seconds."""

from penstock.jobmanager.job_work import JobWork
from penstock.model.ids import StageId, SubtaskId
from penstock.model.subtask_work import PassedRows, SubtaskFigures, SubtaskWork
from penstock.testing.clocks import ManualClock
from tests.jobmanager.reports import subtask_report

SUBTASK = SubtaskId(StageId("s0"), 1)


def commit(work: JobWork, rows: int, busy_ms: int, handing_ms: int = 0) -> None:
    """One epoch of the subtask."""
    times = (900 * busy_ms, 100 * busy_ms, 0, 1000 * handing_ms)
    done = SubtaskWork(1, *times, [rows - 1, 1], [PassedRows(rows, 2 * rows)])
    work.committed([subtask_report(SUBTASK, done, rows_out=2 * rows)])


def only(work: JobWork, *, epoch_runs: bool = False) -> SubtaskFigures:
    (found,) = work.subtasks(epoch_runs=epoch_runs)
    return found


def test_rates_are_means_over_the_last_seconds_and_the_shares_add_up() -> None:
    clock = ManualClock()
    work = JobWork(clock)
    for _ in range(100):
        clock.advance(1_000)
        commit(work, 50, 300, 200)
    figures = only(work)
    assert (figures.vertex, figures.subtask, figures.rows_in, figures.rows_out) == ("s0", 1, 5_000, 10_000)
    assert (figures.rows_in_per_s, figures.rows_out_per_s) == (50, 100)
    assert (figures.busy_ms_per_s, figures.back_pressured_ms_per_s, figures.idle_ms_per_s) == (300, 200, 500)
    assert (figures.busy_ms, figures.back_pressured_ms, figures.idle_ms) == (30_000, 20_000, 50_000)
    assert (figures.inputs, figures.operators) == ([4_900, 100], [PassedRows(5_000, 10_000)])


def test_a_subtask_without_epochs_becomes_idle_unless_one_runs() -> None:
    clock = ManualClock()
    work = JobWork(clock)
    clock.advance(1_000)
    commit(work, 500, 1_000)
    assert only(work).busy_ms_per_s == 1000
    clock.advance(4_000)
    assert (only(work).busy_ms_per_s, only(work).rows_in_per_s) == (200, 100)
    assert only(work, epoch_runs=True).busy_ms_per_s == 1000
    clock.advance(20_000)
    assert (only(work).busy_ms_per_s, only(work).idle_ms_per_s) == (0, 1000)


def test_epochs_that_follow_soon_are_kept_as_few_samples() -> None:
    clock = ManualClock()
    work = JobWork(clock)
    for _ in range(1_000):
        clock.advance(20)
        commit(work, 5, 10)
    assert 480 <= only(work).busy_ms_per_s <= 520
    assert len(work._subtasks["s0", 1].samples) < 50


def test_a_new_attempt_begins_with_none() -> None:
    work = JobWork(ManualClock())
    commit(work, 5, 10)
    work.begin_attempt()
    assert work.subtasks(epoch_runs=False) == []
