"""What a standby waits for, when it takes a job over, and when it does not (features U1 to U4)."""

from pathlib import Path

import pytest

from penstock.checkpoint.job_folders import find_jobs
from penstock.control.standby.active_driver import ActiveDriver
from penstock.control.standby.ha_folder import HaFolder
from penstock.control.standby.standby import Standby, StandbyNotice, Takeover
from penstock.control.submission import Submission
from penstock.errors import StorageError
from penstock.storage.paths import Paths
from tests.control.standby.places import STEP_MS, TIMEOUT_MS, Place
from tests.records import A_ID, B_ID, job_record


def states(place: Place) -> list[str]:
    return [notice.state for notice in place.notices]


def look_for(place: Place, standby: Standby, milliseconds: int) -> Takeover | StandbyNotice:
    """The first takeover or end within this time, else what the standby waits for."""
    found: Takeover | StandbyNotice = standby.look()
    for _ in range(milliseconds // STEP_MS):
        if isinstance(found, Takeover) or found.state == "ended":
            return found
        place.pass_time(STEP_MS)
        found = standby.look()
    return found


def state_after(place: Place, standby: Standby, milliseconds: int) -> str:
    found = look_for(place, standby, milliseconds)
    return "taken" if isinstance(found, Takeover) else found.state


def test_u1_a_job_whose_driver_is_silent_is_taken_over_as_the_same_job(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver(parallelism=2, savepoint_path=str(tmp_path), arguments=("x",))
    found = look_for(place, place.standby(), 2 * TIMEOUT_MS)
    assert isinstance(found, Takeover) and found.lease.term == 2
    (tmp_path / "unpacked").mkdir()
    submission = found.unpack(tmp_path / "unpacked", "/ha", {"spark.master": "local[1]"})
    assert (submission.job_id, submission.restarts, submission.reopens) == (A_ID, True, False)
    assert (submission.parallelism, submission.arguments, submission.name) == (2, ("x",), "totals")
    assert submission.overrides["spark.master"] == "local[1]" and submission.overrides["parallelism.default"] == "3"
    assert submission.job_file.read_text(encoding="utf-8") == "print('hello')\n"


def test_u1_it_takes_over_after_the_timeout_and_not_before(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver()
    standby = place.standby()
    assert state_after(place, standby, TIMEOUT_MS - STEP_MS) == "running"
    assert state_after(place, standby, STEP_MS) == "taken"


def test_a_job_whose_driver_lives_is_left_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    driver, standby = place.driver(), place.standby()
    for _ in range(50):
        driver._lease.renew()
        assert state_after(place, standby, 2 * STEP_MS) == "running"


def test_a_standby_may_start_first_and_says_each_thing_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    standby = place.standby()
    steps = iter(range(40))
    log = []

    def wait(_: float) -> None:
        step = next(steps)
        if step == 5:
            log.append(place.log())
            place.driver()
        place.pass_time(STEP_MS)

    assert isinstance(standby.wait_for_turn(wait), Takeover)
    assert states(place) == ["empty", "running"]
    assert "which process" in place.notices[-1].text and A_ID in place.notices[-1].text


@pytest.mark.parametrize(
    ("word", "status"), [("finished", "FINISHED"), ("cancelled", "CANCELED"), ("failed", "FAILED")]
)
def test_u4_a_job_that_has_ended_is_not_taken_over_and_its_rest_is_removed(
    tmp_path: Path, word: str, status: str
) -> None:
    place = Place(tmp_path)
    log = place.log()
    place.driver()
    standby = place.standby()
    standby.look()
    place.end_job(log, word)  # and the driver dies before it removes anything
    found = look_for(place, standby, 2 * TIMEOUT_MS)
    assert isinstance(found, StandbyNotice) and (found.state, found.status) == ("ended", status)
    assert list((tmp_path / "ha").iterdir()) == []


def test_a_standby_ends_with_its_job(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, driver, standby = place.log(), place.driver(), place.standby()
    assert state_after(place, standby, STEP_MS) == "running"
    place.end_job(log, "finished")
    driver.report(job_record(status="FINISHED"))
    assert state_after(place, standby, STEP_MS) == "ended"


def test_a_suspended_job_is_left_until_it_is_resumed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    driver, standby = place.driver(), place.standby()
    driver.report(job_record(status="SUSPENDED"))
    assert state_after(place, standby, 10 * TIMEOUT_MS) == "suspended"
    place.lease()  # the user resumes it, and that driver dies at once
    assert state_after(place, standby, 2 * TIMEOUT_MS) == "taken"


def test_u4_a_suspended_job_that_was_cancelled_is_over(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, driver, standby = place.log(), place.driver(), place.standby()
    driver.report(job_record(status="SUSPENDED"))
    assert state_after(place, standby, TIMEOUT_MS) == "suspended"
    place.end_job(log, "cancelled")
    assert state_after(place, standby, 2 * TIMEOUT_MS) == "ended"
    assert list((tmp_path / "ha").iterdir()) == []


def test_a_suspended_job_is_taken_at_once_by_a_standby_that_resumes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver().report(job_record(status="SUSPENDED"))
    found = place.standby(resumes=True).look()
    assert isinstance(found, Takeover) and found.was_suspended
    assert not place.folder.listing().is_suspended


def test_u2_without_the_stored_program_there_is_no_takeover(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver()
    standby = place.standby()
    standby.look()
    (tmp_path / "ha" / "ha-program-00000001.zip").unlink()
    assert state_after(place, standby, 10 * TIMEOUT_MS) == "empty"


def test_lost_lease_files_delay_a_takeover_and_cause_none(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    driver, standby = place.driver(), place.standby()
    for _ in range(10):
        place.folder.remove_beats(place.folder.listing().leases)
        assert state_after(place, standby, 3 * STEP_MS) == "running"
        driver._lease.renew()
        assert state_after(place, standby, 3 * STEP_MS) == "running"
    place.folder.remove_beats(place.folder.listing().leases)
    assert state_after(place, standby, 2 * TIMEOUT_MS) == "taken"


def test_of_two_standbys_one_takes_over_and_the_other_goes_on_waiting(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver()
    first, second = place.standby(), place.standby()
    second.look()
    found = look_for(place, first, 2 * TIMEOUT_MS)
    assert isinstance(found, Takeover)
    for _ in range(20):
        found.lease.renew()
        assert state_after(place, second, STEP_MS) == "running"
    assert state_after(place, second, 2 * TIMEOUT_MS) == "taken", "the first one has died in turn"


def test_of_two_standbys_that_decide_on_the_same_listing_the_later_one_goes_on_waiting(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver()
    standby = place.standby()
    assert state_after(place, standby, TIMEOUT_MS - STEP_MS) == "running"
    place.pass_time(STEP_MS)
    seen = place.folder.listing()
    place.lease()  # between its listing and its decision
    assert standby._program is not None
    assert isinstance(standby._take(standby._program, seen), StandbyNotice)
    assert place.folder.listing().term == 2


def test_a_folder_that_cannot_be_read_is_no_reason_to_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.log()
    driver, standby = place.driver(), place.standby()
    standby.look()

    def fail(self: object, prefix: str) -> Paths:
        raise StorageError("gone")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.storage.local.LocalStorage.list", fail)
        assert state_after(place, standby, 10 * TIMEOUT_MS) == "away"
    driver._lease.renew()
    assert state_after(place, standby, TIMEOUT_MS - STEP_MS) == "running"


def test_a_program_that_takes_the_place_of_another_is_the_one_that_is_taken_over(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    place.driver()
    standby = place.standby()
    standby.look()
    place.program.write_text("print('second')\n", encoding="utf-8")
    place.driver()
    found = look_for(place, standby, 2 * TIMEOUT_MS)
    assert isinstance(found, Takeover)
    (tmp_path / "unpacked").mkdir()
    assert "second" in found.unpack(tmp_path / "unpacked", "/ha", {}).job_file.read_text(encoding="utf-8")


def test_a_standby_that_has_missed_the_next_job_of_the_folder_takes_that_one_over(tmp_path: Path) -> None:
    """Terms begin anew when a folder is cleared, so that both programs have the same name."""
    place = Place(tmp_path)
    log, driver, standby = place.log(), place.driver(), place.standby()
    standby.look()
    place.end_job(log, "finished")
    driver.report(job_record(status="FINISHED"))
    following = ActiveDriver(place.folder, place.lease(), None)
    following.stores(Submission(place.program), {})
    following.starting(place.starting(B_ID))
    assert place.folder.listing().programs == (1,)
    found = look_for(place, standby, 3 * TIMEOUT_MS)
    assert isinstance(found, Takeover) and found.program.job_id == B_ID


def test_the_folder_may_be_the_checkpoint_folder_itself(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.log()
    (tmp_path / "checkpoints").chmod(0o700)
    place.folder = HaFolder.open(str(tmp_path / "checkpoints"))
    place.driver()
    assert [job_id for job_id, _ in find_jobs(str(tmp_path / "checkpoints"))] == [A_ID]
    assert state_after(place, place.standby(), 2 * TIMEOUT_MS) == "taken"
