"""The job log under one writer, two writers, lost replies, late writes and compaction (PROTOCOL R3 to R7)."""

import pytest

from penstock import failpoint
from penstock.checkpoint.file_names import log_entry_path
from penstock.checkpoint.log.entries import Discard, Restore, Resumed, SavepointEntry, Status, Stopping
from penstock.checkpoint.log.job_log import BASE_EVERY
from penstock.checkpoint.log.log_reader import read_log
from penstock.errors import FencedError, JobConflictError, LogCorruptError, StorageError, UnknownOutcomeError
from penstock.failpoint import Failpoint, InjectedCrash
from penstock.storage import Fault, LocalStorage, MemoryStorage
from tests.checkpoint.logs import Script, claim_of, claimed_log, complete_of, open_log


@pytest.fixture(autouse=True)
def disarmed():
    yield
    failpoint.disarm()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def storage(script: Script) -> MemoryStorage:
    return MemoryStorage(script)


def grow(log, count: int) -> None:
    """Append that many entries that change little."""
    for _ in range(count):
        log.append(Resumed())


# ---- reading


def test_an_empty_folder_is_a_job_that_never_started(storage: MemoryStorage) -> None:
    view = open_log(storage).view()
    assert (view.attempt, view.number, view.lineage, view.origin, view.started) == (0, 0, (), None, False)
    assert view.highest_checkpoint == -1


def test_what_was_appended_is_read_back(tmp_path) -> None:
    storage = LocalStorage(tmp_path)
    log = claimed_log(storage)
    log.append(complete_of(0))
    log.append(complete_of(1))
    log.append(Discard([0], ["shared/1-0-s0-0-aa"]))
    log.append(SavepointEntry(4, "somewhere", "0" * 64))
    log.append(Stopping(5))
    read = open_log(storage).view()
    assert read == log.view()
    assert [c.checkpoint for c in read.retained] == [1]
    assert read.open_deletes == ("shared/1-0-s0-0-aa",)
    assert (
        read.highest_checkpoint,
        read.stopping.checkpoint if read.stopping else None,
        read.entry_count,
        read.number,
    ) == (5, 5, 6, 6)
    assert sorted(p.name for p in (tmp_path / "log").iterdir())[0] == "00000000000000000001"


def test_state_without_a_log_is_refused(storage: MemoryStorage) -> None:
    storage.put_new("shared/1-1-s0-0-aa", b"state")
    with pytest.raises(LogCorruptError, match="holds state"):
        open_log(storage)


def test_a_gap_in_the_log_is_refused(storage: MemoryStorage) -> None:
    grow(claimed_log(storage), 3)
    del storage.files[log_entry_path(2)]
    with pytest.raises(LogCorruptError, match="cannot be read to its end"):
        open_log(storage)


def test_a_log_whose_beginning_is_missing_is_refused(storage: MemoryStorage) -> None:
    grow(claimed_log(storage), 3)
    del storage.files[log_entry_path(1)]
    with pytest.raises(LogCorruptError):
        open_log(storage)


def test_any_flipped_or_missing_byte_of_an_entry_is_found(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    log.append(complete_of(1))
    path = log_entry_path(2)
    good = storage.files[path]
    for position in range(len(good)):
        for bad in (good[:position], good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]):
            storage.files[path] = bad
            with pytest.raises(LogCorruptError):
                open_log(storage)


def test_an_entry_under_another_number_is_found(storage: MemoryStorage) -> None:
    grow(claimed_log(storage), 2)
    storage.files[log_entry_path(3)] = storage.files[log_entry_path(2)]
    with pytest.raises(LogCorruptError, match="record of entry 2"):
        open_log(storage)


def test_a_storage_that_does_not_answer_is_not_an_empty_log(storage: MemoryStorage, script: Script) -> None:
    claimed_log(storage)
    for operation in ("list", "read"):
        script.add(operation, "log/", Fault.FAIL)
        with pytest.raises(StorageError):
            open_log(storage)
    assert open_log(storage).view().attempt == 1


def test_leftovers_of_interrupted_writes_are_no_entries(storage: MemoryStorage) -> None:
    storage.files["log/00000000000000000001~abc"] = b"half"
    log = claimed_log(storage)
    assert log.view().number == 1
    assert open_log(storage).view().attempt == 1


# ---- claims


