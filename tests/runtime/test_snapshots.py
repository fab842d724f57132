"""A subtask's part of checkpoints: full files, deltas, compaction, restore at any parallelism (PROTOCOL R12, R18)."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from penstock.checkpoint.restore.redistribution import snapshots_to_load
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.errors import CheckpointCorruptError, CheckpointDeclinedError
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.ids import Version
from penstock.model.key_groups import key_group_range
from penstock.model.snapshot import InlineLimits, Manifest, SourcePosition, SubtaskSnapshot
from penstock.model.time import TimeDomain
from penstock.runtime.process import subtask_host as host_module
from penstock.runtime.snapshots import snapshot_chain, snapshot_writer
from penstock.runtime.snapshots.snapshot_writer import SnapshotWriter
from penstock.storage.memory import Fault, MemoryStorage
from penstock.testing.clocks import ManualClock
from penstock.testing.state_reader import owns, read_state
from tests.runtime.subtasks import JOB, MAX_PARALLELISM, SUBTASK, Tasks, epoch_header, keyed_stage
from tests.state.backends import stored_entries


class Store(KeyedProcessFunction):
    """A record (key, value) is kept; None clears the key, "watermark" tells the time."""

    def open(self, ctx: RuntimeContext) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.STRING()))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.STRING()))

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Its timers only have to be kept."""

    def process_element(self, record: Any, ctx: Any) -> Iterable[Any]:
        value = record[1]
        if value == "watermark":
            yield ctx.timer_service().current_watermark()
        elif value is None:
            self.value.clear()
            self.list.clear()
            self.map.clear()
        else:
            self.value.update(value)
            self.list.add(value)
            self.map.put(value, value)
            ctx.timer_service().register_event_time_timer(len(value))


