"""The backend that a job's settings ask for."""

from pathlib import Path

from penstock.codec.keys import KeyCodec
from penstock.errors import UsageError
from penstock.model.options.state_options import BACKEND
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.heap.hashmap_backend import HashMapBackend


def make_backend(
    settings: BackendSettings,
    operator_uid: str,
    key_codec: KeyCodec,
    max_parallelism: int,
    key_groups: tuple[int, int],
    folder: Path,
) -> KeyedBackend:
    """A new, empty backend. RocksDB keeps its files below the folder."""
    if settings.kind == "hashmap":
        return HashMapBackend(operator_uid, key_codec, max_parallelism, key_groups)
    try:
        from penstock.state.rocksdb.rocksdb_backend import RocksDBBackend
    except ImportError as error:
        raise UsageError(
            f"{BACKEND.key} is rocksdb and the package rocksdict is missing; install penstock[rocksdb], or set "
            f"{BACKEND.key}: hashmap"
        ) from error
    return RocksDBBackend(operator_uid, key_codec, max_parallelism, key_groups, settings, folder)
