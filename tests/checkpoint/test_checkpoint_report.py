"""The statistics of all checkpoints of a job: each is counted once, and their number costs no memory."""

import tracemalloc

from penstock.checkpoint.stats.checkpoint_history import HISTORY_LENGTH, CheckpointStats
from penstock.checkpoint.stats.checkpoint_report import CheckpointTally


def ended(number: int) -> CheckpointStats:
    return CheckpointStats(number, "failed" if number % 10 == 0 else "completed", 0).ended(1)


def note(tally: CheckpointTally, numbers: range) -> None:
    """Note these checkpoints as a job does: again and again, as long as they are in its history."""
    history = [ended(number) for number in range(max(1, numbers.start - HISTORY_LENGTH), numbers.start)]
    for number in numbers:
        history = [*history, ended(number)][-HISTORY_LENGTH:]
        tally.note(history)


def test_each_checkpoint_is_counted_once_over_months() -> None:
    tally = CheckpointTally()
    tally.note([ended(number) for number in range(1, 6)])  # of an older driver
    note(tally, range(6, 8001))
    report = tally.report(())
    assert (report.completed, report.failed) == (7200, 800)


def test_what_is_remembered_of_counted_checkpoints_does_not_grow() -> None:
    tally = CheckpointTally()
    tracemalloc.start()
    try:
        note(tally, range(1, 5001))
        before, _ = tracemalloc.get_traced_memory()
        note(tally, range(5001, 25_001))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000
