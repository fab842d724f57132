"""The savepoints of one attempt, rule by rule (PROTOCOL R17, R29, R30)."""

import re
import threading
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.log.entries import SavepointEntry, Stopping
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.no_checkpoints import AttemptLog, NoCheckpoints, NoJobLog
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.savepoints import SavepointPlace, Savepoints
from penstock.checkpoint.snapshot.manifest import decode_manifest, digest
from penstock.checkpoint.snapshot.savepoint_paths import METADATA, folder_part
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    JobConflictError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.jobmanager.job_savepoints import JobSavepoints
from penstock.model.ids import JobId, SubtaskId, Version
from penstock.model.snapshot import (
    BarrierFigures,
    Manifest,
    SavepointAck,
    SavepointDecline,
    SavepointOrder,
    SavepointProgress,
    SourcePosition,
)
from penstock.model.time import MAX_WATERMARK
from penstock.storage.memory import MemoryStorage
from penstock.testing.clocks import ManualClock
from tests.checkpoint.logs import claimed_log
from tests.checkpoint.manifests import file_of, manifest, snapshot, subtask

SUBTASKS = [subtask(0), subtask(1)]
EPOCH = 4
NUMBER = 9


@dataclass
class Checkpoints:
    """What savepoints ask of the coordinator."""

    newest_completed: Manifest | None = None
    stats: list[CheckpointStats] = field(default_factory=list)
    taken: list[tuple[int, SavepointRequest, str]] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    completed_epoch: int = 0

    def hold(self, checkpoint_id: int) -> None:
        self.held.append(True)

    def release(self, checkpoint_id: int) -> None:
        self.held.append(False)

    can_recover = True

    def covers(self, epoch: int) -> bool:
        return self.newest_completed is not None and self.newest_completed.epoch >= epoch

    def failure_of(self, checkpoint_id: int, epoch: int) -> str | None:
        failed = [s.failure for s in self.stats if s.checkpoint_id == checkpoint_id and s.status == "failed"]
        return failed[0] if failed and self.completed_epoch < epoch else None

    def savepoint_taken(self, checkpoint_id: int, request: SavepointRequest, path: str) -> None:
        self.taken.append((checkpoint_id, request, path))


class World:
    """One attempt of a job, and the folders of its savepoints."""

    def __init__(self, *, checkpoints: bool = True) -> None:
        self.clock = ManualClock()
        self.job = MemoryStorage()
        self.folders: dict[str, MemoryStorage] = {}
        self.log: AttemptLog = claimed_log(self.job) if checkpoints else NoJobLog()
        self.checkpoints = Checkpoints()
        coordinator: Any = self.checkpoints if checkpoints else NoCheckpoints()
        identity = WriterIdentity(JobId("4f1c2a" + "0" * 26), 1, "writer")
        place = SavepointPlace(identity, timeout_ms=5000, open_storage=self.open)
        self.savepoints = Savepoints(place, self.clock, self.log, coordinator)

    def open(self, uri: str) -> MemoryStorage:
        return self.folders.setdefault(uri, MemoryStorage())

    def ask(self, then: Any = "go_on", trigger_id: str = "a" * 32, *, drain: bool = False) -> SavepointRequest:
        request = SavepointRequest("/savepoints", then=then, drain=drain, trigger_id=trigger_id)
        self.savepoints.request(request)
        return request

    def begin(self) -> SavepointOrder:
        return self.savepoints.begin(EPOCH, SUBTASKS, NUMBER if isinstance(self.log, JobLog) else None)

    def commit(self, source: SourcePosition | None = None) -> None:
        versions: dict[SubtaskId, Version] = {s: snapshot(s.index, (0, 0)).version for s in SUBTASKS}
        position = source or SourcePosition(3, None, ["source"])
        self.savepoints.epoch_committed(EpochRecord(EPOCH, 17, versions, [], position, {"w": 5}, {"w": 9}, 8))

    def ack(self, number: int, *figures: Any) -> None:
        for index, groups in ((0, (0, 3)), (1, (4, 7))):
            self.savepoints.receive(SavepointAck(number, snapshot(index, groups), 10, *figures))

    def cover(self, watermark: int = 5) -> None:
        parts = [msgspec.structs.replace(part, watermark=watermark) for part in (snapshot(0, (0, 3)),)]
        self.checkpoints.newest_completed = msgspec.structs.replace(manifest(epoch=EPOCH), subtasks=parts)
        self.checkpoints.completed_epoch = EPOCH

    @property
    def names(self) -> list[str]:
        return [name for storage in self.folders.values() for name in storage.files]