def test_a_claim_fences_the_older_attempt(storage: MemoryStorage) -> None:
    old = claimed_log(storage, writer="old")
    new = claimed_log(storage, writer="new")
    with pytest.raises(FencedError):
        old.append(complete_of(1))
    with pytest.raises(FencedError):
        old.check_fenced()
    new.check_fenced()
    assert open_log(storage).view().claim == claim_of(2, writer="new")
    assert open_log(storage).view().retained == ()


def test_the_older_attempt_sees_that_it_is_fenced_without_appending(storage: MemoryStorage) -> None:
    old = claimed_log(storage)
    old.check_fenced()
    claimed_log(storage)
    with pytest.raises(FencedError):
        old.check_fenced()


def test_of_two_drivers_that_start_together_one_wins_and_the_other_is_told(storage: MemoryStorage) -> None:
    first, second = open_log(storage), open_log(storage)
    second.claim(claim_of(1, writer="second"))
    with pytest.raises(JobConflictError, match="'second'"):
        first.claim(claim_of(1, writer="first"))
    second.append(complete_of(0))


def test_a_claim_takes_over_what_the_owner_wrote_meanwhile(storage: MemoryStorage) -> None:
    owner = claimed_log(storage)
    owner.append(complete_of(0))
    new = open_log(storage)
    owner.append(complete_of(1))
    new.claim(claim_of(2))
    assert [c.checkpoint for c in new.view().lineage] == [0, 1]
    with pytest.raises(FencedError):
        owner.append(complete_of(2))


def test_a_claim_whose_reply_was_lost_is_found_again(storage: MemoryStorage, script: Script) -> None:
    for fault in (Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE):
        script.add("put_new", "log/", fault)
        claimed_log(storage).append(Resumed())
    assert open_log(storage).view().attempt == 3


def test_a_job_that_has_ended_is_claimed_only_when_asked_for(storage: MemoryStorage) -> None:
    for word in ("finished", "cancelled", "failed"):
        log = claimed_log(storage, reopen=True)
        log.append(Status(word))
        with pytest.raises(JobConflictError, match=word):
            claimed_log(storage)
    log = claimed_log(storage, reopen=True)
    log.append(Status("suspended"))
    assert claimed_log(storage).view().status is None


def test_a_log_cannot_be_claimed_twice_or_out_of_order(storage: MemoryStorage) -> None:
    log = open_log(storage)
    with pytest.raises(ValueError):
        log.claim(claim_of(2))
    log.claim(claim_of(1))
    with pytest.raises(ValueError):
        log.claim(claim_of(2))


@pytest.mark.parametrize("place", ["C1.before", "C1.after", "C31.before", "C31.after", "C30.before", "C30.after"])
def test_a_crash_around_an_append_leaves_a_log_that_can_be_claimed(storage: MemoryStorage, place: str) -> None:
    log = claimed_log(storage)
    log.append(complete_of(0))
    failpoint.arm(Failpoint(place, "raise"))
    with pytest.raises(InjectedCrash):
        if place.startswith("C30"):
            log.append(Status("suspended"))
        elif place.startswith("C31"):
            log.append(complete_of(1))
        else:
            claimed_log(storage)
    failpoint.disarm()
    view = claimed_log(storage).view()
    assert view.attempt == (3 if place == "C1.after" else 2)
    assert [c.checkpoint for c in view.lineage] == ([0, 1] if place == "C31.after" else [0])


# ---- lost replies


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE])
def test_an_append_without_reply_is_in_the_log_once(storage: MemoryStorage, script: Script, fault: Fault) -> None:
    log = claimed_log(storage)
    script.add("put_new", "log/", fault, fault)
    assert log.append(complete_of(1)) == 2
    log.append(complete_of(2))
    while storage.in_flight:
        assert not storage.land()
    assert [c.checkpoint for c in open_log(storage).view().lineage] == [1, 2]


def test_an_append_that_never_gets_an_answer_stops_the_log(storage: MemoryStorage, script: Script) -> None:
    log = claimed_log(storage)
    script.add("put_new", "log/", *[Fault.LATE] * 20)
    with pytest.raises(UnknownOutcomeError):
        log.append(complete_of(1))
    script.faults.clear()
    assert log.in_doubt
    for call in (lambda: log.append(Resumed()), log.check_fenced):
        with pytest.raises(UnknownOutcomeError):
            call()
    assert storage.land()  # it was not failed: it lands
    assert [c.checkpoint for c in claimed_log(storage).view().lineage] == [1]


