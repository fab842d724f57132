"""How many rows a job has processed, over epochs that a recovery undoes."""

from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.row_counts import RowCounts
from penstock.testing import ManualClock


def epoch(number: int, rows: int, dropped: int = 0) -> EpochSummary:
    return EpochSummary(number, rows, 0, 0, [], [], [], None, dropped, late=dropped)


def test_rows_of_epochs_that_a_recovery_undoes_do_not_count() -> None:
    counts = RowCounts(ManualClock(), checkpointing=True)
    for number in (1, 2, 3):
        counts.committed(epoch(number, 10, dropped=1))
    counts.release(1)
    counts.release(2)
    counts.roll_back(2)
    assert (counts.rows, counts.dropped, counts.late) == (20, 2, 2)
    counts.roll_back(1)  # behind a damaged checkpoint
    assert (counts.rows, counts.dropped, counts.late) == (10, 1, 1)
    counts.committed(epoch(2, 5))
    assert (counts.rows, counts.dropped) == (15, 1)


def test_without_checkpoints_rows_count_when_their_epoch_is_committed() -> None:
    counts = RowCounts(ManualClock(), checkpointing=False)
    counts.committed(epoch(1, 10))
    counts.roll_back(0)  # a new attempt starts from the beginning
    assert counts.rows == 0
    counts.committed(epoch(1, 7))
    assert counts.rows == 7


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock = ManualClock()
    counts = RowCounts(clock, checkpointing=False)
    clock.advance(5_000)
    counts.committed(epoch(1, 50))
    assert counts.per_second == 10.0
    clock.advance(6_000)
    assert counts.per_second == 0.0


def test_rows_of_the_running_epoch_count_apart_and_only_until_it_is_committed() -> None:
    clock = ManualClock()
    counts = RowCounts(clock, checkpointing=True)
    counts.committed(epoch(1, 10))
    clock.advance(1_000)
    assert counts.observe((2, 400)) == (10, 400)
    assert counts.per_second == 410.0
    clock.advance(1_000)
    assert counts.observe((2, 900)) == (10, 900)
    counts.committed(epoch(2, 1_000))
    assert counts.observe((2, 1_000)) == (1_010, 0)  # a heartbeat that is older than the commit
    assert counts.observe(None) == (1_010, 0)
    assert counts.per_second == 505.0


def test_rows_of_an_epoch_that_is_undone_are_taken_back_and_no_rate_is_negative() -> None:
    clock = ManualClock()
    counts = RowCounts(clock, checkpointing=True)
    clock.advance(2_000)
    assert counts.observe((1, 900)) == (0, 900)
    clock.advance(1_000)
    assert counts.observe((1, 100)) == (0, 100)  # its task is run again
    assert counts.per_second == 0.0
    counts.committed(epoch(1, 1_000))
    counts.roll_back(0)
    assert counts.observe((1, 300)) == (0, 300)