def test_it_is_published_once_all_parts_are_there_and_the_checkpoint_is_committed() -> None:
    world = World()
    request = world.ask()
    order = world.begin()
    world.commit()
    world.ack(order.number)
    world.savepoints.advance()
    assert world.names == [] and not request.future.done()  # R29: its checkpoint is not committed yet
    world.cover()
    world.savepoints.advance()
    path = request.future.result(0)
    assert path == order.uri and re.fullmatch(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}", path.rpartition("/")[2])
    found = decode_manifest(world.open(path).files[METADATA], path)
    assert (found.checkpoint_id, found.epoch, found.now_ms, found.savepoint) == (NUMBER, EPOCH, 17, "canonical")
    assert (found.watermarks, found.max_timestamps, found.committables) == ({"w": 5}, {"w": 9}, [])
    entry = read_log(world.job).savepoint
    assert entry == SavepointEntry(NUMBER, path, digest(world.open(path).files[METADATA]))
    assert world.checkpoints.taken == [(NUMBER, request, path)]


def test_a_newer_checkpoint_covers_it_too() -> None:
    world = World()
    request = world.ask()
    world.ack(world.begin().number)
    world.commit()
    world.ack(NUMBER)
    world.checkpoints.stats = [CheckpointStats(NUMBER, "failed", 0, failure="subsumed")]
    world.checkpoints.newest_completed = manifest(epoch=EPOCH + 2)
    world.savepoints.advance()
    assert request.future.result(0)


def test_without_checkpoints_there_is_nothing_to_wait_for_and_numbers_grow() -> None:
    world = World(checkpoints=False)
    for number in (1, 2):
        request = world.ask(trigger_id=f"{number:032x}")
        order = world.begin()
        world.commit()
        world.ack(order.number)
        world.savepoints.advance()
        assert order.number == number and request.future.result(0)


def test_r17_a_part_of_a_dropped_run_does_not_count() -> None:
    world = World()
    request = world.ask()
    world.begin()
    dropped = msgspec.structs.replace(snapshot(0, (0, 3)), version=Version(1, EPOCH, "dropped"))
    world.savepoints.receive(SavepointAck(NUMBER, dropped, 10))
    world.savepoints.receive(SavepointAck(NUMBER, snapshot(1, (4, 7)), 10))
    world.commit()
    world.cover()
    world.savepoints.advance()
    assert not request.future.done()
    world.savepoints.receive(SavepointAck(NUMBER, snapshot(0, (0, 3)), 10))
    world.savepoints.advance()
    found = decode_manifest(world.open(request.future.result(0)).files[METADATA], "savepoint")
    assert [part.version.nonce for part in found.subtasks] == ["n0", "n1"]


def test_one_at_a_time_and_the_error_names_the_other() -> None:
    world = World()
    first = world.ask()
    with pytest.raises(JobConflictError, match="a" * 32):
        world.ask(trigger_id="b" * 32)
    world.begin()
    with pytest.raises(JobConflictError, match="a" * 32):
        world.ask(trigger_id="b" * 32)
    world.savepoints.close()
    assert first.future.exception(0) is not None


def test_no_epoch_waits_for_a_storage_that_is_slow_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    looked: list[object] = []

    def open_slowly(uri: str) -> MemoryStorage:
        epoch = threading.Thread(target=lambda: looked.append(world.savepoints.due()), daemon=True)
        epoch.start()
        epoch.join(10)
        return world.open(uri)

    monkeypatch.setattr(world.savepoints, "_place", replace(world.savepoints._place, open_storage=open_slowly))
    world.ask()
    assert looked == [None] and world.savepoints.due() is not None


