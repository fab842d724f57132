"""Sizes of state on their way from subtasks to the JobManager: sums, rescaling, restores, old acks."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.model.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.snapshot import CheckpointAck, StateSize, SubtaskSnapshot
from penstock.runtime.process import messages
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, CRASH, Harness

MAX_PARALLELISM = 16
BACKENDS = [
    BackendSettings(),
    BackendSettings(RocksDBSpec(), incremental=False),
    BackendSettings(RocksDBSpec()),
]


class Keep(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", Types.STRING()))
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))

    def process_element(self, record: Any, ctx: Any) -> Iterable[Any]:
        self.last.update(record[1])
        self.seen.put(record[1], 1)
        return []


def harness(parallelism: int, backend: BackendSettings, storage: MemoryStorage) -> Harness:
    return Harness.keyed(
        Keep(),
        key=lambda record: record[0],
        key_type=Types.STRING(),
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        backend=backend,
        storage=storage,
    )


def sizes(h: Harness) -> dict[str, StateSize]:
    found = h._attempt.coordinator.state_sizes
    assert found is not None
    return {size.name: size for size in found if "timers" not in size.name}


RECORDS = [(f"key-{number:03}", "x" * (number + 1)) for number in range(200)]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: f"{backend.kind}-{backend.incremental}")
def test_sums_over_subtasks_are_the_same_at_every_parallelism(backend: BackendSettings) -> None:
    storage = MemoryStorage()
    fed: list[Any] = [*RECORDS, CHECKPOINT]
    for parallelism, new in ((1, 0), (3, 1), (2, 2)):
        if new:
            fed += [(f"new-{new}", "x" * 1000 * new), CHECKPOINT]
        h = harness(parallelism, backend, storage).feed(fed)
        found = sizes(h)
        assert {name: size.entries for name, size in found.items()} == {"last": 200 + new, "seen": 200 + new}
        for size in found.values():
            assert (len(size.group_entries), size.first_key_group) == (MAX_PARALLELISM, 0)
            assert (sum(size.group_entries), sum(size.group_bytes)) == (size.entries, size.size_bytes)
            assert size.largest[0][0] == (f"new-{new}" if new else "key-199") and len(size.largest) == 10
        if backend.kind == "hashmap" or not backend.incremental:
            news = [(f"new-{n}", "x" * 1000 * n) for n in range(1, new + 1)]
            assert found["last"].size_bytes == sum(len(key) + len(value) for key, value in [*RECORDS, *news])
            assert found["last"].entries_exact and found["last"].bytes_exact


def test_sizes_are_known_again_after_a_crash_and_a_delta() -> None:
    h = harness(2, BackendSettings(), MemoryStorage())
    h.feed([*RECORDS, CHECKPOINT, CRASH, ("new", "x" * 5), CHECKPOINT])
    last = sizes(h)["last"]
    assert h.attempt == 2 and (last.entries, last.entries_exact, last.bytes_exact) == (201, True, False)
    assert last.size_bytes == sum(len(key) + len(value) for key, value in RECORDS) + 3 + 5
    assert last.largest[0] == ("key-199", 207)


def test_nothing_of_the_sizes_is_in_the_manifest() -> None:
    h = harness(1, BackendSettings(), MemoryStorage())
    assert h.feed([*RECORDS, CHECKPOINT]).manifest is not None and sizes(h)
    assert b"largest" not in msgspec.json.encode(h.manifest)


def test_an_ack_of_before_there_were_sizes_is_read() -> None:
    snapshot = SubtaskSnapshot(SubtaskId(StageId("s0"), 0), Version(1, 2, "v"), (0, 7), [], [], 5)
    size = StateSize("op", "state", 1, 2, True, False, 3, [1], [2], [("key", 2)])
    ack = CheckpointAck(4, snapshot, 0.1, 0.2, 9, [size])
    assert messages.decode(messages.encode(messages.Acked(ack))) == messages.Acked(ack)
    fields = msgspec.to_builtins(ack)
    del fields["sizes"]
    old = msgspec.convert(fields, CheckpointAck)
    assert old == msgspec.structs.replace(ack, sizes=[])
