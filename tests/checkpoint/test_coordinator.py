"""The coordinator, rule by rule (PROTOCOL section 4)."""

from dataclasses import replace

import msgspec
import pytest

from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.file_names import metadata_path
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    SinkTransactionLostError,
    UnknownOutcomeError,
)
from penstock.model.ids import Version
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, SourcePosition
from penstock.storage import Fault
from tests.checkpoint.driver import (
    KEY_GROUPS,
    SETTINGS,
    SUBTASKS,
    World,
    last_reason,
    new_driver,
    new_world,
    pending_epoch,
)
from tests.checkpoint.logs import Script
from tests.checkpoint.manifests import snapshot


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def script(world: World) -> Script:
    script = Script()
    world.checker.on_call = script.before
    return script


# ---- a normal run


def test_checkpoints_complete_commit_and_replace_each_other(world: World) -> None:
    driver = new_driver(world)
    assert [c.checkpoint for c in driver.log.view().lineage] == [0]
    for number in (1, 2, 3):
        assert driver.checkpoint() == number
        world.sinks.require_rows(driver.position)
        assert [c.checkpoint for c in driver.log.view().retained] == [number]
        assert world.checker.orphans() == []
    assert driver.told == [1, 2, 3]
    newest = driver.coordinator.newest_completed
    assert newest is not None and (newest.checkpoint_id, newest.parent, newest.epoch) == (3, 2, 3)


def test_r23_the_first_checkpoint_holds_the_sources_initial_positions(world: World) -> None:
    driver = new_driver(world)
    manifest = world.checker.completed[0]
    assert (manifest.epoch, manifest.subtasks, manifest.sources.batch_id, manifest.max_parallelism) == (0, [], 0, 8)
    with pytest.raises(CheckpointError, match="never starts from nothing"):
        driver.coordinator.first_checkpoint(SourcePosition(-1, None))
    assert new_driver(world).manifest == manifest


def test_the_schedule_decides_and_a_forced_checkpoint_does_not_wait_for_it(world: World) -> None:
    driver = new_driver(world)
    assert driver.run_epoch(1) is None
    world.clock.advance(100)
    assert driver.run_epoch(1) == 1
    assert driver.run_epoch(1) is None
    world.clock.advance(100)
    assert not driver.coordinator.is_due
    assert driver.run_epoch(1, forced=True) == 2


def test_a_periodic_checkpoint_is_due_only_if_an_epoch_came_after_the_newest(world: World) -> None:
    driver = new_driver(world)
    world.clock.advance(100)
    assert not driver.coordinator.is_due
    driver.checkpoint()
    driver.run_epoch(1)
    assert not driver.coordinator.is_due
    world.clock.advance(100)
    assert driver.coordinator.is_due
    driver.checkpoint()
    world.clock.advance(100)
    assert not driver.coordinator.is_due
    restored = new_driver(world)
    world.clock.advance(100)
    assert not restored.coordinator.is_due


def test_the_history_has_the_last_ten(world: World) -> None:
    driver = new_driver(world)
    pending_epoch(driver)
    world.clock.advance(500)
    driver.write_all()
    driver.settle()
    stats = driver.coordinator.history()[-1]
    assert (stats.checkpoint_id, stats.status, stats.duration_ms) == (1, "completed", 500)
    pending_epoch(driver)
    assert driver.coordinator.history()[-1].duration_ms is None
    driver.coordinator.abort_all(FailureReason.SHUTDOWN)
    assert (last_reason(driver), driver.coordinator.history()[-1].status) == (
        "CheckpointCoordinator shutdown.",
        "failed",
    )
    for _ in range(12):
        driver.checkpoint()
    assert [s.checkpoint_id for s in driver.coordinator.history()] == list(range(5, 15))


# ---- acks (R17, R20, R22)


def test_r20_a_checkpoint_waits_for_its_epoch(world: World) -> None:
    driver = new_driver(world)
    number = driver.coordinator.start(1, SUBTASKS, forced=True)
    assert number == 1
    versions = {subtask: Version(1, 1, f"n{subtask.index}") for subtask in SUBTASKS}
    for subtask in SUBTASKS:
        part = snapshot(subtask.index, KEY_GROUPS[subtask.index])
        part = msgspec.structs.replace(part, version=versions[subtask])
        driver.coordinator.ack(CheckpointAck(number, part, 0, 0, 0))
    assert driver.coordinator.complete_ready() == []
    driver.coordinator.epoch_committed(EpochRecord(1, 5, versions, [], SourcePosition(0, None), {}, {}, 8))
    assert driver.coordinator.complete_ready() == [1]