def test_an_entry_that_lands_after_the_next_claim_does_not_count(storage: MemoryStorage, script: Script) -> None:
    log = claimed_log(storage)
    script.add("put_new", "log/", *[Fault.LATE] * 20)
    with pytest.raises(UnknownOutcomeError):
        log.append(complete_of(1))
    script.faults.clear()
    new = claimed_log(storage)
    while storage.in_flight:
        assert not storage.land()
    assert new.view().lineage == () == open_log(storage).view().lineage
    new.append(complete_of(2))


def test_an_append_that_failed_for_certain_can_be_followed_by_another(storage: MemoryStorage, script: Script) -> None:
    log = claimed_log(storage)
    script.add("put_new", "log/", Fault.FAIL)
    with pytest.raises(StorageError):
        log.append(complete_of(1))
    assert not log.in_doubt
    assert log.append(complete_of(2)) == 2
    assert [c.checkpoint for c in open_log(storage).view().lineage] == [2]


def test_an_append_that_was_won_but_cannot_be_checked_is_never_called_failed(
    storage: MemoryStorage, script: Script
) -> None:
    log = claimed_log(storage)
    script.add("list", "log/", *[Fault.FAIL] * 3)
    log.append(complete_of(1))
    script.add("list", "log/", *[Fault.FAIL] * 20)
    with pytest.raises(UnknownOutcomeError):
        log.append(complete_of(2))
    assert log.in_doubt


# ---- compaction


