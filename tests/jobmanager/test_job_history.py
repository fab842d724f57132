"""What is kept of a job's statuses, failures and slow checkpoints."""

import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.errors import CheckpointFailedError, InvalidKeyError, UserFunctionError
from penstock.jobmanager.job_history import MESSAGE_CHARS, JobHistory, SlowCheckpoints, failure_record, last_line
from penstock.model.execution import JobStatus
from penstock.testing.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


def stats(number: int, duration_ms: int) -> CheckpointStats:
    return CheckpointStats(number, "completed", 0).ended(duration_ms)


def test_p7_statuses_are_kept_in_their_order(clock: ManualClock) -> None:
    history = JobHistory(clock)
    for status in ("RUNNING", "FAILING", "RESTARTING", "RUNNING", "FINISHED"):
        clock.advance(10)
        history.enter(JobStatus[status])
    names = [change.status for change in history.transitions()]
    assert names == ["INITIALIZING", "RUNNING", "FAILING", "RESTARTING", "RUNNING", "FINISHED"]
    assert [change.at_ms for change in history.transitions()] == [1000, 1010, 1020, 1030, 1040, 1050]


def test_p7_a_job_that_has_ended_keeps_its_status_and_one_that_is_cancelled_only_ends(clock: ManualClock) -> None:
    history = JobHistory(clock)
    history.enter(JobStatus.CANCELLING)
    history.enter(JobStatus.RUNNING)
    assert history.status.name == "CANCELLING"
    history.enter(JobStatus.CANCELED)
    for status in JobStatus:
        history.enter(status)
    assert history.status.name == "CANCELED"


def test_the_last_sixteen_failures_are_kept(clock: ManualClock) -> None:
    history = JobHistory(clock)
    for attempt in range(1, 21):
        history.failed(CheckpointFailedError(f"no {attempt}"), attempt)
    assert [failure.attempt for failure in history.failures()] == list(range(5, 21))
    again = JobHistory(clock, history.failures())
    again.failed(CheckpointFailedError("of the next driver"), 21)
    assert [failure.attempt for failure in again.failures()] == list(range(6, 22))


def test_a_failure_has_its_class_its_message_and_what_caused_it() -> None:
    try:
        try:
            raise OSError("disk full")
        except OSError as error:
            raise CheckpointFailedError("cannot write") from error
    except CheckpointFailedError as error:
        record = failure_record(error, 3, 77)
    assert (record.at_ms, record.attempt, record.error, record.message) == (
        77,
        3,
        "CheckpointFailedError",
        "cannot write",
    )
    assert record.root_cause == "OSError: disk full"


def test_a_long_message_keeps_its_end_where_a_traceback_says_what_happened() -> None:
    record = failure_record(UserFunctionError("op", "record 1", "x" * 10_000 + "ValueError: no"), 1, 0)
    assert len(record.message) <= MESSAGE_CHARS + 2 and record.message.endswith("record 1")
    assert record.root_cause == "x" * 300 + "…, in operator 'op'"


def test_a_failure_is_new_unless_the_attempt_before_failed_in_the_same_way(clock: ManualClock) -> None:
    history = JobHistory(clock)
    error, other = (UserFunctionError("op", "record 1", text) for text in ("ValueError: no", "KeyError: 'a'"))
    assert [history.failed(found, 1) for found in (error, error, other, error)] == [True, False, True, True]


def test_a_failure_of_a_function_is_summed_up_by_its_cause_and_operator() -> None:
    error = UserFunctionError("Shares", "record 1", "Traceback\n  File\nValueError: no", "shares", "  record: 1")
    summary = "ValueError: no, in operator 'Shares' (uid 'shares')"
    assert last_line(error) == summary == failure_record(error, 1, 0).root_cause
    assert last_line(InvalidKeyError("no key", "  record: 1")) == "no key"


def test_an_error_without_a_word_is_named_by_its_class() -> None:
    assert last_line(ValueError()) == "ValueError" and last_line(ValueError("a\nb\n")) == "b"


def test_checkpoints_of_older_attempts_and_drivers_stay_in_the_history(clock: ManualClock) -> None:
    history = JobHistory(clock, checkpoints=[stats(number, 1) for number in range(1, 6)])
    history.add_checkpoints([CheckpointStats(6, "in_progress", 0), CheckpointStats(7, "in_progress", 0)])
    found = history.add_checkpoints([stats(number, 1) for number in range(6, 13)])
    assert [entry.checkpoint_id for entry in found] == list(range(3, 13))
    assert {entry.status for entry in found} == {"completed"}


def test_k15_one_warning_says_that_checkpoints_take_longer_than_the_interval() -> None:
    slow = SlowCheckpoints(CheckpointSettings(interval_ms=5000))
    fast, first, second, third = stats(1, 5000), stats(2, 7200), stats(3, 8000), stats(4, 9000)
    failed = CheckpointStats(5, "failed", 0).ended(1)
    assert slow.warning([first, second]) is None
    assert slow.warning([first, second, fast]) is None
    warning = slow.warning([fast, first, second, failed, third])
    assert warning is not None and "took 7.2 s and more, longer than the interval of 5 s" in warning
    assert slow.warning([first, second, third]) is None
    assert SlowCheckpoints(CheckpointSettings(interval_ms=None)).warning([first, second, third]) is None