class Model:
    """What the states must hold."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}

    def take(self, records: Sequence[tuple[str, str | None]]) -> None:
        for key, value in records:
            if value is None:
                self.values.pop(key, None)
                self.lists.pop(key, None)
            else:
                self.values[key] = value
                self.lists.setdefault(key, []).append(value)

    def check(self, tasks: Tasks, keys: Iterable[str]) -> None:
        for key in keys:
            (backend,) = [
                backend for subtask in tasks.host.subtasks() if owns(backend := subtask.backends["function"], key)
            ]
            assert read_state(backend, "value", key) == self.values.get(key)
            assert read_state(backend, "list", key) == self.lists.get(key, [])
            assert read_state(backend, "map", key) == {value: value for value in self.lists.get(key, [])}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "INLINE_LIMIT_BYTES", 0)
    monkeypatch.setattr(snapshot_chain, "MAX_DELTAS", 3)


KEYS = [f"key {number}" for number in range(40)]


def filled(parallelism: int = 1) -> tuple[Tasks, Model]:
    """A stage with forty keys, in checkpoint 1."""
    tasks, model = Tasks(keyed_stage(Store(), parallelism=parallelism)), Model()
    records = [(key, f"{key} first") for key in KEYS]
    tasks.run(records, checkpoint=1)
    model.take(records)
    return tasks, model


def manifest_of(snapshots: list[SubtaskSnapshot]) -> Manifest:
    sources = SourcePosition(0, None)
    return Manifest("", 1, JOB, 1, 1, "", 1, 0, None, MAX_PARALLELISM, {}, {}, snapshots, sources, [])


def restored(tasks: Tasks, checkpoint: int, parallelism: int = 1) -> Tasks:
    """The stage as a new attempt at this parallelism would start it from the checkpoint."""
    stage = keyed_stage(Store(), parallelism=parallelism)
    plans = [
        snapshots_to_load(
            manifest_of(tasks.snapshots(checkpoint)),
            stage.uids,
            key_group_range(MAX_PARALLELISM, parallelism, index),
            MAX_PARALLELISM,
        )
        for index in range(parallelism)
    ]
    return Tasks(stage, tasks.storage, plans, checkpoint)


def chain(tasks: Tasks, checkpoint: int) -> list[str]:
    (snapshot,) = tasks.snapshots(checkpoint)
    return [file.path for file in snapshot.files]


def test_a_delta_builds_on_the_named_checkpoint_and_many_deltas_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_chain, "MAX_DELTAS", 2)
    monkeypatch.setattr(snapshot_chain.Chain, "is_long", False)
    tasks, model = filled()
    lengths = []
    for number in range(2, 16):
        records = [(KEYS[number], f"at {number}"), (KEYS[number + 1], None)]
        tasks.run(records, checkpoint=number, base=number - 1)
        model.take(records)
        lengths.append(len(chain(tasks, number)))
        model.check(restored(tasks, number), KEYS)
    # The state; deltas of level 0, 1 and 2 as a counter to base three would stand.
    assert lengths == [2, 3, 2, 3, 4, 3, 4, 5, 2, 3, 4, 3, 4, 5]
    assert {chain(tasks, number)[0] for number in range(1, 16)} == {chain(tasks, 1)[0]}
    assert not set(chain(tasks, 4)) & set(chain(tasks, 3)[1:])  # one delta instead of two and its own


def test_deltas_that_outweigh_the_state_become_one_full_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_chain, "MAX_DELTAS", 100)
    tasks, model = filled()
    chance = random.Random(1)
    for number in range(2, 14):
        records = [(chance.choice(KEYS), f"{number} {n}") for n in range(15)]
        tasks.run(records, checkpoint=number, base=number - 1)
        model.take(records)
    assert min(len(chain(tasks, number)) for number in range(3, 14)) == 1
    model.check(restored(tasks, 13), KEYS)


def test_a_checkpoint_that_failed_is_not_built_upon() -> None:
    tasks, model = filled()
    for number, record in ((2, (KEYS[0], "two")), (3, (KEYS[1], "three"))):
        tasks.run([record], checkpoint=number, base=1)  # the second header names 1 again: 2 was aborted
        model.take([record])
    assert chain(tasks, 3)[0] == chain(tasks, 1)[0] and len(chain(tasks, 3)) == 2
    model.check(restored(tasks, 3), KEYS)


@pytest.mark.parametrize("written_at_once", [True, False])
def test_checkpoints_that_fail_for_ever_leave_nothing_in_memory(*, written_at_once: bool) -> None:
    tasks, model = filled()
    for number in range(2, 30):
        record = (KEYS[number], f"value {number}")
        tasks.epoch += 1
        header = epoch_header(tasks.epoch, number, 1, aborted=[number - 1] if number > 2 else [])
        tasks.versions[SUBTASK] = tasks.execute(tasks.task(header), tasks.items(header, [record], SUBTASK)).version
        model.take([record])
        if written_at_once or number % 2:
            while tasks.host.write_next():
                continue
    writer = tasks.host._owned[SUBTASK].writer
    assert set(writer._chains) <= {1, 28, 29} and writer._sealed == {1, 29}
    tables = tasks.host.subtask(SUBTASK).backends["function"]._tables.values()
    assert all(len(table.changes._intervals) <= 3 for table in tables)
    model.check(restored(tasks, 29), KEYS)


def test_a_base_that_is_not_known_makes_a_full_file() -> None:
    tasks, model = filled()
    tasks.run([(KEYS[0], "x")], checkpoint=3, base=2)
    model.take([(KEYS[0], "x")])
    assert len(chain(tasks, 3)) == 1
    model.check(restored(tasks, 3), KEYS)


def test_nothing_changed_means_no_new_file() -> None:
    tasks, model = filled()
    tasks.run([], checkpoint=2, base=1)
    assert chain(tasks, 2) == chain(tasks, 1)
    assert [ack.written_bytes for ack in tasks.told.acks][1] == 0
    model.check(restored(tasks, 2), KEYS)


class TwoStates(KeyedProcessFunction):
    """The first record of a key fills one state, the second the other; "clear" empties the other, alone."""

    def open(self, ctx: RuntimeContext) -> None:
        self.name = ctx.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.session = ctx.get_state(ValueStateDescriptor("session", Types.STRING()))

    def process_element(self, record: Any, ctx: Any) -> None:
        if record[1] == "clear":
            self.session.clear()
        else:
            self.name.update(record[1])
            self.session.update(record[1])


def test_a_table_that_became_empty_stays_empty_after_a_restore() -> None:
    # The last session ends and nothing else changes: the delta has no row, it only says that the table is empty.
    tasks = Tasks(keyed_stage(TwoStates()))
    tasks.run([("a", "ada")], checkpoint=1)
    tasks.run([("a", "clear")], checkpoint=2, base=1)
    new = Tasks(keyed_stage(TwoStates()), tasks.storage, [tasks.snapshots(2)], 2)
    backend = new.host.subtask(SUBTASK).backends["function"]
    assert (read_state(backend, "name", "a"), read_state(backend, "session", "a")) == ("ada", None)


class OneTimer(TwoStates):
    def process_element(self, record: Any, ctx: Any) -> None:
        self.name.update(record[1])
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield "fired"


def test_the_last_timer_does_not_fire_again_after_a_restore() -> None:
    tasks = Tasks(keyed_stage(OneTimer()))
    tasks.run([("a", "ada")], checkpoint=1)
    assert tasks.run([], checkpoint=2, base=1, watermark=10) == ["fired"]
    new = Tasks(keyed_stage(OneTimer()), tasks.storage, [tasks.snapshots(2)], 2)
    assert new.run([], watermark=20) == []


@pytest.mark.parametrize("new_parallelism", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("old_parallelism", [1, 2, 3])
def test_a_chain_is_restored_at_any_parallelism(old_parallelism: int, new_parallelism: int) -> None:
    tasks, model = filled(old_parallelism)
    for number in (2, 3):
        records = [(KEYS[n], f"{number}") for n in range(number, 40, 7)] + [(KEYS[number], None)]
        tasks.run(records, checkpoint=number, base=number - 1)
        model.take(records)
    new = restored(tasks, 3, new_parallelism)
    model.check(new, KEYS)
    assert sum(stored_entries(s.backends["function"]) for s in new.host.subtasks()) == sum(
        stored_entries(s.backends["function"]) for s in tasks.host.subtasks()
    )
    records = [(key, "after") for key in KEYS[::3]] + [(KEYS[5], None)]
    new.run(records, checkpoint=4, base=3)
    model.take(records)
    again = restored(new, 4, old_parallelism)
    model.check(again, KEYS)


def test_only_an_unchanged_subtask_builds_on_the_files_it_was_restored_from() -> None:
    tasks, _ = filled(2)
    for parallelism, is_shared in ((2, True), (1, False), (3, False)):
        new = restored(tasks, 1, parallelism)
        new.run([(key, "x") for key in KEYS[:4]], checkpoint=2, base=1)
        old = {file.path for snapshot in tasks.snapshots(1) for file in snapshot.files}
        files = {file.path for snapshot in new.snapshots(2) for file in snapshot.files}
        assert bool(old & files) is is_shared


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_the_watermark_goes_on_from_where_it_was_at_any_parallelism(parallelism: int) -> None:
    tasks = Tasks(keyed_stage(Store(), parallelism=2))
    tasks.run([("a", "x")], checkpoint=1, watermark=77)
    new = restored(tasks, 1, parallelism)
    assert new.run([("a", "watermark")]) == [77]


def test_pending_timers_come_back_at_any_parallelism() -> None:
    tasks, _ = filled(2)
    for parallelism in (1, 3):
        new = restored(tasks, 1, parallelism)
        nexts = [subtask.next_timer(TimeDomain.EVENT_TIME) for subtask in new.host.subtasks()]
        assert min(time for time in nexts if time is not None) == len("key 0 first")


def test_l3_a_sealed_state_does_not_change_while_it_waits_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, model = filled()
    host = tasks.host
    with monkeypatch.context() as patch:
        patch.setattr(host, "write_next", lambda: False)
        tasks.run([(KEYS[0], "sealed"), (KEYS[1], None)], checkpoint=2, base=1)
        model.take([(KEYS[0], "sealed"), (KEYS[1], None)])
        tasks.run([(KEYS[0], "later"), (KEYS[0], None), (KEYS[1], "later"), (KEYS[2], "later")])
    while host.write_next():
        continue
    model.check(restored(tasks, 2), KEYS)


def test_a_subtask_declines_when_its_own_snapshots_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(keyed_stage(Store(), parallelism=3))
    limit = host_module.MAX_WAITING_WRITES
    monkeypatch.setattr(tasks.host, "write_next", lambda: False)
    for number in range(1, limit + 1):
        tasks.run([], checkpoint=number)
    assert not tasks.told.declines  # three subtasks have that many each
    tasks.run([], checkpoint=limit + 1)
    assert [decline.subtask for decline in tasks.told.declines] == tasks.ids
    assert "still being written" in tasks.told.declines[0].reason


def test_snapshots_of_checkpoints_that_were_given_up_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, model = filled()
    with monkeypatch.context() as patch:
        patch.setattr(tasks.host, "write_next", lambda: False)
        for number in range(2, host_module.MAX_WAITING_WRITES + 2):
            tasks.run([(KEYS[number], "given up")], checkpoint=number, base=1)
            model.take([(KEYS[number], "given up")])
        tasks.epoch += 1
        header = epoch_header(tasks.epoch, 9, 1)
        header = msgspec.structs.replace(header, aborted=list(range(2, 9)))
        (subtask,) = tasks.ids
        tasks.versions[subtask] = tasks.execute(tasks.task(header, subtask), tasks.items(header, [], subtask)).version
    while tasks.host.write_next():
        continue
    assert not tasks.told.declines and [ack.checkpoint_id for ack in tasks.told.acks] == [1, 9]
    model.check(restored(tasks, 9), KEYS)


class FailingStorage:
    """A storage script: writes fail while it is switched on."""

    failing = False

    def before(self, operation: str, path: str) -> Fault | None:
        return Fault.FAIL if self.failing and operation == "put_new" else None

    def landed(self, path: str, data: bytes) -> None: ...

    def deleted(self, path: str) -> None: ...


def test_l8_a_write_that_fails_declines_the_checkpoint_and_the_job_goes_on() -> None:
    script = FailingStorage()
    tasks, model = Tasks(keyed_stage(Store()), MemoryStorage(script)), Model()
    script.failing = True
    tasks.run([("a", "1")], checkpoint=1)
    assert "StorageError" in tasks.told.declines[0].reason and not tasks.told.acks
    script.failing = False
    tasks.run([("b", "2")], checkpoint=2)
    model.take([("a", "1"), ("b", "2")])
    model.check(restored(tasks, 2), ["a", "b"])


def test_a_damaged_file_is_found_before_its_rows_are_used() -> None:
    tasks, _ = filled()
    (path,) = chain(tasks, 1)
    assert isinstance(tasks.storage, MemoryStorage)
    data = bytearray(tasks.storage.files[path])
    data[-20] ^= 1
    tasks.storage.files[path] = bytes(data)
    with pytest.raises(CheckpointCorruptError, match=path):
        restored(tasks, 1)


def test_small_state_travels_in_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "INLINE_LIMIT_BYTES", 20 * 1024)
    tasks, model = filled()
    assert chain(tasks, 1) == [""]
    assert isinstance(tasks.storage, MemoryStorage) and not tasks.storage.files
    model.check(restored(tasks, 1), KEYS)


def test_j1_state_that_travels_to_the_jobmanager_needs_no_storage() -> None:
    """Neither to be written nor to be read; and nothing else can be written without one."""
    limits = InlineLimits(max_state_bytes=5 * 1024 * 1024)
    tasks = Tasks(keyed_stage(Store()))
    writer = SnapshotWriter(tasks.host.subtask(SUBTASK), None, ManualClock(), limits)
    tasks.run([("a", "1")])
    (file,) = writer.write(writer.seal(1, None, Version(1, 1, "x"))).snapshot.files
    assert file.inline is not None and not file.path
    without = SnapshotWriter(tasks.host.subtask(SUBTASK), None, ManualClock())
    with pytest.raises(CheckpointDeclinedError, match="no checkpoint storage"):
        without.write(without.seal(2, None, Version(1, 1, "x")))