def test_a_base_replaces_a_hundred_entries(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    log.append(complete_of(0))
    log.append(Restore(0, None, "test"))
    log.append(complete_of(7))
    log.append(Discard([0], ["shared/1-0-s0-0-aa", "shared/1-9-s0-0-bb"]))
    storage.put_new("shared/1-9-s0-0-bb", b"not deleted yet")
    grow(log, BASE_EVERY - 6)
    log.shorten_if_due()
    assert log.view().base_number == 0
    grow(log, 1)
    before = log.view()
    log.shorten_if_due()
    assert storage.list("log/") == [log_entry_path(BASE_EVERY + 1)]
    read = open_log(storage).view()
    assert read == log.view()
    assert read.open_deletes == ("shared/1-9-s0-0-bb",)
    assert (read.lineage, read.restore, read.claim) == (before.lineage, before.restore, before.claim)
    assert (read.highest_checkpoint, read.started, read.entry_count) == (9, True, BASE_EVERY + 1)
    grow(log, 5)
    assert open_log(storage).view() == log.view()


def test_a_base_keeps_both_lines_the_end_and_the_stop(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    for number in (0, 1, 2):
        log.append(complete_of(number))
    log.append(Restore(1, None, "fallback"))
    log.append(Stopping(9))
    log.append(Status("suspended", "failover"))
    grow_without_change = BASE_EVERY - log.view().number
    for _ in range(grow_without_change):
        log.append(SavepointEntry(9, "somewhere", "0" * 64))
    log.shorten_if_due()
    assert log.view().base_number == BASE_EVERY + 1
    assert open_log(storage).view() == log.view()
    assert [c.checkpoint for c in log.view().left_behind] == [2]


def test_one_that_slept_through_a_compaction_wins_a_free_number_and_is_still_fenced(storage: MemoryStorage) -> None:
    sleeper = claimed_log(storage)
    grow(sleeper, 3)
    owner = claimed_log(storage)
    grow(owner, BASE_EVERY)
    owner.shorten_if_due()
    number = sleeper.view().number + 1
    assert log_entry_path(number) not in storage.files  # deleted: the number is free again
    with pytest.raises(FencedError):
        sleeper.append(complete_of(1))
    assert log_entry_path(number) in storage.files  # it was written, and does not count
    assert open_log(storage).view() == owner.view()
    with pytest.raises(FencedError):
        sleeper.append(complete_of(2))
    grow(owner, BASE_EVERY)
    owner.shorten_if_due()
    assert log_entry_path(number) not in storage.files


def test_a_claim_on_a_number_that_a_compaction_has_freed_is_made_again_at_the_end(storage: MemoryStorage) -> None:
    owner = claimed_log(storage)
    late = open_log(storage)
    grow(owner, BASE_EVERY)
    owner.shorten_if_due()
    late.claim(claim_of(2))
    assert late.view().number == owner.view().number + 1
    late.append(complete_of(3))
    with pytest.raises(FencedError):
        owner.append(Resumed())
    assert open_log(storage).view() == late.view()


def test_a_late_entry_in_a_freed_number_is_ignored(storage: MemoryStorage, script: Script) -> None:
    dead = claimed_log(storage)
    script.add("put_new", "log/", *[Fault.LATE] * 20)
    with pytest.raises(UnknownOutcomeError):
        dead.append(complete_of(1))
    script.faults.clear()
    owner = claimed_log(storage)
    grow(owner, BASE_EVERY)
    owner.shorten_if_due()
    assert storage.land()
    assert open_log(storage).view() == owner.view()
    owner.check_fenced()
    owner.append(complete_of(2))


def test_reading_goes_on_when_the_owner_compacts_meanwhile(storage: MemoryStorage) -> None:
    owner = claimed_log(storage)
    grow(owner, BASE_EVERY)

    class Compacting:
        """Lets the owner compact just before the third entry is read."""

        reads = 0

        def before(self, operation: str, path: str) -> Fault | None:
            self.reads += operation == "read"
            if self.reads == 3:
                self.reads = 100
                owner.shorten_if_due()
            return None

        def landed(self, path: str, data: bytes) -> None: ...

        def deleted(self, path: str) -> None: ...

    reading = MemoryStorage(Compacting())
    reading.files = storage.files
    assert open_log(reading).view() == owner.view()


@pytest.mark.parametrize("deletes", [None, 0, 1, 60, 100])
def test_a_crash_in_the_middle_of_compaction_changes_nothing(
    storage: MemoryStorage, script: Script, deletes: int | None
) -> None:
    log = claimed_log(storage)
    log.append(complete_of(4))
    grow(log, BASE_EVERY)
    if deletes is None:
        script.add("put_new", "log/", InjectedCrash("base"))
    else:
        script.add("delete", "log/", *[None] * deletes, InjectedCrash("delete"))
    with pytest.raises(InjectedCrash):
        log.shorten_if_due()
    view = claimed_log(storage).view()
    assert [c.checkpoint for c in view.lineage] == [4]
    assert view.attempt == 2


# ---- lines


def test_a_restore_leaves_newer_checkpoints_behind(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    for number in (0, 1, 2, 3):
        log.append(complete_of(number))
    log.append(Restore(1, None, "fallback"))
    view = log.view()
    assert [c.checkpoint for c in view.lineage] == [0, 1]
    assert [c.checkpoint for c in view.left_behind] == [2, 3]
    assert not view.moved_on
    log.append(complete_of(4, epoch=2))
    assert log.view().moved_on
    assert [c.checkpoint for c in log.view().lineage] == [0, 1, 4]
    assert [c.checkpoint for c in log.view().retained] == [0, 1, 2, 3, 4]


def test_a_restore_from_elsewhere_starts_a_line_of_its_own(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    log.append(complete_of(0))
    log.append(Restore(None, "savepoint-1", "-s"))
    view = log.view()
    assert (view.lineage, view.origin) == ((), "savepoint-1")
    assert [c.checkpoint for c in view.left_behind] == [0]


def test_a_checkpoint_left_behind_can_be_restored_by_name(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    for number in (0, 1, 2):
        log.append(complete_of(number))
    log.append(Restore(0, None, "-s"))
    log.append(Restore(2, None, "-s"))
    assert [c.checkpoint for c in log.view().lineage] == [2]
    assert [c.checkpoint for c in log.view().left_behind] == [1, 0]


def test_entries_that_cannot_follow_are_not_written(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    log.append(complete_of(5))
    for entry in (complete_of(5), complete_of(4), complete_of(6, epoch=1), Restore(9, None, "unknown")):
        with pytest.raises(LogCorruptError):
            log.append(entry)
    assert log.view().number == 2
    assert not log.in_doubt


def test_a_job_that_starts_while_its_log_is_looked_for_is_not_taken_for_one_that_lost_it() -> None:
    """Found by the simulator: the log's folder was listed just before the first claim, the whole folder after it."""

    class StartsInBetween(Script):
        started = False

        def before(self, operation: str, path: str) -> Fault | None:
            if operation == "list" and path == "" and not self.started:
                self.started = True
                log = claimed_log(folder)
                folder.put_new("chk-0/1-source-0a", b"")
                log.append(complete_of(0))
            return super().before(operation, path)

    folder = MemoryStorage(StartsInBetween())
    assert read_log(folder).number == 2
