"""Numbers, fencing, files and the end: what the coordinator keeps and what it removes (PROTOCOL R4, R7, R18, R22)."""

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.file_names import metadata_path, state_file_path
from penstock.checkpoint.log.entries import Discard, Restore
from penstock.checkpoint.restore.restore_choice import choose_restore
from penstock.checkpoint.restore.sink_recovery import recover_sinks
from penstock.checkpoint.snapshot.manifest import file_paths
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    FencedError,
)
from penstock.model.snapshot import CheckpointAck, SourcePosition, StateFile
from penstock.storage import Fault
from tests.checkpoint.driver import (
    SETTINGS,
    SUBTASKS,
    Driver,
    World,
    last_reason,
    new_driver,
    new_world,
    pending_epoch,
    retaining,
)
from tests.checkpoint.logs import Script, claimed_log
from tests.checkpoint.manifests import file_of, snapshot


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def script(world: World) -> Script:
    script = Script()
    world.checker.on_call = script.before
    return script


# ---- numbers (R7) and fencing (R4)


def test_r7_numbers_are_above_everything_in_the_log_and_on_storage(world: World) -> None:
    driver = new_driver(world)
    driver.checkpoint()
    world.checker.storage.files["chk-40/notes.txt"] = b"foreign"
    second = new_driver(world)
    assert second.coordinator.next_id == 41
    del world.checker.storage.files["chk-40/notes.txt"]
    second.log.append(Discard([], ["shared/1-50-s0-0-aa"]))
    assert second.coordinator.next_id == 51
    assert second.checkpoint() == 51
    assert new_driver(world).coordinator.next_id == 52


