"""Backends for tests, and what is needed to move their state through snapshot files."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.ids import CheckpointId, new_nonce
from penstock.model.key_groups import key_group_range
from penstock.model.snapshot import NativeName, StateFile, StateTableInfo
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types
from penstock.state.backend.backend_registry import make_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.sealed_state import SealedFiles, SealedTables
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.rocksdb import native_files

MAX_PARALLELISM = 16

_settings = BackendSettings()
_folder = tempfile.TemporaryDirectory(prefix="penstock-state-")


KINDS = ("hashmap", "rocksdb", "rocksdb files")
"""The second seals rows, as the first does; the third RocksDB's own files."""


def choose(kind: str) -> None:
    """Which backend the tests that follow are about."""
    global _settings
    _settings = BackendSettings(
        kind=kind.split()[0], incremental=kind != "rocksdb", memory_bytes=32 * 1024 * 1024, transfer_threads=1
    )


def make(uid: str, key_codec: KeyCodec, max_parallelism: int, key_groups: tuple[int, int]) -> Any:
    """An empty backend of the chosen kind."""
    return make_backend(_settings, uid, key_codec, max_parallelism, key_groups, Path(_folder.name))


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
        return StateFile(name.name, len(data), "", None, name)

    files, _ = native_files.store_files(sealed, [], put)
    folder = Path(_folder.name) / f"fetched-{new_nonce()}"
    native_files.fetch_files(files, folder, lambda file: stored[file.path], 1)
    (hashmap,) = _hashmaps(native_files.read_files(folder, sealed.infos, MAX_PARALLELISM, None, _settings))
    return encode_snapshot([hashmap.seal(CheckpointId(1), None, full=True)])


def _hashmaps(rows: Iterable[tuple[StateTableInfo, pa.Table]]) -> list[HashMapBackend]:
    backend = HashMapBackend("op", KeyCodec((Types.STRING(),)), MAX_PARALLELISM, (0, MAX_PARALLELISM - 1))
    for info, table in rows:
        backend.restore(info, table)
    return [backend]


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
