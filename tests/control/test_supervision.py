"""When `penstock supervise` starts a driver again, and how often."""

from pathlib import Path

import pytest

from penstock.checkpoint.log.entries import Status
from penstock.control.supervision import DriverEnd, RestartBudget, has_ended
from penstock.model.configuration import Configuration
from penstock.storage.local import LocalStorage
from penstock.testing import ManualClock
from tests.checkpoint.logs import claimed_log
from tests.records import A_ID, job_record

SETTINGS = {
    "penstock.supervise.max-restarts": "4",
    "penstock.supervise.window": "1 min",
    "penstock.supervise.backoff": "2 s",
    "penstock.supervise.max-backoff": "10 s",
}


def test_each_restart_waits_twice_as_long_until_none_is_left_in_the_window() -> None:
    clock = ManualClock()
    budget = RestartBudget(Configuration.from_dict(SETTINGS), clock)
    assert [budget.next_delay_s() for _ in range(6)] == [2.0, 4.0, 8.0, 10.0, None, None]
    clock.advance(59_999)
    assert budget.next_delay_s() is None
    clock.advance(1)
    assert [budget.next_delay_s() for _ in range(2)] == [2.0, 4.0]


def test_restarts_that_lie_apart_never_run_out() -> None:
    clock = ManualClock()
    budget = RestartBudget(Configuration.from_dict(SETTINGS), clock)
    for _ in range(50):
        assert budget.next_delay_s() is not None
        clock.advance(20_000)


def test_without_restarts_there_is_none() -> None:
    settings = Configuration.from_dict({**SETTINGS, "penstock.supervise.max-restarts": "0"})
    assert RestartBudget(settings, ManualClock()).next_delay_s() is None


@pytest.mark.parametrize(
    ("exit_code", "status", "restarts"),
    [
        (-9, "RUNNING", True),
        (-11, None, True),
        (1, "FAILED", True),
        (1, None, False),  # the program itself is wrong
        (1, "FINISHED", False),  # the program raised after its job
        (0, "FINISHED", False),
        (130, "SUSPENDED", False),
        (143, "SUSPENDED", False),
        (-9, "SUSPENDED", False),  # killed after it had suspended its job
        (2, None, False),
        (3, None, False),
        (4, "FAILED", False),  # another driver owns the job
        (5, "FAILED", False),
        (6, None, False),
    ],
)
def test_a_driver_is_started_again_only_where_that_can_help(
    exit_code: int, status: str | None, *, restarts: bool
) -> None:
    record = job_record(status=status) if status is not None else None
    assert DriverEnd(exit_code, record).needs_restart() is restarts


def test_a_driver_that_was_killed_after_the_end_of_its_job_is_not_started_again(tmp_path: Path) -> None:
    log = claimed_log(LocalStorage(tmp_path / A_ID))
    record = job_record(checkpoint_dir=str(tmp_path))
    assert not has_ended(record) and DriverEnd(-9, record, has_ended(record)).needs_restart()
    log.append(Status("finished"))
    assert has_ended(record) and not DriverEnd(-9, record, has_ended(record)).needs_restart()


def test_the_reason_of_a_restart_names_the_job() -> None:
    assert DriverEnd(-9).describe() == "the driver was killed by signal 9"
    assert DriverEnd(-9, job_record()).describe() == f"the driver of job 'totals' ({A_ID}) was killed by signal 9"
    failed = DriverEnd(1, job_record(status="FAILED", failure="first\nlast line"))
    assert failed.describe() == f"the job 'totals' ({A_ID}) has failed: last line"


def test_exit_codes_are_those_of_a_shell() -> None:
    assert [DriverEnd(code).shell_code for code in (0, 1, 143, -9, -15)] == [0, 1, 143, 137, 143]
