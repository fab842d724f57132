"""The life of checkpoints: who starts one, how acks and failures end it, what is left of it (features K, L, M)."""

from dataclasses import replace

import pytest

from penstock.checkpoint.failures import FailureCount, FailureReason
from penstock.checkpoint.pending_checkpoint import Pending
from penstock.errors import CheckpointFailedError, FencedError
from penstock.model.snapshot import CheckpointDecline
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
from tests.checkpoint.logs import Script


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def script(world: World) -> Script:
    script = Script()
    world.checker.on_call = script.before
    return script


def in_progress(driver: Driver) -> list[int]:
    return [stats.checkpoint_id for stats in driver.coordinator.history() if stats.status == "in_progress"]


def pending_of(driver: Driver, number: int) -> Pending:
    pending = driver.coordinator._pending.find(number)
    assert pending is not None
    return pending


def decline(driver: Driver, checkpoint: int, reason: str, *, asynchronous: bool) -> None:
    """Let the first write of the checkpoint fail; the others stay in the queue."""
    write = next(write for write in driver.queue if write.checkpoint == checkpoint and -1 not in write.rows)
    driver.queue.remove(write)
    driver.coordinator.decline(CheckpointDecline(checkpoint, write.subtask, write.version, reason, asynchronous))


# ---- acks


def test_l1_a_checkpoint_completes_only_with_the_acks_of_all_subtasks(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    last = next(write for write in reversed(driver.queue) if write.subtask == SUBTASKS[1])
    driver.queue.remove(last)
    driver.write_all()
    assert driver.coordinator.complete_ready() == []
    assert number not in world.checker.completed and in_progress(driver) == [number]
    driver.queue.append(last)
    driver.write_all()
    assert driver.coordinator.complete_ready() == [number]
    assert driver.coordinator.history()[-1].acknowledged == len(SUBTASKS)
    assert [part.subtask for part in driver.coordinator.history()[-1].parts] == list(SUBTASKS)


def test_l1_a_task_that_dies_before_its_ack_leaves_a_checkpoint_that_never_completes(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_one()  # the other subtask dies
    recovered = new_driver(world)
    assert recovered.manifest is not None and recovered.manifest.checkpoint_id == 0
    for _ in range(3):
        recovered.checkpoint()
    assert number not in world.checker.completed
    assert world.checker.orphans() == []


def test_an_ack_that_comes_twice_counts_once(world: World) -> None:
    driver = new_driver(world)
    number = pending_epoch(driver)
    driver.write_one()
    taken = list(pending_of(driver, number).acks.values())
    for part in taken * 3:
        driver.coordinator.ack(part)
    assert driver.coordinator.complete_ready() == []
    driver.write_all()
    assert driver.coordinator.complete_ready() == [number]
    for part in taken:
        driver.coordinator.ack(part)
    assert driver.coordinator.complete_ready() == []
    assert world.checker.complete_count == 2


def test_l8_a_snapshot_that_cannot_be_written_fails_its_checkpoint_alone(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=1))
    number = pending_epoch(driver)
    decline(driver, number, "OSError: disk full", asynchronous=True)
    driver.write_all()
    assert driver.coordinator.complete_ready() == []
    stats = driver.coordinator.history()[-1]
    assert (stats.checkpoint_id, stats.status) == (number, "failed")
    assert stats.failure is not None and stats.failure.startswith("Asynchronous task checkpoint failed. subtask s0/")
    assert "OSError: disk full" in stats.failure
    assert driver.checkpoint() == number + 1
    world.sinks.require_rows(driver.position)
    assert world.checker.orphans() == []


def test_l8_a_subtask_that_declines_fails_its_checkpoint_alone(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=1))
    number = pending_epoch(driver)
    decline(driver, number, "4 snapshots of it are still being written", asynchronous=False)
    driver.coordinator.complete_ready()
    assert last_reason(driver).startswith("Checkpoint was declined. subtask s0/")
    driver.queue.clear()
    driver.checkpoint()


