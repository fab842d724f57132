"""RocksDB as the rows G1 to G11 of the feature table want it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.codec.keys import KeyCodec
from penstock.errors import CheckpointCorruptError, StateBackendError
from penstock.jobmanager.settings.job_settings import backend_settings
from penstock.model.configuration import Configuration
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.key_groups import key_group_of
from penstock.model.snapshot import NativeName, StateFile
from penstock.model.time import TimeDomain
from penstock.model.types import Types
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_spec import StoredFiles
from penstock.state.backend.sealed_state import SealedFiles, SealedTables
from penstock.state.rocksdb import native_files
from penstock.state.rocksdb.rocksdb_backend import RocksDBBackend
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.store_options import shared_memory
from penstock.state.timers import Timers
from tests.state.backends import at, epoch

MIB = 1024 * 1024
SPEC = RocksDBSpec(memory_bytes=16 * MIB, transfer_threads=2)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[RocksDBBackend]:
    made = make(tmp_path)
    yield made
    made.close()


def make(
    folder: Path, spec: RocksDBSpec = SPEC, max_parallelism: int = 128, *, incremental: bool = True
) -> RocksDBBackend:
    codec = KeyCodec((Types.STRING(),))
    return spec.open(BackendPlace("op", codec, max_parallelism, (0, max_parallelism - 1), folder, incremental))


def links(folder: Path) -> list[Path]:
    """SST files that a seal holds on to."""
    return list(folder.glob("*-chk-*/*.sst"))


def fill(backend: RocksDBBackend, count: int, size: int = 10, seed: int = 1) -> Any:
    state = backend.table(ValueStateDescriptor("v", Types.PRIMITIVE_ARRAY(Types.BYTE())))
    source = random.Random(seed)
    for first in range(0, count, 1000):
        with epoch(backend):
            for number in range(first, min(count, first + 1000)):
                at(backend, f"key {number}")
                state.update(source.randbytes(size))
    return state


def put(data: bytes, name: NativeName) -> StateFile:
    return StateFile(name.name, len(data), "").with_format(name)


def test_g1_state_larger_than_the_memory_bound_works(tmp_path: Path) -> None:
    small = RocksDBSpec(memory_bytes=4 * MIB)
    backend = make(tmp_path, small)
    state = fill(backend, 20_000, size=1000)
    assert backend.stored_bytes("v") > 4 * small.memory_bytes
    source = random.Random(1)
    values = [source.randbytes(1000) for _ in range(20_000)]
    for number in range(0, 20_000, 997):
        at(backend, f"key {number}")
        assert state.value() == values[number]
    backend.close()


def test_g2_every_state_and_both_kinds_of_timers_have_a_column_family(backend: RocksDBBackend) -> None:
    backend.table(ValueStateDescriptor("v"))
    backend.table(ListStateDescriptor("l"))
    backend.table(MapStateDescriptor("a name with ü"))
    Timers(backend, TimeDomain.EVENT_TIME)
    Timers(backend, TimeDomain.PROCESSING_TIME)
    assert sorted(backend.store.names()) == [
        "_timers_event", "_timers_processing", "a name with ü", "l", "v"
    ]  # fmt: skip


@pytest.mark.parametrize(("max_parallelism", "size"), [(128, 1), (129, 2), (32768, 2)])
def test_g3_a_key_group_is_one_range_of_rows(tmp_path: Path, max_parallelism: int, size: int) -> None:
    backend = make(tmp_path, max_parallelism=max_parallelism)
    fill(backend, 500)
    rows = [row for row, _ in backend.store.family("v").scan(b"", None)]
    groups = [int.from_bytes(row[:size], "big") for row in rows]
    assert groups == sorted(groups) and len(rows) == 500
    hashed = [key_group_of(backend.key_codec.hash(row[size:].decode()), max_parallelism) for row in rows]
    assert hashed == groups
    backend.close()


def test_g4_a_seal_only_links_files_and_storing_them_comes_later(backend: RocksDBBackend, tmp_path: Path) -> None:
    state = fill(backend, 2000, size=100)
    sealed = backend.seal(CheckpointId(1), None, full=False)
    assert isinstance(sealed, SealedFiles)
    assert links(tmp_path) and all(path.stat().st_nlink > 1 for path in links(tmp_path))
    with epoch(backend):
        at(backend, "key 0")
        state.update(b"later")
    files, stored = sealed.store([], put)
    assert stored == sum(file.size for file in files) > 0 and not links(tmp_path)


def test_g5_without_increments_a_snapshot_holds_all_rows(tmp_path: Path) -> None:
    backend = make(tmp_path, incremental=False)
    fill(backend, 300)
    for checkpoint in (1, 2):
        sealed = backend.seal(CheckpointId(checkpoint), None, full=False)
        assert isinstance(sealed, SealedTables) and [table.full for table in sealed.tables] == [True]
        batches: Any = sealed.tables[0].rows()
        assert sum(len(batch) for batch in batches) == 300
    assert not list(tmp_path.glob("*-chk-*"))
    backend.close()


def test_g6_files_that_the_base_has_are_not_stored_again(backend: RocksDBBackend) -> None:
    fill(backend, 5000, size=100)
    first = backend.seal(CheckpointId(1), None, full=False)
    assert isinstance(first, SealedFiles)
    files, everything = first.store([], put)
    fill(backend, 10, seed=2)
    second = backend.seal(CheckpointId(2), CheckpointId(1), full=False)
    assert isinstance(second, SealedFiles)
    _, stored = second.store(files, put)
    assert 0 < stored < everything / 20


def test_g6_a_file_whose_size_differs_is_stored_again(backend: RocksDBBackend, tmp_path: Path) -> None:
    fill(backend, 100)
    sealed = backend.seal(CheckpointId(1), None, full=False)
    assert isinstance(sealed, SealedFiles)
    names = [path.name for path in links(tmp_path)]
    lie = [StateFile("other", 1, "").with_format(NativeName("op", name)) for name in names]
    files, _ = sealed.store(lie, put)
    assert "other" not in {file.path for file in files}


def test_g8_values_of_many_megabytes_work(backend: RocksDBBackend) -> None:
    state = backend.table(ValueStateDescriptor("big", Types.PRIMITIVE_ARRAY(Types.BYTE())))
    with epoch(backend):
        at(backend, "k")
        state.update(b"x" * (40 * MIB))
    at(backend, "k")
    assert len(state.value()) == 40 * MIB


def test_g9_all_stores_of_a_process_share_one_bound(tmp_path: Path) -> None:
    spec = RocksDBSpec(memory_bytes=8 * MIB)
    backends = [make(tmp_path, spec) for _ in range(3)]
    for backend in backends:
        state = fill(backend, 8000, size=1000)
        for number in range(0, 8000, 7):
            at(backend, f"key {number}")
            state.value()
    memory = shared_memory(8 * MIB)
    assert memory is shared_memory(8 * MIB)
    assert 0 < memory.cache.get_usage() <= 1.25 * 8 * MIB
    for backend in backends:
        backend.close()


def test_g10_timers_are_rows_and_come_back_in_order(backend: RocksDBBackend) -> None:
    timers = Timers(backend, TimeDomain.EVENT_TIME)
    with epoch(backend):
        for number in range(1000):
            at(backend, f"key {number % 50}")
            timers.register(number * 7 % 1000)
    assert sum(1 for _ in backend.store.family("_timers_event").scan(b"", None)) == 1000
    with epoch(backend):
        fired = list(timers.due(499))
        assert len(fired) == 500 and fired == sorted(fired)
    assert sum(1 for _ in backend.store.family("_timers_event").scan(b"", None)) == 500


def test_g11_settings_reach_the_backend() -> None:
    configuration = Configuration.from_dict(
        {
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": "file:///fast/a,/fast/b",
            "state.backend.rocksdb.memory.fixed-per-slot": "64 mb",
            "state.backend.rocksdb.predefined-options": "FLASH_SSD_OPTIMIZED",
            "state.backend.rocksdb.checkpoint.transfer.thread.num": "9",
            "execution.checkpointing.incremental": "false",
        }
    )
    found = backend_settings(configuration)
    assert found.kind == "rocksdb" and not found.incremental
    assert isinstance(found.spec, RocksDBSpec)
    assert replace(found.spec, tuning={}) == RocksDBSpec(64 * MIB, ("/fast/a", "/fast/b"), "FLASH_SSD_OPTIMIZED", 9)
    assert found.spec.local_dirs == ("/fast/a", "/fast/b")


def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises((StateBackendError, OSError)):
        make(blocked / "below").table(ValueStateDescriptor("v"))


def test_files_from_a_manifest_stay_in_their_folder(tmp_path: Path) -> None:
    for name in ("../escaped.sst", "/tmp/escaped.sst", "notes.txt", "", "MANIFEST-\0"):
        names = [NativeName("op", name) for name in ("CURRENT", "MANIFEST-1", name)]
        files = [StateFile("p", 1, "", b"x").with_format(name) for name in names]
        stored = StoredFiles(files, [], lambda file: b"x", tmp_path / f"fetched-{len(name)}")
        with pytest.raises(CheckpointCorruptError, match="PATH_OUTSIDE_ROOT"):
            native_files.fetch_files(stored, 1)
    assert not (tmp_path / "escaped.sst").exists()