@pytest.mark.parametrize("why", ["decline", "time", "checkpoint", "source"])
def test_what_cannot_come_about_fails_and_leaves_no_file(why: str) -> None:
    world = World()
    request = world.ask()
    order = world.begin()
    world.open(order.uri).put_new("state/op/total/part.parquet", b"rows")
    if why == "source":
        world.commit(SourcePosition(3, file_of("chk-9/1-source-aa"), ["source"]))  # which is not there
    else:
        world.commit()
    if why == "decline":
        version = snapshot(0, (0, 3)).version
        world.savepoints.receive(SavepointDecline(NUMBER, SUBTASKS[0], version, "the disk is full"))
    if why == "time":
        world.clock.advance(5001)
    if why == "checkpoint":
        world.checkpoints.stats = [CheckpointStats(NUMBER, "failed", 0, failure="it was declined")]
    world.savepoints.advance()
    texts = {"decline": "the disk is full", "time": "within 5 s", "checkpoint": "was declined", "source": "position"}
    with pytest.raises(CheckpointFailedError, match=texts[why]):
        request.future.result(0)
    assert world.names == []
    assert world.savepoints.due() is None and not world.savepoints.is_stopping


def test_the_position_of_the_sources_is_copied_before_its_checkpoint_can_go() -> None:
    world = World()
    request = world.ask()
    order = world.begin()
    data = b"offsets"
    world.job.put_new("chk-9/1-source-aa", data)
    world.commit(SourcePosition(3, file_of("chk-9/1-source-aa", data), ["source"]))
    world.job.delete("chk-9/1-source-aa")
    world.ack(order.number)
    world.cover()
    world.savepoints.advance()
    found = decode_manifest(world.open(request.future.result(0)).files[METADATA], "savepoint")
    assert found.sources.file is not None and world.open(order.uri).read(found.sources.file.path) == data


def test_r30_the_stop_is_in_the_log_before_its_barrier_and_no_epoch_starts_behind_it() -> None:
    world = World()
    request = world.ask("stop")
    assert not world.savepoints.is_stopping
    world.begin()
    assert read_log(world.job).stopping == Stopping(NUMBER, "/savepoints", trigger_id="a" * 32)
    assert world.savepoints.is_stopping and not world.savepoints.wait_for_permission(0)
    world.commit()
    world.ack(NUMBER)
    world.cover()
    world.savepoints.advance()
    assert world.savepoints.stopped is request and world.savepoints.is_stopping
    assert world.savepoints.close() is None


def test_r30_a_stop_that_fails_is_taken_back_in_the_log_first() -> None:
    world = World()
    request = world.ask("cancel")
    world.begin()
    world.commit()
    world.clock.advance(6000)
    world.savepoints.advance()
    assert request.future.exception(0) is not None
    assert read_log(world.job).stopping is None
    assert world.savepoints.wait_for_permission(0)


def test_n4_a_drain_holds_its_checkpoint_until_the_savepoint_is_written() -> None:
    world = World()
    world.ask("stop", drain=True)
    world.begin()
    assert world.checkpoints.held == [True]
    world.commit()
    world.ack(NUMBER)
    world.savepoints.advance()
    assert world.checkpoints.held[-1] is False


def test_n4_a_drain_that_fails_ends_the_attempt() -> None:
    """Event time has ended in this attempt: recovery goes back behind it."""
    world = World()
    request = world.ask("stop", drain=True)
    world.begin()
    world.commit()
    world.clock.advance(6000)
    with pytest.raises(CheckpointFailedError, match="drain"):
        world.savepoints.advance()
    assert request.future.exception(0) is not None and read_log(world.job).stopping is None


def test_n4_a_drain_that_fails_behind_its_checkpoint_ends_the_job() -> None:
    """Every row that came now would be late, in this attempt and in any other."""
    world = World()
    request = world.ask("stop", drain=True)
    order = world.begin()
    world.commit()
    world.ack(NUMBER)
    world.cover(MAX_WATERMARK)
    world.open(order.uri).put_new(METADATA, b"another's")
    with pytest.raises(CheckpointError, match="drain.*cannot go on") as caught:
        world.savepoints.advance()
    assert request.future.exception(0) is not None and not caught.value.retryable


def test_n4_a_drain_that_fails_without_checkpoints_keeps_the_state_and_says_so() -> None:
    world = World(checkpoints=False)
    request = world.ask("stop", drain=True)
    world.begin()
    world.commit()
    world.clock.advance(6000)
    world.savepoints.advance()
    assert "take another savepoint" in str(request.future.exception(0))
    assert world.savepoints.wait_for_permission(0)


