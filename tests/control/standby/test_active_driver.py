"""What the driver of a `--ha` job writes, and what it leaves behind at each end."""

from pathlib import Path

import pytest

from penstock.control.standby.active_driver import ActiveDriver, begin, read_program
from penstock.control.standby.lease import Lease
from penstock.control.submission import StartingJob, Submission
from penstock.errors import JobConflictError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.options.checkpointing_options import CLAIM_MODE, RECOVERY_PATH
from tests.control.standby.places import TIMEOUT_MS, Place
from tests.records import A_ID, B_ID, job_record

HOUR_MS = 3_600_000
"""So long that no thread renews the lease by itself."""


def start(place: Place, *, resumes: bool = False) -> ActiveDriver:
    return begin(place.folder, HOUR_MS, place.clock, lambda seconds: place.pass_time(1000 * seconds), resumes=resumes)


def test_u1_what_a_standby_needs_is_in_the_folder(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.driver(parallelism=2, arguments=("--day", "7"), allow_fallback=True)
    program = read_program(place.folder, place.folder.listing())
    assert program is not None
    assert (program.job_id, program.name, program.job_file, program.arguments) == (
        A_ID,
        "totals",
        "job.py",
        ("--day", "7"),
    )
    assert (program.parallelism, program.allow_fallback) == (2, True)
    assert program.settings == {
        "parallelism.default": "3",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }


def test_u4_a_job_that_has_ended_leaves_nothing(tmp_path: Path) -> None:
    for status, word in (("FINISHED", "finished"), ("CANCELED", "cancelled"), ("FAILED", "failed")):
        place = Place(tmp_path / word)
        log, driver = place.log(), place.driver()
        driver.report(job_record(status="RUNNING"))
        (tmp_path / word / "ha" / "ha-lease-00000001-0000000007~0123").touch()  # of a write that a crash interrupted
        assert place.folder.listing().program is not None
        place.end_job(log, word)
        driver.report(job_record(status=status))
        driver.close()
        assert list((tmp_path / word / "ha").iterdir()) == []


def test_a_fenced_driver_leaves_everything_to_its_successor(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    old = place.driver()
    new = place.lease()
    old.report(job_record(status="FAILED"))  # its log does not say so: the job goes on elsewhere
    old.close()
    listing = place.folder.listing()
    assert listing.beat == (new.term, 0) and listing.program == 1 and not listing.is_suspended


def test_a_suspended_job_leaves_its_program_and_a_mark(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    driver = place.driver()
    driver.report(job_record(status="SUSPENDED"))
    driver.close()
    assert place.folder.listing().is_suspended and place.folder.listing().program == 1


def test_an_old_driver_that_is_suspended_after_a_takeover_marks_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    old = place.driver()
    place.lease()
    old.report(job_record(status="SUSPENDED"))
    assert not place.folder.listing().is_suspended


def test_a_program_that_fails_before_it_starts_a_job_leaves_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    start(place).close()
    assert list((tmp_path / "ha").iterdir()) == []


def test_a_job_that_was_stored_and_refused_before_its_claim_leaves_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.driver().close()
    assert list((tmp_path / "ha").iterdir()) == []


def test_a_second_job_of_a_program_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(UsageError, match="one job alive"):
        place.driver().starting(place.starting(B_ID))


def test_a_job_without_lasting_checkpoints_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    driver = ActiveDriver(place.folder, place.lease(), None)
    with pytest.raises(UsageError, match="enable_checkpointing"):
        driver.starting(StartingJob(A_ID, "totals", None, None))


def test_a_takeover_that_would_read_other_checkpoints_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.driver()
    program = read_program(place.folder, place.folder.listing())
    successor = ActiveDriver(place.folder, place.lease(), program)
    with pytest.raises(JobConflictError, match="relative checkpoint folder"):
        successor.starting(StartingJob(A_ID, "totals", "/elsewhere", f"/elsewhere/{A_ID}"))


def test_a_second_driver_is_refused_as_long_as_the_first_lives(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    driver = place.driver()

    def wait(seconds: float) -> None:
        place.pass_time(1000 * seconds)
        driver._lease.renew()

    with pytest.raises(JobConflictError, match="has not ended; continue it with --resume"):
        begin(place.folder, TIMEOUT_MS, place.clock, wait, resumes=False)
    with pytest.raises(JobConflictError, match=r"driven by process \d+ on"):
        begin(place.folder, TIMEOUT_MS, place.clock, wait, resumes=True)
    assert place.folder.listing().term == 1


def test_a_driver_that_died_is_replaced_by_resume_after_the_timeout(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver()
    before_ms = place.clock.now_ms()
    driver = start(place, resumes=True)
    assert driver.job_id == A_ID and place.folder.listing().term == 2
    assert place.clock.now_ms() - before_ms >= HOUR_MS
    driver.stores(Submission(place.program, job_id=A_ID), {})
    driver.starting(place.starting())
    assert place.folder.listing().programs == (2,), "the program of the user takes the place of the old one"
    driver.close()


def resumed_submission(place: Place, **flags: object) -> Submission:
    """How a user's `--resume` is run, after the first driver of the folder's job has died."""
    driver = start(place, resumes=True)
    found = driver.continued(Submission(place.program, resume=True, **flags))  # type: ignore[arg-type]
    driver._lease.close()
    return found


def test_u2_a_job_whose_driver_died_before_its_claim_starts_from_the_snapshot_of_its_first_start(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    path = str(tmp_path / "savepoint-1")
    place.driver(savepoint_path=path, claim_mode="claim", allow_non_restored=True)
    found = resumed_submission(place)
    assert (found.job_id, found.savepoint_path, found.claim_mode) == (A_ID, path, "claim")
    assert found.allow_non_restored and found.resume
    again = start(place, resumes=True)
    again.stores(found, {})
    again.starting(place.starting())  # and this driver dies at the same moment
    assert resumed_submission(place) == found
    other = {"execution.state-recovery.path": "/another"}
    assert resumed_submission(place, overrides=other).savepoint_path is None, "its own start names another one"
    place.log()
    found = resumed_submission(place)
    assert (found.job_id, found.savepoint_path, found.claim_mode) == (A_ID, None, None), "the log knows it now"
    assert not found.allow_non_restored


def test_u2_the_snapshot_of_the_first_start_may_be_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    monkeypatch.chdir(tmp_path)
    driver = ActiveDriver(place.folder, place.lease(), None)
    settings = {
        "execution.savepoint.path": "savepoint-1",
        "execution.state-recovery.claim-mode": "claim",
        "parallelism.default": "3",
    }
    driver.stores(Submission(place.program), settings)
    driver.starting(place.starting())
    found = resumed_submission(place, overrides={"spark.master": "local[1]"})
    configuration = Configuration.from_dict(found.overrides)
    assert configuration.get(RECOVERY_PATH) == str(tmp_path / "savepoint-1"), "wherever it is resumed"
    assert configuration.get(CLAIM_MODE) == "claim" and found.overrides["spark.master"] == "local[1]"
    assert "parallelism.default" not in found.overrides, "the rest is that of the new start"


def test_a_suspended_job_is_resumed_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver().report(job_record(status="SUSPENDED"))
    before_ms = place.clock.now_ms()
    driver = start(place, resumes=True)
    assert place.clock.now_ms() == before_ms and not place.folder.listing().is_suspended
    driver.close()


def test_a_driver_whose_lease_file_is_lost_is_not_replaced_as_long_as_it_lives(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    driver = place.driver()
    place.folder.remove_beats(place.folder.listing().leases)

    def wait(seconds: float) -> None:
        place.pass_time(1000 * seconds)
        driver._lease.renew()

    with pytest.raises(JobConflictError, match=r"driven by process \d+ on"):
        begin(place.folder, TIMEOUT_MS, place.clock, wait, resumes=True)


def test_a_suspended_job_stays_suspended_if_its_program_ends_before_it_runs(tmp_path: Path) -> None:
    """Ctrl-C while Spark starts, or an error in the program."""
    place = Place(tmp_path)
    place.log()
    place.driver().report(job_record(status="SUSPENDED"))
    start(place, resumes=True).close()
    assert place.folder.listing().is_suspended
    running = start(place, resumes=True)
    running.stores(Submission(place.program, job_id=A_ID), {})
    running.starting(place.starting())
    running.report(job_record())
    running.close()
    assert not place.folder.listing().is_suspended, "its end is not known, so that a standby goes on with it"


@pytest.mark.parametrize("resumes", [True, False])
def test_what_a_job_left_that_has_ended_is_removed_by_the_next_one(tmp_path: Path, *, resumes: bool) -> None:
    place = Place(tmp_path)
    log = place.log()
    place.driver()
    place.end_job(log, "finished")  # and its driver died before it removed anything
    driver = start(place, resumes=resumes)
    assert driver.job_id is None and place.folder.listing().program is None
    driver.close()


def test_an_old_driver_does_not_remove_what_belongs_to_the_next_job(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, old = place.log(), place.driver()
    place.end_job(log, "finished")
    start(place)  # the next job has the folder now
    following = ActiveDriver(place.folder, Lease(place.folder, 1, HOUR_MS, place.clock), None)
    following.stores(Submission(place.program), {})
    following.starting(place.starting(B_ID))
    old.report(job_record(status="FINISHED"))
    program = read_program(place.folder, place.folder.listing())
    assert program is not None and program.job_id == B_ID