def test_l7_acks_of_a_subsumed_checkpoint_change_nothing(world: World) -> None:
    driver = new_driver(world)
    first = pending_epoch(driver)
    older, driver.queue = driver.queue, []
    driver.checkpoint()
    driver.queue = older
    driver.write_all()
    driver.settle()
    assert first not in world.checker.completed
    driver.checkpoint()
    assert world.checker.orphans() == []


# ---- when one starts


def test_k4_the_pause_counts_from_the_completion(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, interval_ms=1000, min_pause_ms=5000))
    starts = []
    for _ in range(40):
        world.clock.advance(500)
        if driver.run_epoch(1) is not None:
            starts.append(world.clock.monotonic_s())
            world.clock.advance(3000)  # the checkpoint takes three seconds
            driver.write_all()
            driver.settle()
    assert len(starts) >= 3
    assert min(later - earlier for earlier, later in zip(starts, starts[1:], strict=False)) >= 8.0


def test_k5_a_slow_checkpoint_has_none_beside_it_and_the_next_follows_at_once(world: World) -> None:
    driver = new_driver(world)
    world.clock.advance(100)
    number = driver.run_epoch(1)
    for _ in range(5):
        world.clock.advance(1000)
        assert driver.run_epoch(1) is None
        assert in_progress(driver) == [number]
    driver.write_all()
    driver.settle()
    assert driver.run_epoch(1) is not None  # the interval has passed five times
    assert len(in_progress(driver)) == 1


def test_k5_so_many_as_allowed_run_at_once(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, max_concurrent=2))
    for _ in range(4):
        world.clock.advance(100)
        driver.run_epoch(1)
    assert len(in_progress(driver)) == 2


def test_k5_m6_what_was_asked_for_comes_before_what_is_due(world: World) -> None:
    driver = new_driver(world)
    world.clock.advance(100)
    request = driver.coordinator.request()
    number = driver.run_epoch(1)
    assert [stats.manual for stats in driver.coordinator.history() if stats.checkpoint_id == number] == [True]
    driver.write_all()
    driver.settle()
    assert request.result(0) == number
    world.clock.advance(100)
    driver.run_epoch(1)
    assert not driver.coordinator.history()[-1].manual


# ---- requested


def test_m6_a_requested_checkpoint_needs_no_interval(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, interval_ms=None))
    assert driver.run_epoch(1) is None and not driver.coordinator.is_due
    request = driver.coordinator.request()
    assert driver.coordinator.is_due
    number = driver.run_epoch(1)
    assert number is not None and not request.done()
    driver.write_all()
    driver.settle()
    assert request.result(0) == number
    assert driver.run_epoch(1) is None


def test_m6_a_request_waits_while_there_is_no_room(world: World) -> None:
    driver = new_driver(world)
    pending_epoch(driver)
    request = driver.coordinator.request()
    assert not driver.coordinator.is_due and driver.run_epoch(1) is None
    driver.write_all()
    driver.settle()
    assert driver.coordinator.is_due
    number = driver.run_epoch(1)
    driver.write_all()
    driver.settle()
    assert request.result(0) == number


def test_m6_a_full_checkpoint_builds_on_nothing(world: World) -> None:
    driver = new_driver(world)
    driver.checkpoint()
    driver.checkpoint()
    for full in (True, False):
        driver.coordinator.request(full=full)
        number = driver.run_epoch(2)
        assert number is not None
        assert (driver.coordinator.base_of(number) is None) == full
        driver.write_all()
        driver.settle()
    world.sinks.require_rows(driver.position)


def test_m6_who_asked_is_told_of_the_failure(world: World) -> None:
    driver = new_driver(world)
    request = driver.coordinator.request()
    number = driver.run_epoch(1)
    assert number is not None
    decline(driver, number, "no space", asynchronous=True)
    driver.coordinator.complete_ready()
    with pytest.raises(CheckpointFailedError, match=r"Asynchronous task checkpoint failed\..*no space"):
        request.result(0)