def test_r17_an_ack_of_a_dropped_run_does_not_count(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    writes = {write.version: write for write in driver.queue}
    dropped = msgspec.structs.replace(snapshot(0, (0, 3)), subtask=SUBTASKS[0], version=Version(1, 1, "dropped"))
    driver.coordinator.ack(CheckpointAck(number, dropped, 0, 0, 0))
    driver.queue = [write for write in writes.values() if write.subtask == SUBTASKS[1]]
    driver.write_all()
    assert driver.coordinator.complete_ready() == []
    driver.queue = [write for write in writes.values() if write.subtask == SUBTASKS[0]]
    driver.write_all()
    assert driver.coordinator.complete_ready() == [number]
    assert "dropped" not in [part.version.nonce for part in world.checker.completed[number].subtasks]


def test_a_decline_aborts_the_checkpoint_and_its_files_go(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    write = next(w for w in driver.queue if w.subtask == SUBTASKS[1] and -1 not in w.rows)
    driver.queue = [w for w in driver.queue if w.subtask == SUBTASKS[0]]
    driver.write_all()
    driver.coordinator.decline(CheckpointDecline(number, write.subtask, write.version, "disk full"))
    assert driver.coordinator.complete_ready() == []
    assert "disk full" in last_reason(driver)
    assert world.checker.orphans() == []
    driver.checkpoint()
    world.sinks.require_rows(driver.position)


def test_a_decline_of_a_dropped_run_does_not_count(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.coordinator.decline(CheckpointDecline(number, SUBTASKS[0], Version(1, 1, "dropped"), "gone"))
    driver.write_all()
    assert driver.coordinator.complete_ready() == [number]


def test_k3_a_checkpoint_that_takes_too_long_is_aborted_and_late_acks_change_nothing(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    late = list(driver.queue)
    world.clock.advance(SETTINGS.timeout_ms)
    assert driver.coordinator.complete_ready() == []
    assert last_reason(driver) == "Checkpoint expired before completing."
    driver.write_all()
    assert driver.coordinator.complete_ready() == []
    assert number not in world.checker.completed
    assert driver.checkpoint() == number + 1
    assert world.checker.orphans() == []  # what the late acks had written
    assert late


def test_l7_a_newer_completion_ends_an_older_checkpoint(world: World) -> None:
    driver = new_driver(world)
    first = pending_epoch(driver)
    older, driver.queue = driver.queue, []
    second = driver.checkpoint()
    assert world.checker.completed.keys() == {0, second}
    driver.queue = older
    driver.write_all()
    assert driver.coordinator.complete_ready() == []
    failures = {stats.checkpoint_id: stats.failure for stats in driver.coordinator.history()}
    assert failures[first] == "Checkpoint has been subsumed."
    world.sinks.require_rows(driver.position)


def test_a_subtask_without_a_version_aborts_the_checkpoint(world: World) -> None:
    driver = new_driver(world)
    number = driver.coordinator.start(1, SUBTASKS, forced=True)
    assert number is not None
    driver.coordinator.epoch_committed(EpochRecord(1, 5, {}, [], SourcePosition(0, None), {}, {}, 8))
    driver.coordinator.complete_ready()
    assert "without subtask s0/0" in last_reason(driver)


def test_acks_for_unknown_checkpoints_and_subtasks_are_ignored(world: World) -> None:
    driver = new_driver(world)
    driver.coordinator.ack(CheckpointAck(99, snapshot(0, (0, 7)), 0, 0, 0))
    driver.coordinator.decline(CheckpointDecline(99, SUBTASKS[0], Version(1, 1, "n"), "why"))
    number = pending_epoch(driver)
    driver.coordinator.ack(CheckpointAck(number, snapshot(7, (0, 7)), 0, 0, 0))
    driver.write_all()
    assert driver.coordinator.complete_ready() == [number]


def test_an_epoch_cannot_be_committed_twice(world: World) -> None:
    driver = new_driver(world)
    driver.run_epoch(1)
    driver.checkpoint()
    for coordinator in (driver.coordinator, new_driver(world).coordinator):
        with pytest.raises(ValueError):
            coordinator.epoch_committed(EpochRecord(2, 0, {}, [], None, {}, {}, 8))


# ---- committables (R20, R21)


def test_r20_a_manifest_lists_the_committables_up_to_its_epoch(world: World) -> None:
    driver = new_driver(world)
    driver.run_epoch(1)
    number = pending_epoch(driver)
    driver.run_epoch(1)
    driver.run_epoch(1)
    driver.write_all()
    assert driver.coordinator.complete_ready() == [number]
    assert sorted({c.epoch for c in world.checker.completed[number].committables}) == [1, 2]
    assert world.checker.completed[number].epoch == 2
    second = driver.checkpoint()
    assert sorted({c.epoch for c in world.checker.completed[second].committables}) == [3, 4, 5]


def test_r20_the_committables_of_an_aborted_checkpoint_are_in_the_next(world: World) -> None:
    driver = new_driver(world)
    pending_epoch(driver)
    driver.coordinator.abort_all(FailureReason.SHUTDOWN)
    second = driver.checkpoint()
    assert sorted({c.epoch for c in world.checker.completed[second].committables}) == [1, 2]
    world.sinks.require_rows(driver.position)


def test_r21_the_next_checkpoint_waits_for_the_commits_of_the_former() -> None:
    failing = [True]
    world = new_world(fails=lambda: failing[0])
    driver = new_driver(world, replace(SETTINGS, max_concurrent=3))
    first, second = pending_epoch(driver), pending_epoch(driver)
    driver.write_all()
    assert driver.coordinator.complete_ready() == []
    assert set(world.checker.completed) == {0, first}
    assert driver.told == []
    world.clock.advance(1000)
    assert driver.coordinator.complete_ready() == []
    failing[0] = False
    assert driver.coordinator.complete_ready() == []  # the pause after a failure has not passed
    world.clock.advance(1000)
    assert driver.coordinator.complete_ready() == [first, second]
    world.sinks.require_rows(driver.position)


def test_r21_a_commit_that_fails_for_too_long_ends_the_attempt_and_recovery_commits() -> None:
    failing = [True]
    world = new_world(fails=lambda: failing[0])
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_all()
    with pytest.raises(CheckpointFailedError, match="recovery commits it again"):
        for _ in range(601):
            driver.coordinator.complete_ready()
            world.clock.advance(1000)
    assert number in world.checker.retained
    failing[0] = False
    recovered = new_driver(world)
    world.sinks.require_rows(recovered.position)


def test_a_lost_transaction_stops_the_attempt_at_once(world: World) -> None:
    driver = new_driver(world)
    pending_epoch(driver)
    driver.write_all()

    def lost() -> bool:
        raise SinkTransactionLostError("transaction t is gone: rows 1 to 3 are lost")

    world.sinks._fails = lost
    with pytest.raises(SinkTransactionLostError):
        driver.coordinator.complete_ready()


def test_r28_old_transactions_are_swept_after_a_completion(world: World) -> None:
    new_driver(world).run_epoch(4)
    driver = new_driver(world)
    assert len(world.sinks.aborted) == 2  # in recovery
    world.sinks.prepare('[1, 9, 0, "late"]', [99])  # an old attempt that did not know yet
    driver.checkpoint()
    assert len(world.sinks.aborted) == 3
    assert driver.coordinator.cleaning_failure is None


# ---- failures (K7)


@pytest.mark.parametrize("tolerated", [0, 2])
def test_k7_one_failure_more_than_tolerated_ends_the_attempt(world: World, script: Script, tolerated: int) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=tolerated))
    for round_ in range(2):
        for failure in range(tolerated + 1):
            pending_epoch(driver)
            driver.write_all()
            script.add("put_new", "chk-", Fault.FAIL)
            if failure == tolerated and round_ == 1:
                with pytest.raises(CheckpointFailedError, match="Exceeded checkpoint tolerable failure threshold"):
                    driver.coordinator.complete_ready()
            elif failure < tolerated:
                driver.coordinator.complete_ready()
            else:
                script.faults.clear()
                driver.settle()  # a success resets the count
    assert world.checker.retained.keys() == {driver.told[-1]}


def test_newer_completions_and_ends_are_no_failures(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=0))
    pending_epoch(driver)
    driver.coordinator.abort_all(FailureReason.SHUTDOWN)
    pending_epoch(driver)
    driver.queue.clear()
    driver.checkpoint()


def test_a_log_that_fails_for_certain_aborts_the_checkpoint(world: World, script: Script) -> None:
    driver = new_driver(world)
    pending_epoch(driver)
    driver.write_all()
    script.add("put_new", "log/", Fault.FAIL)
    assert driver.coordinator.complete_ready() == []
    assert last_reason(driver).startswith("Failure to finalize checkpoint. cannot write")
    assert not world.checker.storage.list("chk-1/_metadata")  # put, and swept again
    driver.checkpoint()
    world.sinks.require_rows(driver.position)


def test_r5_a_log_that_does_not_answer_ends_the_attempt_with_nothing_done(world: World, script: Script) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_all()
    script.add("put_new", "log/", *[Fault.LATE] * 20)
    with pytest.raises(UnknownOutcomeError):
        driver.coordinator.complete_ready()
    script.faults.clear()
    with pytest.raises(UnknownOutcomeError):
        driver.coordinator.complete_ready()
    assert number not in world.checker.completed
    assert world.checker.storage.land()
    assert number in world.checker.completed  # it was not failed, so nothing of it may be gone
    recovered = new_driver(world)
    assert recovered.position == driver.position
    world.sinks.require_rows(driver.position)


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE])
def test_r5_lost_replies_are_survived(world: World, script: Script, fault: Fault) -> None:
    driver = new_driver(world)
    script.add("put_new", "chk-", fault)
    script.add("put_new", "log/", fault)
    driver.checkpoint()
    while world.checker.storage.in_flight:
        assert not world.checker.storage.land()
    driver.checkpoint()
    assert driver.told == [1, 2]


def test_a_manifest_without_answer_aborts_and_what_lands_late_is_swept(world: World, script: Script) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_all()
    script.add("put_new", f"chk-{number}/_metadata", *[Fault.LATE] * 20)
    assert driver.coordinator.complete_ready() == []
    script.faults.clear()
    assert world.checker.storage.land()
    assert metadata_path(number) in world.checker.storage.files
    driver.checkpoint()
    assert world.checker.orphans() == []
