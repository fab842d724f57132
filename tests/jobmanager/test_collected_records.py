"""`execute_and_collect`: a record is handed out once, when no recovery can bring it again."""

import pytest

from penstock.common import Types
from penstock.errors import JobFailedError
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.job_output import CollectedRecords, JobOutput
from penstock.runtime.operators.sink_operators import encode_records

LONG = Types.LONG()


def collected() -> tuple[JobOutput, CollectedRecords]:
    records = CollectedRecords(LONG)
    return JobOutput({"sink": records}, checkpointing=True), records


def epoch(number: int, *values: int) -> EpochSummary:
    data = [("sink", encode_records(list(values), LONG))] if values else []
    return EpochSummary(number, len(values), len(values), 0, [], data, [], None)


def test_records_wait_for_their_checkpoint() -> None:
    output, records = collected()
    output.committed(epoch(1, 10, 11))
    output.committed(epoch(2, 20))
    output.release(1)
    output.end(None)
    assert list(records) == [10, 11]


def test_a_checkpoint_that_is_faster_than_its_epochs_records_loses_none() -> None:
    output, records = collected()
    output.release(1)  # the completing thread was faster
    output.committed(epoch(1, 10))
    output.end(None)
    assert list(records) == [10]


def test_what_a_recovery_starts_behind_is_certain_and_the_rest_comes_again() -> None:
    output, records = collected()
    output.committed(epoch(1, 10))
    output.committed(epoch(2, 20))
    output.roll_back(1)  # checkpoint 1 was complete, but not released when the attempt ended
    output.committed(epoch(2, 21))
    output.release(2)
    output.end(None)
    assert list(records) == [10, 21]


def test_r24_behind_a_damaged_checkpoint_records_come_again_but_not_before_their_checkpoint() -> None:
    output, records = collected()
    output.committed(epoch(1, 10))
    output.committed(epoch(2, 20))
    output.release(2)
    output.roll_back(1)
    output.committed(epoch(2, 21))
    output.roll_back(1)  # once more: the second run of the epoch never became final
    output.committed(epoch(2, 22))
    output.release(2)
    output.end(None)
    assert list(records) == [10, 20, 22]


def test_a_failed_job_raises_after_what_is_certain() -> None:
    output, records = collected()
    output.committed(epoch(1, 10))
    output.release(1)
    output.committed(epoch(2, 20))
    output.end(JobFailedError("it broke"))
    found = iter(records)
    assert next(found) == 10
    with pytest.raises(JobFailedError, match="it broke"):
        next(found)


def test_the_program_of_a_suspended_job_gets_every_record_before_the_interrupt() -> None:
    """The last checkpoint covers them: the job that is resumed does not hand them out again."""
    output, records = collected()
    output.committed(epoch(1, 10, 11))
    output.release(1)
    output.end(KeyboardInterrupt())
    assert not records.wait_until_taken(0)
    taken, reader = [], iter(records)
    for _ in range(2):
        taken.append(next(reader))
        assert not records.wait_until_taken(0), "the program may not have done anything with it yet"
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    assert taken == [10, 11] and records.wait_until_taken(0)
