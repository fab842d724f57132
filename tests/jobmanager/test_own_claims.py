"""A driver that restarts a job continues only after its own claim: it never takes a job back (PROTOCOL R4)."""

import pytest

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.errors import FencedError, StorageError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.jobmanager.attempt.attempt import Attempt, JobIdentity
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt
from penstock.storage.memory import Fault, MemoryStorage
from penstock.testing.clocks import ManualClock
from penstock.testing.graphs import FunctionProgram, function_graph
from tests.checkpoint.logs import Script
from tests.jobmanager.test_split_anew import Hook, Same

JOB = JobIdentity("0" * 32, "job", "job.py")


def options() -> RecoveryOptions:
    """The options of one driver, for all its attempts."""
    return RecoveryOptions(CheckpointSettings(interval_ms=None))


def begin(storage: MemoryStorage, driver: RecoveryOptions) -> Attempt:
    graph = function_graph(FunctionProgram(Same(), str))
    return begin_attempt(JOB, graph, storage, driver, Hook(), ManualClock())


def after_a_refused_claim(first: RecoveryOptions, second: RecoveryOptions) -> MemoryStorage:
    """The job belongs to the first driver; the storage has refused the claim of the second."""
    script = Script()
    storage = MemoryStorage(script)
    begin(storage, first)
    script.add("put_new", "log/", Fault.FAIL)
    with pytest.raises(StorageError):
        begin(storage, second)
    return storage


def test_p4_a_driver_goes_on_behind_its_own_attempts() -> None:
    storage, driver = MemoryStorage(), options()
    assert [begin(storage, driver).number for _ in range(3)] == [1, 2, 3]


def test_p4_a_driver_whose_job_was_taken_over_does_not_take_it_back() -> None:
    storage, first, second = MemoryStorage(), options(), options()
    begin(storage, first)
    begin(storage, second)
    files = dict(storage.files)
    with pytest.raises(FencedError, match="does not take it back"):
        begin(storage, first)
    assert storage.files == files
    assert begin(storage, second).number == 3


def test_p4_a_claim_that_the_storage_has_refused_is_tried_again() -> None:
    first, second = options(), options()
    storage = after_a_refused_claim(first, second)
    assert begin(storage, second).number == 2
    with pytest.raises(FencedError, match="does not take it back"):
        begin(storage, first)


def test_p4_a_driver_that_was_replaced_once_and_claimed_again_is_not_replaced_by_a_retry() -> None:
    first, second = options(), options()
    storage = after_a_refused_claim(first, second)
    begin(storage, first)  # it is alive, and has restarted its job
    with pytest.raises(FencedError, match="does not take it back"):
        begin(storage, second)


def test_p4_a_claim_after_which_the_attempt_failed_at_once_is_still_its_own() -> None:
    storage, driver = MemoryStorage(), options()
    begin(storage, driver)
    failpoint.arm(Failpoint("C24.before", "raise"))
    try:
        with pytest.raises(InjectedCrash):
            begin(storage, driver)
    finally:
        failpoint.disarm()
    assert begin(storage, driver).number == 3
