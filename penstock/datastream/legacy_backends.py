"""The backends of PyFlink 1.12 to 1.20, each of which is a backend and a checkpoint storage.

MemoryStateBackend     HashMapStateBackend and JobManagerCheckpointStorage
FsStateBackend         HashMapStateBackend and FileSystemCheckpointStorage
RocksDBStateBackend    EmbeddedRocksDBStateBackend and FileSystemCheckpointStorage
"""

from penstock.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.current_backends import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options


class MemoryStateBackend(StateBackend):
    """Keeps working state in memory and stores checkpoints in the JobManager's memory."""

    DEFAULT_MAX_STATE_SIZE = JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        _check_asynchronous(using_asynchronous_snapshots)
        self._storage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        self._savepoint_path = savepoint_path

    def get_checkpoint_path(self) -> str | None:
        """The folder for manifests, or None."""
        return self._storage.get_checkpoint_path()

    def get_savepoint_path(self) -> str | None:
        """The folder for savepoints, or None."""
        return self._savepoint_path

    def get_max_state_size(self) -> int:
        """The maximum size of one operator's state in one subtask, in bytes."""
        return self._storage.get_max_state_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """Always True: snapshots are written while the next epoch runs."""
        return True

    def own_storage(self) -> CheckpointStorage | None:
        return self._storage

    def record(self, configuration: Configuration) -> None:
        HashMapStateBackend().record(configuration)
        _record_savepoints(configuration, self._savepoint_path)

    def __str__(self) -> str:
        return f"MemoryStateBackend: HashMapStateBackend() and {self._storage}"


class FsStateBackend(StateBackend):
    """Keeps working state in memory and stores checkpoints in files."""

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        if checkpoint_directory_uri is None:
            raise ValueError("The parameter 'checkpoint_directory_uri' is required!")
        _check_asynchronous(using_asynchronous_snapshots)
        buffer = -1 if write_buffer_size is None else write_buffer_size
        self._storage = FileSystemCheckpointStorage(checkpoint_directory_uri, file_state_size_threshold, buffer)
        self._savepoint_path = default_savepoint_directory_uri

    def get_checkpoint_path(self) -> str:
        """The checkpoint folder."""
        return self._storage.get_checkpoint_path()

    def get_savepoint_path(self) -> str | None:
        """The folder for savepoints, or None."""
        return self._savepoint_path

    def get_min_file_size_threshold(self) -> int:
        """States up to this many bytes are stored in the manifest."""
        return self._storage.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        """What was set, at least the threshold. It has no effect, because files are written in one piece."""
        return max(self._storage.get_write_buffer_size(), self._storage.get_min_file_size_threshold())

    def is_using_asynchronous_snapshots(self) -> bool:
        """Always True: snapshots are written while the next epoch runs."""
        return True

    def own_storage(self) -> CheckpointStorage | None:
        return self._storage

    def record(self, configuration: Configuration) -> None:
        HashMapStateBackend().record(configuration)
        _record_savepoints(configuration, self._savepoint_path)

    def __str__(self) -> str:
        return f"FsStateBackend: HashMapStateBackend() and {self._storage}"


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """Keeps working state in RocksDB and stores checkpoints in files."""

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_data_uri is not None:
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        if checkpoint_stream_backend is None or checkpoint_stream_backend.own_storage() is None:
            raise ValueError("give 'checkpoint_data_uri', or a FsStateBackend as 'checkpoint_stream_backend'")
        self._checkpoint_backend = checkpoint_stream_backend

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend that says where checkpoints are stored."""
        return self._checkpoint_backend

    def get_number_of_transfering_threads(self) -> int:
        """The same as `get_number_of_transfer_threads`."""
        return self.get_number_of_transfer_threads()

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """The same as `set_number_of_transfer_threads`."""
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def is_ttl_compaction_filter_enabled(self) -> bool:
        """Always True: expired state is always cleaned up."""
        return True

    def enable_ttl_compaction_filter(self) -> None:
        """Does nothing: expired state is always cleaned up."""

    def own_storage(self) -> CheckpointStorage | None:
        return self._checkpoint_backend.own_storage()

    def record(self, configuration: Configuration) -> None:
        self._checkpoint_backend.record(configuration)  # for its savepoint folder
        super().record(configuration)

    def __str__(self) -> str:
        return f"RocksDBStateBackend: {super().__str__()} and {self.own_storage()}"


def _check_asynchronous(value: bool | None) -> None:
    if value not in (None, True, False):
        raise TypeError(f"using_asynchronous_snapshots is {value!r}; give a boolean or None")


def _record_savepoints(configuration: Configuration, path: str | None) -> None:
    if path is not None:
        configuration.set(checkpointing_options.SAVEPOINT_DIRECTORY, str(path))
