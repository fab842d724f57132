"""RocksDB's linked files go with the checkpoint that they were linked for, however it ends."""

from pathlib import Path
from typing import Any

import pytest

from penstock.codec.keys import KeyCodec
from penstock.errors import StateBackendError, StorageError
from penstock.model.ids import Version
from penstock.model.types import Types
from penstock.runtime.snapshots.snapshot_writer import SnapshotWriter
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage.memory import MemoryStorage
from penstock.testing.clocks import ManualClock
from penstock.testing.harness_exchange import ObjectOutput
from tests.runtime.subtasks import JOB, MAX_PARALLELISM, keyed_stage
from tests.runtime.test_snapshots import Store

FILES = BackendSettings(RocksDBSpec(memory_bytes=16 * 1024 * 1024, transfer_threads=1))
VERSION = Version(1, 1, "0")


class NoStorage(MemoryStorage):
    def put_new(self, path: str, data: bytes) -> None:
        raise StorageError("no room")


def two_operators(folder: Path) -> tuple[SnapshotWriter, Subtask]:
    place = SubtaskPlace(JOB, 1, keyed_stage(Store()), 0, backend=FILES, folder=str(folder))
    subtask = Subtask(place, ObjectOutput)
    codec = KeyCodec((Types.STRING(),))
    subtask.backends["other"] = FILES.spec.open(BackendPlace("other", codec, MAX_PARALLELISM, (0, 7), folder))
    return SnapshotWriter(subtask, NoStorage(), ManualClock()), subtask


def linked(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "-chk-" in path.name)


def test_a_failed_write_leaves_no_folder_of_any_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.snapshots.snapshot_writer.INLINE_LIMIT_BYTES", 0)
    writer, subtask = two_operators(tmp_path)
    for checkpoint in (1, 2):
        with pytest.raises(StorageError):
            writer.write(writer.seal(checkpoint, None, VERSION))
    writer.seal(3, None, VERSION)  # nobody writes it
    assert linked(tmp_path) == []
    for backend in subtask.backends.values():
        backend.close()


def test_a_failed_seal_leaves_no_folder_of_the_operators_before(tmp_path: Path) -> None:
    writer, subtask = two_operators(tmp_path)

    def fail(*arguments: Any, **more: Any) -> None:
        raise StateBackendError("no room")

    subtask.backends["other"].seal = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(StateBackendError):
        writer.seal(1, None, VERSION)
    assert linked(tmp_path) == []
    for backend in subtask.backends.values():
        backend.close()