def test_m6_nobody_waits_for_an_attempt_that_is_over(world: World) -> None:
    world.sinks._fails = lambda: True
    driver = new_driver(world)
    committing, waiting = driver.coordinator.request(), driver.coordinator.request()
    driver.run_epoch(1)
    driver.write_all()
    driver.coordinator.complete_ready()  # complete, but its commits fail
    driver.coordinator.close(FailureReason.SUSPENDING)
    late = driver.coordinator.request()
    for request in (committing, waiting, late):
        with pytest.raises(CheckpointFailedError, match="Checkpoint Coordinator is suspending"):
            request.result(0)
    with pytest.raises(TimeoutError):
        new_driver(new_world()).coordinator.request().result(0)


def closes_after(point: str, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the attempt be closed, as by another thread, when a failpoint is passed."""

    def passed(name: str) -> None:
        if name == point:
            driver.coordinator.close(FailureReason.SUSPENDING)

    monkeypatch.setattr("penstock.checkpoint.publication.failpoint.after", passed)


@pytest.mark.parametrize("point", ["C18", "C19"])
def test_m6_a_request_fails_if_the_attempt_ends_during_publication_and_the_commit_fails(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sinks._fails = lambda: True
    driver = new_driver(world)
    request = driver.coordinator.request()
    driver.run_epoch(1)
    driver.write_all()
    closes_after(point, driver, monkeypatch)
    driver.coordinator.complete_ready()  # complete, but its commits fail, and no later call repeats them
    with pytest.raises(CheckpointFailedError, match="Checkpoint Coordinator is suspending"):
        request.result(0)


@pytest.mark.parametrize("point", ["C18", "C19"])
def test_m6_a_request_completes_if_the_attempt_ends_during_publication_and_the_commit_succeeds(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = new_driver(world)
    request = driver.coordinator.request()
    number = driver.run_epoch(1)
    driver.write_all()
    closes_after(point, driver, monkeypatch)
    driver.coordinator.complete_ready()
    assert request.result(0) == number


@pytest.mark.parametrize("is_closed_before", [True, False])
def test_m6_a_request_fails_if_the_publication_ends_with_an_error(
    world: World, is_closed_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = new_driver(world)
    request = driver.coordinator.request()
    driver.run_epoch(1)
    driver.write_all()

    def passed(name: str) -> None:
        if name == "C18":
            if is_closed_before:
                driver.coordinator.close(FailureReason.SUSPENDING)
            raise FencedError("another driver owns the job")

    monkeypatch.setattr("penstock.checkpoint.publication.failpoint.after", passed)
    with pytest.raises(FencedError):
        driver.coordinator.complete_ready()
    assert request.done() == is_closed_before
    driver.coordinator.close(FailureReason.SUSPENDING)
    with pytest.raises(CheckpointFailedError, match="Checkpoint Coordinator is suspending"):
        request.result(0)


# ---- what is left


def test_k6_m4_of_two_retained_checkpoints_exactly_two_are_on_disk(world: World) -> None:
    driver = new_driver(world, retaining(2))
    for _ in range(5):
        newest = driver.checkpoint()
    folders = {path.split("/")[0] for path in world.checker.storage.files if path.startswith("chk-")}
    assert folders == {f"chk-{newest - 1}", f"chk-{newest}"}


@pytest.mark.parametrize("ending", ["expired", "declined", "finalized", "aborted"])
def test_m5_a_checkpoint_that_fails_leaves_no_files(world: World, script: Script, ending: str) -> None:
    driver = new_driver(world)
    driver.checkpoint()
    number = pending_epoch(driver)
    if ending == "declined":
        decline(driver, number, "disk full", asynchronous=True)
    driver.write_all()
    if ending == "expired":
        pending_of(driver, number).acks.popitem()
        world.clock.advance(SETTINGS.timeout_ms)
    elif ending == "finalized":
        script.add("put_new", "chk-", Fault.FAIL)
    elif ending == "aborted":
        driver.coordinator.abort_all(FailureReason.SHUTDOWN)
    assert driver.coordinator.complete_ready() == []
    assert driver.coordinator.history()[-1].status == "failed"
    assert world.checker.orphans() == []
    assert not [path for path in world.checker.storage.files if path.startswith(f"chk-{number}/")]


def test_m2_numbers_only_grow_over_failures_and_restarts(world: World) -> None:
    numbers: list[int] = []
    for _ in range(3):
        driver = new_driver(world)
        numbers.append(driver.checkpoint())
        failed = pending_epoch(driver)
        driver.coordinator.abort_all(FailureReason.SHUTDOWN)
        driver.queue.clear()
        numbers += [failed, pending_epoch(driver)]  # and the driver is gone
    assert numbers == sorted(set(numbers)) and numbers[0] == 1


def test_m2_a_number_that_failed_without_a_trace_is_not_used_by_the_next_attempt(world: World) -> None:
    driver = new_driver(world)
    driver.checkpoint()
    number = driver.coordinator.start(driver.epoch + 1, SUBTASKS, forced=True)  # nothing is written for it
    assert number is not None
    driver.coordinator.close(FailureReason.SUSPENDING)
    again = Driver(world)
    again.begin(first_id=driver.coordinator.next_id)
    assert again.checkpoint() == number + 1


# ---- tolerable failures


def test_k7_the_failure_says_what_the_latest_checkpoint_failed_of(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=0))
    pending_epoch(driver)
    world.clock.advance(SETTINGS.timeout_ms)
    with pytest.raises(CheckpointFailedError) as caught:
        driver.coordinator.complete_ready()
    assert str(caught.value) == (
        "Exceeded checkpoint tolerable failure threshold. "
        "The latest checkpoint failed due to Checkpoint expired before completing."
    )


@pytest.mark.parametrize("tolerated", [0, 2])
def test_k7_a_storage_that_takes_no_writes_ends_the_attempt_at_the_failure_after_the_tolerated(
    world: World, script: Script, tolerated: int
) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=tolerated))
    for failures in range(1, tolerated + 2):
        number = pending_epoch(driver)
        decline(driver, number, "StorageError: read-only", asynchronous=True)
        driver.queue.clear()
        if failures <= tolerated:
            driver.coordinator.complete_ready()
        else:
            with pytest.raises(CheckpointFailedError, match=r"Asynchronous task checkpoint failed\."):
                driver.coordinator.complete_ready()


def test_k7_only_failures_in_a_row_count_and_each_checkpoint_once() -> None:
    count = FailureCount(1)
    for _ in range(3):
        count.add(1, FailureReason.DECLINED, "declined")
    count.require_tolerable()
    count.reset()
    count.add(2, FailureReason.EXPIRED, "expired")
    count.require_tolerable()
    count.add(3, FailureReason.IO, "no disk")
    with pytest.raises(CheckpointFailedError, match="failed due to no disk"):
        count.require_tolerable()


@pytest.mark.parametrize("reason", list(FailureReason))
def test_k7_only_failures_of_checkpointing_count(reason: FailureReason) -> None:
    count = FailureCount(0)
    count.add(1, reason, reason.text())
    if reason.name in ("EXPIRED", "DECLINED", "ASYNC", "FINALIZE", "IO"):
        with pytest.raises(CheckpointFailedError):
            count.require_tolerable()
    else:
        count.require_tolerable()


def test_k7_an_epoch_that_cannot_carry_its_checkpoint_counts_as_a_failure(world: World) -> None:
    driver = new_driver(world, replace(SETTINGS, tolerable_failures=1))
    number = driver.coordinator.start(driver.epoch + 1, SUBTASKS, forced=True)
    assert number is not None
    driver.coordinator.abort(number, FailureReason.IO, "the source position could not be written")
    assert driver.coordinator.complete_ready() == []
    assert last_reason(driver).startswith(
        "An Exception occurred while triggering the checkpoint. IO-problem detected. the source position"
    )
    driver.coordinator.abort(number, FailureReason.IO)  # once
    driver.coordinator.complete_ready()
