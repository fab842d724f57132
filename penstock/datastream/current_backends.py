"""PyFlink's classes of state backends. Each one stands for settings of the job."""

from abc import ABC, abstractmethod
from enum import Enum

from penstock import compat
from penstock.datastream.checkpoint_storage import CheckpointStorage
from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options, rocksdb_options, state_options


class StateBackend(ABC):
    """Where working state is kept: HashMapStateBackend, EmbeddedRocksDBStateBackend, or a legacy backend."""

    @abstractmethod
    def record(self, configuration: Configuration) -> None:
        """Write the choice into a job's settings. It replaces earlier values."""

    def own_storage(self) -> CheckpointStorage | None:
        """The checkpoint storage of a legacy backend, which wins over any other storage."""
        return None


class PredefinedOptions(Enum):
    """Settings of RocksDB for a kind of disk."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class HashMapStateBackend(StateBackend):
    """Keeps working state in the memory of the TaskManagers."""

    def record(self, configuration: Configuration) -> None:
        configuration.set(state_options.BACKEND, "hashmap")

    def __str__(self) -> str:
        return "HashMapStateBackend()"


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps working state in RocksDB, on the local disks of the TaskManagers.

    >>> backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    >>> backend.is_incremental_checkpoints_enabled(), backend.get_number_of_transfer_threads()
    (True, 4)
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(f"enable_incremental_checkpointing is {enable_incremental_checkpointing!r}; give a boolean")
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined: PredefinedOptions | None = None
        self._transfer_threads: int | None = None
        self._options_factory: str | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the folders of RocksDB's files. Without any, they are in the temporary folder."""
        self._paths = [_local_folder(path) for path in paths] or None

    def get_db_storage_paths(self) -> list[str] | None:
        """The folders of RocksDB's files, or None for the temporary folder."""
        return list(self._paths) if self._paths is not None else None

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints store only what changed. This is the default."""
        return self._incremental is not False

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Set the settings for a kind of disk."""
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"give a member of PredefinedOptions, not {options!r}")
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The settings for a kind of disk."""
        return self._predefined or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> None:
        """Accepted, without effect: an options factory is a Java class. The job prints a line that says so.

        `set_predefined_options` and the keys `state.backend.rocksdb.*` have one.
        """
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """What was set, or None. It has no effect."""
        return self._options_factory

    def set_number_of_transfer_threads(self, number_of_transfer_threads: int) -> None:
        """Set how many files are uploaded or downloaded at the same time."""
        if isinstance(number_of_transfer_threads, bool) or number_of_transfer_threads < 1:
            raise UsageError(f"the number of transfer threads is {number_of_transfer_threads!r}; give 1 or more")
        self._transfer_threads = number_of_transfer_threads

    def get_number_of_transfer_threads(self) -> int:
        """How many files are uploaded or downloaded at the same time."""
        return rocksdb_options.TRANSFER_THREADS.default if self._transfer_threads is None else self._transfer_threads

    def record(self, configuration: Configuration) -> None:
        configuration.set(state_options.BACKEND, "rocksdb")
        if self._incremental is not None:
            configuration.set(checkpointing_options.INCREMENTAL, self._incremental)
        if self._paths is not None:
            configuration.set(rocksdb_options.DIRECTORIES, tuple(self._paths))
        if self._predefined is not None:
            configuration.set(rocksdb_options.PREDEFINED, self._predefined.name)
        if self._transfer_threads is not None:
            configuration.set(rocksdb_options.TRANSFER_THREADS, self._transfer_threads)
        if self._options_factory is not None:
            configuration.set_string(rocksdb_options.OPTIONS_FACTORY, self._options_factory)

    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(incremental {self.is_incremental_checkpoints_enabled()})"


def _local_folder(path: object) -> str:
    """The folder that a path or an address stands for. In PyFlink the host in `file://host/folder` does not count."""
    plain = path if isinstance(path, str) else ""
    if plain.startswith("file://"):
        host, _, rest = plain.removeprefix("file://").partition("/")
        plain = f"/{rest.rstrip('/')}" if not host or compat.is_installed() else ""
    if not plain.startswith("/") or any(mark in plain for mark in ",:;"):
        raise UsageError(f"{path!r} is not the full path of a local folder (without ',', ':' and ';')")
    return plain
