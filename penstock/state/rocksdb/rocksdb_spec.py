"""The registration of the RocksDB backend. It does not import the package rocksdict until a backend is opened."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.errors import CheckpointCorruptError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import rocksdb_options, state_options
from penstock.model.snapshot import StateTableInfo
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_spec import BackendSpec, StoredFiles

if TYPE_CHECKING:
    from penstock.state.rocksdb.rocksdb_backend import RocksDBBackend


@dataclass(frozen=True)
class RocksDBSpec(BackendSpec):
    """RocksDB on the disks of the TaskManagers' machines."""

    name: ClassVar[str] = "rocksdb"
    class_name: ClassVar[str] = "EmbeddedRocksDBStateBackend"
    on_disk: ClassVar[bool] = True

    memory_bytes: int = rocksdb_options.DEFAULT_MEMORY_BYTES
    """Block cache and write buffers of one process."""
    folders: tuple[str, ...] = ()
    """The folders for files; empty: the process's temporary folder."""
    predefined_options: str = rocksdb_options.PREDEFINED.default
    transfer_threads: int = rocksdb_options.TRANSFER_THREADS.default
    """The number of files that are stored or fetched at the same time."""
    tuning: dict[str, str] = field(default_factory=dict)
    """Settings of RocksDB by their full keys, which its stores read when they are opened."""

    @classmethod
    def of(cls, configuration: Configuration) -> "RocksDBSpec":
        return cls(
            memory_bytes=rocksdb_options.memory_bytes(configuration),
            folders=configuration.get(rocksdb_options.DIRECTORIES),
            predefined_options=configuration.get(rocksdb_options.PREDEFINED),
            transfer_threads=max(1, configuration.get(rocksdb_options.TRANSFER_THREADS)),
            tuning=rocksdb_options.tuning(configuration),
        )

    @property
    def local_dirs(self) -> tuple[str, ...]:
        return self.folders

    def open(self, place: BackendPlace) -> "RocksDBBackend":
        try:
            from penstock.state.rocksdb.rocksdb_backend import RocksDBBackend
        except ImportError as error:
            raise _missing(
                f"{state_options.BACKEND.key} is rocksdb", f"set {state_options.BACKEND.key}: hashmap"
            ) from error
        return RocksDBBackend(place, self)

    def read_files(
        self, stored: StoredFiles, max_parallelism: int, key_groups: tuple[int, int] | None
    ) -> Iterator[tuple[StateTableInfo, pa.Table]]:
        """The rows of a RocksDB checkpoint's files; the folder of `stored` is removed at the end."""
        try:
            from penstock.state.rocksdb import native_files
        except ImportError as error:
            raise _missing("the snapshot has files of RocksDB", "restore a canonical savepoint") from error
        try:
            native_files.fetch_files(stored, self.transfer_threads)
            yield from native_files.read_files(stored, max_parallelism, key_groups, self)
        except Exception as error:  # one of ours, or one of the library while rows are read
            if "Corruption" not in str(error) or isinstance(error, CheckpointCorruptError):
                raise
            raise CheckpointCorruptError("RocksDB's files", "files that can be read", str(error)) from error
        finally:
            shutil.rmtree(stored.folder, ignore_errors=True)


def _missing(reason: str, otherwise: str) -> UsageError:
    return UsageError(f"{reason} and the package rocksdict is missing; install penstock[rocksdb], or {otherwise}")
