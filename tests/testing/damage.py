"""A small job with several retained checkpoints, and ways to damage one file of its storage."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext
from penstock.model.operator_state import CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext
from penstock.model.snapshot import InlineLimits
from penstock.model.types import Types
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, Harness

BACKENDS = {
    "hashmap": BackendSettings(),
    "rocksdb files": BackendSettings(RocksDBSpec(memory_bytes=16 << 20)),
    "rocksdb rows": BackendSettings(RocksDBSpec(memory_bytes=16 << 20), incremental=False),
}
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": lambda data: bytes([*data[: len(data) // 2], data[len(data) // 2] ^ 1, *data[len(data) // 2 + 1 :]]),
    "truncated": lambda data: data[: len(data) // 2],
    "removed": lambda data: None,
    "emptied": lambda data: b"",
}
EVENTS = [(f"key {number * 7 % 11}", number) for number in range(60)]
ITEMS: list[Any] = [
    item for start in range(0, 60, 12) for item in [*EVENTS[start : start + 12], *([CHECKPOINT] if start < 48 else [])]
]
"""Four checkpoints, and rows behind the last one."""


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """Counts in keyed state, notes in operator state what it has seen, and keeps a timer for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.noted = context.get_operator_state_store().get_list_state(ListStateDescriptor("noted", Types.LONG()))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Its timers only have to be kept."""

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        key, number = value
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(number, (self.seen.get(number) or 0) + 1)
        self.noted.add(number)
        ctx.timer_service().register_event_time_timer(10**12)
        yield key, number, self.count.value()


def start(storage: MemoryStorage, backend: str, **settings: Any) -> Harness:
    """A harness on whatever the storage holds, with three checkpoints kept and every state in a file."""
    return Harness.keyed(
        Everything(),
        key=lambda event: event[0],
        key_type=Types.STRING(),
        parallelism=2,
        backend=BACKENDS[backend],
        storage=storage,
        limits=InlineLimits(inline_bytes=0),
        retained=3,
        **settings,
    )


def copy_of(storage: MemoryStorage) -> MemoryStorage:
    """The same files in another storage."""
    copied = MemoryStorage()
    copied.files.update(storage.files)
    return copied


def damage(storage: MemoryStorage, path: str, how: str) -> None:
    """Do that to one file."""
    changed = DAMAGES[how](storage.files[path])
    if changed is None:
        del storage.files[path]
    else:
        assert changed != storage.files[path]
        storage.files[path] = changed


def check_exact(harness: Harness) -> None:
    """Every event has affected keyed and operator state once."""
    for key, count in Counter(key for key, _ in EVENTS).items():
        assert harness.state("count", key) == count
        assert harness.state("seen", key) == {number: 1 for other, number in EVENTS if other == key}
    noted = [number for part in harness.operator_state("noted") for number in part]
    assert sorted(noted) == list(range(60))