def test_a_checkpoint_that_a_newer_one_replaced_does_not_fail_it_before_the_newer_one_is_committed() -> None:
    world = World()
    request = world.ask()
    world.begin()
    world.commit()
    world.ack(NUMBER)
    world.checkpoints.stats = [CheckpointStats(NUMBER, "failed", 0, failure="subsumed")]
    world.checkpoints.completed_epoch = EPOCH + 1
    world.savepoints.advance()
    assert not request.future.done()
    world.checkpoints.newest_completed = manifest(epoch=EPOCH + 1)
    world.savepoints.advance()
    assert request.future.result(0)


def test_a_savepoint_to_which_nothing_is_missing_is_not_too_late() -> None:
    world = World()
    request = world.ask()
    world.begin()
    world.commit()
    world.ack(NUMBER)
    world.cover()
    world.clock.advance(6000)
    world.savepoints.advance()
    assert request.future.result(0)


def test_r30_a_stop_whose_entry_may_be_in_the_log_outlives_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL R5: the next attempt knows whether it is there, and completes it."""
    world = World()
    stop = world.ask("stop")
    monkeypatch.setattr(world.log, "_highest", _broken)
    with pytest.raises(UnknownOutcomeError):
        world.begin()
    assert world.savepoints.close() is stop and not stop.future.done()
    log = JobLog.open(world.job, world.clock)
    savepoints = JobSavepoints(None)
    savepoints._unfinished_stop = stop
    again = World().savepoints
    savepoints.attach(again, log)
    assert again.due() is stop and savepoints.find(stop.trigger_id) is stop


def _broken() -> int:
    raise StorageError("the storage does not answer")


def test_r30_a_stop_outlives_its_attempt_and_any_other_request_does_not() -> None:
    world = World()
    stop = world.ask("stop")
    world.begin()
    assert world.savepoints.close() is stop and not stop.future.done()
    world = World()
    request = world.ask("stop")  # not begun: nothing is in the log
    assert world.savepoints.close() is None and request.future.exception(0) is not None
    world = World(checkpoints=False)
    stop = world.ask("stop")
    world.begin()
    assert world.savepoints.close() is None and stop.future.exception(0) is not None  # without a log nobody would know


def test_after_the_end_a_request_fails_at_once() -> None:
    world = World()
    world.savepoints.close()
    assert world.ask().future.exception(0) is not None


def test_progress_never_goes_back_and_ends_at_one() -> None:
    world = World()
    request = world.ask()
    world.begin()
    seen = []
    for done in (0.5, 0.25, 1.0):
        world.savepoints.receive(SavepointProgress(NUMBER, SUBTASKS[0], done))
        seen.append(request.progress)
    world.savepoints.receive(SavepointProgress(NUMBER + 1, SUBTASKS[1], 1.0))
    assert seen == [0.25, 0.25, 0.5] and request.progress == 0.5


@pytest.mark.parametrize("text", ["a/b", "..", ".", "a=b", "ä ö", "~", "x" * 300, "x" * 299 + "y", "a:b\\c"])
def test_any_uid_is_one_folder_and_no_two_are_the_same(text: str) -> None:
    part = folder_part(text)
    assert "/" not in part and "=" not in part and part not in (".", "..") and len(part) <= 120 and "~" not in part
    assert part != folder_part(text + "!")


def test_t3_its_figures_are_those_of_its_subtasks() -> None:
    world = World()
    request = world.ask()
    order = world.begin()
    world.commit()
    world.ack(order.number, 0.2, 0.5, BarrierFigures(start_delay_ms=3, alignment_ms=4))
    world.cover()
    world.savepoints.advance()
    assert request.stats is not None
    assert [(part.subtask, part.sync_ms, part.async_ms, part.duration_ms) for part in request.stats.parts] == [
        (place, 200, 500, 707) for place in SUBTASKS
    ]
    assert (request.stats.alignment_ms, request.stats.written_bytes) == (4, 20)


def test_t3_a_failed_one_has_the_figures_of_the_subtasks_that_wrote_their_part() -> None:
    world = World()
    request = world.ask()
    order = world.begin()
    world.commit()
    world.savepoints.receive(SavepointAck(order.number, snapshot(1, (4, 7)), 10, 0.1, 0.3))
    world.clock.advance(5001)
    world.savepoints.advance()
    assert request.stats is not None and request.stats.status == "failed"
    assert [(part.subtask, part.duration_ms) for part in request.stats.parts] == [(SUBTASKS[1], 400)]
    assert (request.stats.acknowledged, request.stats.written_bytes) == (1, 10)
