"""PyFlink's classes of checkpoint storages. Each one stands for settings of the job."""

from abc import ABC, abstractmethod

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options
from penstock.storage.address import check_address_form

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]


class CheckpointStorage(ABC):
    """Where checkpoints are stored: JobManagerCheckpointStorage or FileSystemCheckpointStorage."""

    @abstractmethod
    def record(self, configuration: Configuration) -> None:
        """Write the choice into a job's settings. It replaces earlier values."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in the JobManager's memory: for small state, trials and tests.

    Checkpoints survive the loss of TaskManagers but not the loss of the JobManager, unless `checkpoint_path` names a
    folder for their manifests.

    >>> JobManagerCheckpointStorage().get_max_state_size()
    5242880
    """

    DEFAULT_MAX_STATE_SIZE = checkpointing_options.MAX_STATE_SIZE.default

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._path = _checked(checkpoint_path) if checkpoint_path is not None else None
        self._max_state_size = max_state_size if max_state_size is not None else self.DEFAULT_MAX_STATE_SIZE
        if isinstance(self._max_state_size, bool) or self._max_state_size < 1:
            raise UsageError(f"max_state_size is {max_state_size!r}; give a number of bytes, 1 or more")

    def get_checkpoint_path(self) -> str | None:
        """The folder for manifests, or None."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Always None: `execution.checkpointing.savepoint-dir` sets the folder of savepoints."""
        return None

    def get_max_state_size(self) -> int:
        """The maximum size of one operator's state in one subtask, in bytes."""
        return self._max_state_size

    def record(self, configuration: Configuration) -> None:
        configuration.set(checkpointing_options.STORAGE, "jobmanager")
        configuration.set(checkpointing_options.MAX_STATE_SIZE, self._max_state_size)
        if self._path is not None:
            configuration.set(checkpointing_options.DIRECTORY, self._path)

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage(checkpoints to {self._path!r}, maxStateSize {self._max_state_size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Stores checkpoints as files in a folder, an object store or HDFS. Small states go into the manifest.

    >>> FileSystemCheckpointStorage("s3://bucket/checkpoints").get_min_file_size_threshold()
    20480
    """

    MAX_FILE_STATE_THRESHOLD = checkpointing_options.MAX_INLINE_THRESHOLD

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ValueError("checkpoint_path must not be None")
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if isinstance(threshold, bool) or not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise UsageError(
                f"The threshold for file state size must be in [-1, {self.MAX_FILE_STATE_THRESHOLD}], where '-1' means "
                f"to use the value from the configuration; it is {threshold!r}"
            )
        self._path = _checked(checkpoint_path)
        self._threshold = threshold
        self._write_buffer_size = -1 if write_buffer_size is None else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The checkpoint folder. Each job has a folder of its own in it."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Always None: `execution.checkpointing.savepoint-dir` sets the folder of savepoints."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """States up to this many bytes are stored in the manifest."""
        return self._threshold if self._threshold >= 0 else checkpointing_options.INLINE_THRESHOLD.default

    def get_write_buffer_size(self) -> int:
        """What was set. It has no effect, because files are written in one piece."""
        return (
            self._write_buffer_size if self._write_buffer_size >= 0 else checkpointing_options.WRITE_BUFFER_SIZE.default
        )

    def record(self, configuration: Configuration) -> None:
        configuration.set(checkpointing_options.STORAGE, "filesystem")
        configuration.set(checkpointing_options.DIRECTORY, self._path)
        if self._threshold >= 0:
            configuration.set(checkpointing_options.INLINE_THRESHOLD, self._threshold)
        if self._write_buffer_size >= 0:
            configuration.set(checkpointing_options.WRITE_BUFFER_SIZE, self._write_buffer_size)

    def __str__(self) -> str:
        return (
            f"FileSystemCheckpointStorage(checkpoints to {self._path!r}, fileStateThreshold "
            f"{self.get_min_file_size_threshold()})"
        )


def _checked(path: str) -> str:
    """The address as it was written, without a slash at its end. Raises if it is not an address."""
    text = str(path)
    check_address_form(text)
    cut = text.rstrip("/")
    return text if cut in ("", "file:") else cut
