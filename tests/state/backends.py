"""Backends for tests, and what is needed to move their state through snapshot files."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.codec.keys import KeyCodec
from penstock.model.ids import CheckpointId, new_nonce
from penstock.model.key_groups import key_group_range
from penstock.model.snapshot import NativeName, StateFile
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.backend_spec import StoredFiles
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.sealed_state import SealedFiles, SealedTables
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from penstock.state.format.table_rows import DELETED_COLUMN
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.heap.hashmap_spec import HashMapSpec
from penstock.state.rocksdb.rocksdb_backend import RocksDBBackend
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec

MAX_PARALLELISM = 16

_settings = BackendSettings()
_memory = Path("/dev/shm")
_folder = tempfile.TemporaryDirectory(prefix="penstock-state-", dir=_memory if os.access(_memory, os.W_OK) else None)
"""In memory where that is possible: RocksDB waits for the disk when it makes a column family or a checkpoint."""


KINDS = ("hashmap", "rocksdb", "rocksdb files")
"""The second seals rows, as the first does; the third RocksDB's own files."""


def choose(kind: str) -> None:
    """Which backend the tests that follow are about."""
    global _settings
    spec = HashMapSpec() if kind == "hashmap" else RocksDBSpec(memory_bytes=32 * 1024 * 1024, transfer_threads=1)
    _settings = BackendSettings(spec, incremental=kind != "rocksdb")


def make(uid: str, key_codec: KeyCodec, max_parallelism: int, key_groups: tuple[int, int]) -> Any:
    """An empty backend of the chosen kind."""
    place = BackendPlace(uid, key_codec, max_parallelism, key_groups, Path(_folder.name), _settings.incremental)
    return _settings.spec.open(place)


def string_backend(key_groups: tuple[int, int] = (0, MAX_PARALLELISM - 1)) -> Any:
    """A backend keyed by text."""
    return keyed_backend([Types.STRING()], key_groups)


def keyed_backend(types: Sequence[TypeInformation], key_groups: tuple[int, int] = (0, MAX_PARALLELISM - 1)) -> Any:
    """A backend keyed by columns of these types."""
    return make("op", KeyCodec(tuple(types)), MAX_PARALLELISM, key_groups)


def restored(
    chains: Sequence[Sequence[bytes]], parallelism: int = 1, max_parallelism: int = MAX_PARALLELISM
) -> list[Any]:
    """The subtasks of a job that starts from these chains of files, oldest file first."""
    backends = []
    for index in range(parallelism):
        key_groups = key_group_range(max_parallelism, parallelism, index)
        backend = make("op", KeyCodec((Types.STRING(),)), max_parallelism, key_groups)
        for chain in chains:
            for info, rows in read_chain(chain, key_groups, max_parallelism):
                backend.restore(info, rows)
        backends.append(backend)
    return backends


def seal(backend: KeyedBackend, checkpoint_id: int, base: int | None = None, *, full: bool = False) -> Any:
    """`backend.seal` with plain ints."""
    return backend.seal(CheckpointId(checkpoint_id), None if base is None else CheckpointId(base), full=full)


def seal_data(sealed: SealedTables | SealedFiles) -> bytes:
    """A sealed state as one file. RocksDB's files are stored and fetched, and their rows written."""
    if isinstance(sealed, SealedTables):
        return encode_snapshot([sealed])
    stored: dict[str, bytes] = {}

    def put(data: bytes, name: NativeName) -> StateFile:
        stored[name.name] = data
        return StateFile(name.name, len(data), "").with_format(name)

    files, _ = sealed.store([], put)
    folder = Path(_folder.name) / f"fetched-{new_nonce()}"
    fetched = StoredFiles(files, sealed.infos, lambda file: stored[file.path], folder)
    backend = hashmap_backend()
    for info, table in RocksDBSpec(memory_bytes=32 * 1024 * 1024).read_files(fetched, MAX_PARALLELISM, None):
        backend.restore(info, table)
    return encode_snapshot([backend.seal_all(1)])


def hashmap_backend(*types: TypeInformation) -> HashMapBackend:
    """A HashMap backend, whichever was chosen; keyed by text unless types are given."""
    codec = KeyCodec(types or (Types.STRING(),))
    return HashMapBackend(BackendPlace("op", codec, MAX_PARALLELISM, (0, MAX_PARALLELISM - 1)))


def stored_entries(backend: KeyedBackend) -> int:
    """Entries of all states, expired or not, in an epoch or not; those of RocksDB as the last epoch left them."""
    if isinstance(backend, RocksDBBackend):
        tables = backend._tables.values()
        return sum(1 for table in tables for _ in table.entries(table.family.scan(b"", None)))
    parts = [part for table in backend._restored.values() for part in table.parts]
    waiting = [len(part) - int(part[DELETED_COLUMN].to_numpy().sum()) for part in parts]
    return int(sum(table.entry_count() for table in backend._tables.values())) + sum(waiting)


def encoded(backend: KeyedBackend, checkpoint_id: int = 1) -> bytes:
    """A full snapshot file of the backend."""
    return encode_snapshot([seal(backend, checkpoint_id, full=True)])


def epoch(backend: KeyedBackend) -> "Epoch":
    """An epoch as a `with` block; an exception rolls it back."""
    return Epoch(backend)


class Epoch:
    def __init__(self, backend: KeyedBackend) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        self._backend.begin_epoch()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._backend.finish_epoch()
        else:
            self._backend.roll_back()


def at(backend: KeyedBackend, key: Any) -> None:
    """Make `key` the current key."""
    backend.keys.key = backend.key_codec.to_state_key(key)
