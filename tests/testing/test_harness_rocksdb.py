"""Jobs whose state is in RocksDB: checkpoints of files and of rows, crashes, other parallelism, other backend."""

import random
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.snapshot.manifest import digest
from penstock.errors import CheckpointCorruptError, CheckpointFailedError
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext
from penstock.model.snapshot import NativeName, StateFile, SubtaskSnapshot
from penstock.model.types import Types
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.backend_spec import StoredFiles
from penstock.state.rocksdb import native_files
from penstock.state.rocksdb.native_files import LinkedFiles
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.store import Store
from penstock.state.rocksdb.store_options import shared_memory
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, CRASH, Harness

MIB = 1024 * 1024
SPEC = RocksDBSpec(memory_bytes=16 * MIB)
FILES = BackendSettings(SPEC)
ROWS = BackendSettings(SPEC, incremental=False)
HASHMAP = BackendSettings()


class Tally(KeyedProcessFunction):
    """Counts a key's records in every kind of state, and keeps a timer for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_digit = runtime_context.get_map_state(MapStateDescriptor("by_digit", Types.LONG(), Types.LONG()))

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Its timers only have to be kept."""

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        key, number = value
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(number)
        digit = number % 10
        self.by_digit.put(digit, (self.by_digit.get(digit) or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**12)
        yield key, self.count.value()


def events(count: int, keys: int = 20) -> list[tuple[str, int]]:
    source = random.Random(count)
    return [(f"key {source.randrange(keys)}", number) for number in range(count)]


def tally(backend: BackendSettings, storage: MemoryStorage, parallelism: int = 2, **settings: Any) -> Harness:
    return Harness.keyed(
        Tally(),
        key=lambda event: event[0],
        key_type=Types.STRING(),
        backend=backend,
        storage=storage,
        parallelism=parallelism,
        **settings,
    )


def check(harness: Harness, fed: list[tuple[str, int]]) -> None:
    for key, count in Counter(key for key, _ in fed).items():
        numbers = [number for other, number in fed if other == key]
        assert harness.state("count", key) == count
        assert harness.state("seen", key) == numbers
        assert harness.state("by_digit", key) == Counter(number % 10 for number in numbers)


def subtasks(harness: Harness) -> list[SubtaskSnapshot]:
    manifest = harness.manifest
    assert manifest is not None
    return manifest.subtasks


@pytest.mark.parametrize("backend", [FILES, ROWS, HASHMAP], ids=["files", "rows", "hashmap"])
def test_a_crash_brings_back_the_checkpoint_and_replays(backend: BackendSettings) -> None:
    fed = events(600)
    harness = tally(backend, MemoryStorage(), seed=3)
    items: list[Any] = []
    for number, event in enumerate(fed):
        items.append(event)
        if number % 97 == 50:
            items.append(CHECKPOINT)
        if number % 211 == 200:
            items.append(CRASH)
    harness.feed([*items, CHECKPOINT, CRASH])
    assert harness.crashes == 3
    check(harness, fed)


@pytest.mark.parametrize("first", [FILES, ROWS, HASHMAP], ids=["files", "rows", "hashmap"])
@pytest.mark.parametrize("second", [FILES, ROWS, HASHMAP], ids=["files", "rows", "hashmap"])
@pytest.mark.parametrize("parallelism", [(2, 2), (2, 3), (3, 1)])
def test_a_job_goes_on_with_another_backend_and_parallelism(
    first: BackendSettings, second: BackendSettings, parallelism: tuple[int, int]
) -> None:
    fed = events(300)
    storage = MemoryStorage()
    before = tally(first, storage, parallelism[0])
    start = [*fed[:100], CHECKPOINT, *fed[100:150], CHECKPOINT]
    before.feed(start)
    after = tally(second, storage, parallelism[1])
    check(after, fed[:150])
    after.feed([*start, *fed[150:200], CHECKPOINT, *fed[200:250], CHECKPOINT, CRASH, *fed[250:], CHECKPOINT, CRASH])
    check(after, fed)


def test_without_increments_every_checkpoint_stands_alone() -> None:
    """Features F4: on the HashMap backend too."""
    storage = MemoryStorage()
    harness = tally(BackendSettings(incremental=False), storage)
    fed = events(4000, keys=900)
    harness.feed([*fed[:3000], CHECKPOINT, *fed[3000:3010], CHECKPOINT])
    assert [len(snapshot.files) for snapshot in subtasks(harness) if snapshot.tables] == [1, 1]
    check(tally(HASHMAP, storage), fed[:3010])


def test_g6_a_small_change_stores_few_of_rocksdbs_files() -> None:
    storage = MemoryStorage()
    harness = tally(FILES, storage, parallelism=1)
    fed = events(6000, keys=3000)
    harness.feed([*fed[:5990], CHECKPOINT])
    first = {file.path: file for snapshot in subtasks(harness) for file in snapshot.files if file.path}
    harness.feed([*fed[5990:], CHECKPOINT])
    second = {file.path: file for snapshot in subtasks(harness) for file in snapshot.files if file.path}
    shared = first.keys() & second.keys()
    stored = sum(second[path].size for path in second.keys() - shared)
    assert shared and stored < sum(file.size for file in first.values()) / 10
    check(tally(FILES, storage, parallelism=1), fed)


def test_a_restore_reads_files_within_the_memory_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    class Watched(Store):
        def __init__(self, folder: Path, spec: RocksDBSpec, *, read_only: bool = False) -> None:
            opened.append(spec.memory_bytes)
            super().__init__(folder, spec, read_only=read_only)

    monkeypatch.setattr(native_files, "Store", Watched)
    fed = events(50)
    harness = tally(FILES, MemoryStorage()).feed([*fed, CHECKPOINT]).rescale(3)
    check(harness, fed)
    assert set(opened) == {SPEC.memory_bytes}


def test_the_memory_of_stores_goes_with_the_last_of_them(tmp_path: Path) -> None:
    spec = RocksDBSpec(memory_bytes=17 * MIB)
    stores = [Store(tmp_path / name, spec) for name in ("a", "b")]
    memory = weakref.ref(shared_memory(17 * MIB))
    stores.pop().close()
    assert memory() is shared_memory(17 * MIB)
    stores.pop().close()
    assert memory() is None


@pytest.mark.parametrize("gone", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_files_that_go_before_they_are_stored_fail_the_checkpoint(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TaskManager that ends removes its folder while a snapshot is still being written."""
    store = LinkedFiles.store

    def ending(files: LinkedFiles, *arguments: Any) -> Any:
        next(files._folder.glob(gone)).unlink()
        return store(files, *arguments)

    fed = events(50)
    harness = tally(FILES, MemoryStorage()).feed([*fed, CHECKPOINT])
    before = harness.manifest
    monkeypatch.setattr(LinkedFiles, "store", ending)
    with pytest.raises(CheckpointFailedError, match="FileNotFoundError"):
        harness.feed([*fed, CHECKPOINT])
    monkeypatch.undo()
    assert harness.manifest == before
    check(harness.feed([CRASH]), fed * 2)


def test_files_without_the_first_of_them_are_not_an_empty_state() -> None:
    files = [StateFile("", 1, digest(b"x"), b"x").with_format(NativeName("op", "000007.sst"))]
    with pytest.raises(CheckpointCorruptError, match="CURRENT"), tempfile.TemporaryDirectory() as folder:
        native_files.fetch_files(StoredFiles(files, [], lambda file: file.inline or b"", Path(folder) / "new"), 1)