def test_r7_on_a_clash_the_checkpoint_is_aborted_and_gets_no_other_number(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_all()
    world.checker.storage.files[metadata_path(number)] = b"of an old attempt"
    assert driver.coordinator.complete_ready() == []
    assert "exists already" in last_reason(driver)
    assert driver.checkpoint() == number + 1
    assert world.checker.orphans() == []


def test_r7_a_number_whose_manifest_is_being_discarded_is_not_given_out(world: World) -> None:
    driver = new_driver(world)
    used_up = driver.coordinator.next_id
    world.checker.storage.files[metadata_path(used_up)] = b"of an old attempt that does not know it is one"
    started: list[int | None] = []

    def start_meanwhile(operation: str, path: str) -> Fault | None:
        if operation == "put_new" and path.startswith("log/") and not started:
            started.append(driver.coordinator.start(1, SUBTASKS, forced=True))
        return None

    world.checker.on_call = start_meanwhile
    driver.coordinator.complete_ready()
    assert metadata_path(used_up) in world.checker.discarded
    assert started == [used_up + 1]


def test_i11_a_manifest_is_not_put_where_a_discard_lies(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_all()
    driver.log.append(Discard([], [metadata_path(number)]))
    assert driver.coordinator.complete_ready() == []
    assert "which is discarded" in last_reason(driver)


def test_files_of_the_first_checkpoint_are_not_swept_before_it(world: World) -> None:
    begin = CheckpointCoordinator.first_checkpoint

    def first(self: CheckpointCoordinator, source: SourcePosition) -> None:
        self.complete_ready()  # the completing thread is faster
        begin(self, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointCoordinator, "first_checkpoint", first)
        for seed in range(10):
            new_driver(new_world(seed)).checkpoint()


def test_r7_a_clash_of_the_first_checkpoint_ends_the_attempt(world: World, script: Script) -> None:
    class Sneaking:
        """Puts the manifest of checkpoint 0 just before the first attempt does."""

        def before(self, operation: str, path: str) -> Fault | None:
            if operation == "put_new" and path == metadata_path(0):
                world.checker.storage.files.setdefault(path, b"of another")
            return None

    world.checker.on_call = Sneaking().before
    with pytest.raises(CheckpointFailedError):
        new_driver(world)
    world.checker.on_call = None
    driver = new_driver(world)
    assert set(world.checker.completed) == {1}
    driver.checkpoint()
    assert world.checker.orphans() == []


def test_r4_a_fenced_coordinator_does_nothing_more(world: World) -> None:
    old = new_driver(world)
    number = pending_epoch(old)
    old.write_all()
    new = new_driver(world)
    before = dict(world.checker.storage.files)
    for _ in range(2):
        with pytest.raises(FencedError):
            old.coordinator.complete_ready()
    with pytest.raises(FencedError):
        old.coordinator.start(5, SUBTASKS)
    assert old.told == []
    changed = set(before) ^ set(world.checker.storage.files)
    assert changed == {metadata_path(number)}  # put, but never complete
    new.checkpoint()
    assert world.checker.orphans() == []


def test_r4_fenced_between_complete_and_commit(world: World) -> None:
    old = new_driver(world)
    pending_epoch(old)
    old.write_all()
    world.sinks._fails = lambda: True
    old.coordinator.complete_ready()
    world.sinks._fails = lambda: False
    new = new_driver(world)
    world.sinks.require_rows(new.position)
    world.clock.advance(5000)
    with pytest.raises(FencedError):
        old.coordinator.complete_ready()
    assert old.told == []


# ---- files (R18, R22)


def test_r18_a_pending_checkpoint_keeps_what_it_builds_on(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, max_concurrent=3))
    driver.checkpoint()
    base = driver.coordinator.newest_completed
    assert base is not None
    slow = pending_epoch(driver)
    late, driver.queue = driver.queue, []
    quick = pending_epoch(driver)
    assert driver.coordinator.base_of(slow) is base is driver.coordinator.base_of(quick)
    driver.write_all()
    third = pending_epoch(driver)
    slowest, driver.queue = driver.queue, []
    assert driver.coordinator.complete_ready() == [quick]
    assert file_paths(base) <= set(world.checker.storage.files)  # `third` may build on it
    assert base.checkpoint_id not in world.checker.retained
    driver.queue = slowest
    driver.write_all()
    assert driver.coordinator.complete_ready() == [third]
    driver.checkpoint()
    assert world.checker.orphans() == []
    assert late


def part_with(driver: Driver, file: StateFile) -> None:
    """Acknowledge the pending checkpoint with this file for the first subtask."""
    write = next(w for w in driver.queue if w.subtask == SUBTASKS[0] and -1 not in w.rows)
    driver.queue = [w for w in driver.queue if w.subtask == SUBTASKS[1]]
    driver.write_all()
    part = msgspec.structs.replace(snapshot(0, (0, 3), file), version=write.version)
    driver.coordinator.ack(CheckpointAck(write.checkpoint, part, 0, 0, 0))


def test_r18_a_file_that_is_neither_new_nor_of_the_base_aborts_the_checkpoint(world: World) -> None:
    driver = new_driver(world)
    foreign = state_file_path(1, 0, SUBTASKS[0])
    world.checker.storage.files[foreign] = b"state"
    pending_epoch(driver)
    part_with(driver, file_of(foreign))
    assert driver.coordinator.complete_ready() == []
    assert "neither its own nor of its base" in last_reason(driver)


def test_i3_a_file_that_is_not_there_aborts_the_checkpoint(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    part_with(driver, file_of(state_file_path(1, number, SUBTASKS[0])))
    assert driver.coordinator.complete_ready() == []
    assert "which is not in" in last_reason(driver)


def test_i11_a_discarded_file_aborts_the_checkpoint(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    path = state_file_path(1, number, SUBTASKS[0])
    world.checker.storage.put_new(path, b"state")
    driver.log.append(Discard([], [path]))
    part_with(driver, file_of(path))
    assert driver.coordinator.complete_ready() == []
    assert "which is discarded" in last_reason(driver)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_k6_the_newest_checkpoints_are_retained(world: World, count: int) -> None:
    driver = new_driver(world, retaining(count))
    for number in range(1, 7):
        driver.checkpoint()
        expected = list(range(0, number + 1))[-count:]
        assert [c.checkpoint for c in driver.log.view().retained] == expected
        assert sorted(world.checker.retained) == expected
        assert world.checker.orphans() == []


def test_r22_a_retained_manifest_that_cannot_be_read_stops_garbage_collection(world: World) -> None:
    driver = new_driver(world, retaining(4))
    driver.checkpoint()
    path = metadata_path(1)
    good = world.checker.storage.files[path]
    for bad in (None, good[:-1], b"x"):
        if bad is None:
            del world.checker.storage.files[path]
        else:
            world.checker.storage.files[path] = bad
        before = set(world.checker.retained)
        driver.checkpoint()
        assert before <= set(world.checker.retained)
        assert driver.coordinator.cleaning_failure is not None and path in driver.coordinator.cleaning_failure
    assert set(world.checker.retained) == {0, 1, 2, 3, 4}
    world.checker.storage.files[path] = good
    driver.coordinator.abort_all(FailureReason.SHUTDOWN)
    driver.run_epoch(1, forced=True)
    driver.coordinator.abort_all(FailureReason.SHUTDOWN)
    driver.coordinator.complete_ready()
    assert driver.coordinator.cleaning_failure is None
    assert set(world.checker.retained) == {1, 2, 3, 4}
    assert world.checker.orphans() == []


def test_a_delete_that_fails_is_finished_the_next_time(world: World, script: Script) -> None:
    driver = new_driver(world)
    driver.checkpoint()
    script.add("delete", "", Fault.FAIL)
    driver.checkpoint()
    assert "cannot delete" in (driver.coordinator.cleaning_failure or "")
    assert world.checker.orphans() != []
    driver.checkpoint()
    assert world.checker.orphans() == []


def test_r22_foreign_files_are_never_touched(world: World) -> None:
    driver = new_driver(world)
    for path in ("chk-0/notes.txt", "shared/readme", "savepoint-1/_metadata", "taskowned/1-0-s0-0-aa", "top"):
        world.checker.storage.files[path] = b"foreign"
    for _ in range(3):
        driver.checkpoint()
    assert world.checker.orphans() == sorted(
        ["chk-0/notes.txt", "shared/readme", "savepoint-1/_metadata", "taskowned/1-0-s0-0-aa", "top"]
    )


def test_i4_what_older_attempts_left_is_swept(world: World) -> None:
    first = new_driver(world)
    first.checkpoint()
    pending_epoch(first)
    first.write_all()
    world.checker.storage.files["shared/1-7-s0-0-aa~0b"] = b"half"
    world.checker.storage.files["chk-9/_metadata~0b"] = b"half"
    world.checker.storage.files["log/00000000000000000002~0b"] = b"half"
    second = new_driver(world)
    second.coordinator.complete_ready()
    assert world.checker.orphans() == []
    first.run_epoch(1, forced=True)
    first.write_all()  # the old attempt still writes
    for _ in range(2):
        second.checkpoint()
    assert world.checker.orphans() == []


def test_checkpoints_left_behind_go_after_the_next_completion(world: World) -> None:
    driver = new_driver(world, retaining(3))
    for _ in range(3):
        driver.checkpoint()
    world.checker.storage.files[metadata_path(3)] = b"damaged"
    log = claimed_log(world.checker.storage)
    log.append(Restore(2, None, "fallback"))
    second = new_driver(world, retaining(3))
    assert second.manifest is not None and second.manifest.checkpoint_id == 2
    assert [c.checkpoint for c in second.log.view().left_behind] == [3]
    second.coordinator.complete_ready()
    assert 3 in world.checker.retained
    world.sinks.visible = Counter(range(second.position))  # going back behind committed output was asked for
    assert second.checkpoint() == 4
    assert second.log.view().left_behind == ()
    assert sorted(world.checker.retained) == [1, 2, 4]
    assert world.checker.orphans() == []


# ---- the end (R31)


def test_r31_after_the_final_checkpoint_the_status_comes_before_discards(world: World) -> None:
    driver = new_driver(world)
    driver.checkpoint()
    driver.run_epoch(0, forced=True, final=True)
    driver.write_all()
    with pytest.raises(CheckpointError, match="pending or not committed"):
        driver.finish()
    driver.settle()
    assert sorted(world.checker.retained) == [1, 2]
    world.sinks.require_rows(driver.position)
    driver.finish(keep=True)
    assert sorted(world.checker.retained) == [2]
    assert world.checker.orphans() == []
    assert driver.log.view().is_terminal


def test_a_cancelled_job_leaves_commits_to_whoever_restores_it(world: World) -> None:
    driver = new_driver(world)
    pending_epoch(driver)
    driver.write_all()
    world.sinks._fails = lambda: True
    driver.coordinator.complete_ready()
    for word, keep in (("finished", True), ("cancelled", False)):
        with pytest.raises(CheckpointError, match="not committed"):
            driver.finish(word, keep=keep)
    driver.finish("cancelled", keep=True)
    world.sinks._fails = lambda: False
    assert sorted(world.checker.retained) == [1]
    log = claimed_log(world.checker.storage, reopen=True)
    restored = choose_restore(log, allow_fallback=False)
    recover_sinks(log, restored, world.sinks)
    world.sinks.require_rows(driver.position)


def test_a_job_that_keeps_nothing_leaves_only_its_log(world: World) -> None:
    driver = new_driver(world, retaining(2))
    for _ in range(3):
        driver.checkpoint()
    driver.finish("cancelled", keep=False)
    assert world.checker.retained == {}
    assert all(path.startswith("log/") for path in world.checker.storage.files)
    reopened = claimed_log(world.checker.storage, reopen=True)
    with pytest.raises(CheckpointError, match="none is left"):
        choose_restore(reopened, allow_fallback=True)
