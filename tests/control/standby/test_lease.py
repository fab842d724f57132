"""Who drives the job of a `--ha` folder, and how its silence is measured."""

from pathlib import Path

import pytest

from penstock.control.standby.ha_folder import HaFolder
from penstock.control.standby.lease import Lease, Silence
from penstock.errors import JobConflictError, UsageError
from tests.control.standby.places import TIMEOUT_MS, Place


def test_a_change_ends_the_silence_and_an_unchanged_sign_of_life_adds_to_it() -> None:
    silence = Silence(2.0)
    assert [silence.look((1, 0), 0.0), silence.look((1, 0), 1.5), silence.look((1, 1), 3.0)] == [0.0, 1.5, 0.0]
    assert silence.look(None, 4.0) == 0.0, "a lease file that was lost is a change, too"
    assert silence.look(None, 5.0) == 1.0


def test_one_look_after_a_long_sleep_of_the_standby_itself_proves_nothing() -> None:
    silence = Silence(2.0)
    silence.look((1, 0), 0.0)
    assert silence.look((1, 0), 3_600.0) == 2.0


def test_a_monotonic_clock_that_goes_back_adds_nothing() -> None:
    silence = Silence(2.0)
    silence.look((1, 0), 10.0)
    assert silence.look((1, 0), 9.0) == 0.0


def test_u1_of_two_that_take_the_same_term_one_gets_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    seen = place.folder.listing()
    first = Lease.take(place.folder, seen, TIMEOUT_MS, place.clock)
    with pytest.raises(JobConflictError, match="has just taken over"):
        Lease.take(place.folder, seen, TIMEOUT_MS, place.clock)
    assert place.folder.listing().beat == (first.term, 0)


def test_u1_a_term_whose_first_sign_of_life_is_gone_again_is_not_free(tmp_path: Path) -> None:
    """Two standbys see the same folder, and the slower one decides when the other has renewed its lease already."""
    place = Place(tmp_path)
    seen = place.folder.listing()
    first = Lease.take(place.folder, seen, TIMEOUT_MS, place.clock)
    assert first.renew() and place.folder.listing().leases == ((1, 1),)
    with pytest.raises(JobConflictError, match="has just taken over"):
        Lease.take(place.folder, seen, TIMEOUT_MS, place.clock)
    assert first.renew() and place.folder.listing().leases == ((1, 2),)


def test_a_renewal_leaves_one_file(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lease = place.lease()
    assert [lease.renew() for _ in range(3)] == [True, True, True]
    assert place.folder.listing().leases == ((1, 3),)


def test_lost_lease_files_come_back_with_the_next_renewal(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lease = place.lease()
    place.folder.clear(place.folder.listing())
    assert lease.renew() and place.folder.listing().beat == (1, 1)


def test_an_old_driver_that_wakes_up_renews_nothing_while_a_newer_one_lives(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old, new = place.lease(), place.lease()
    for _ in range(30):
        assert new.renew()
        place.pass_time(TIMEOUT_MS / 5)
        assert not old.renew()
    assert place.folder.listing().leases == ((new.term, 30),)


def test_a_driver_whose_successor_died_before_it_claimed_the_job_shows_again_that_it_is_driven(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old, new = place.lease(), place.lease()
    renewed = []
    for _ in range(8):
        renewed.append(old.renew())
        place.pass_time(TIMEOUT_MS / 5)
    assert renewed == [False] * 5 + [True] * 3
    assert old.term == new.term + 1


def test_a_driver_that_was_replaced_does_not_wake_a_job_that_was_suspended_since(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old, new = place.lease(), place.lease()
    place.folder.put_suspended(new.term)
    for _ in range(20):
        assert not old.renew()
        place.pass_time(TIMEOUT_MS / 5)


def test_s_the_folder_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.driver()
    assert (tmp_path / "ha").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "ha").iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_s_a_folder_with_files_that_others_may_read_or_write_is_refused_and_left(tmp_path: Path, mode: int) -> None:
    (tmp_path / "ha").mkdir()
    (tmp_path / "ha" / "file").touch()
    (tmp_path / "ha").chmod(mode)
    with pytest.raises(UsageError, match="chmod 700"):
        HaFolder.open(str(tmp_path / "ha"))
    assert (tmp_path / "ha").stat().st_mode & 0o777 == mode


def test_s_an_empty_folder_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "ha").mkdir(mode=0o755)
    HaFolder.open(str(tmp_path / "ha"))
    assert (tmp_path / "ha").stat().st_mode & 0o777 == 0o700


def test_a_file_in_place_of_the_folder_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "ha").touch()
    with pytest.raises(UsageError, match="is not a folder"):
        HaFolder.open(str(tmp_path / "ha"))
