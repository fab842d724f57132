"""Where a job keeps its checkpoints: in files, or in the memory of its JobManager (features J1 to J5, H1)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.job_folders import UnreadableJob, find_jobs, refuse
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.errors import ConfigurationError, JobConflictError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.ids import JobId, new_job_id
from penstock.model.options import parse_size_bytes
from penstock.model.snapshot import InlineLimits
from penstock.storage.address import join_address, parse_address
from penstock.storage.memory import MemoryStorage
from penstock.storage.probe import probe_two_writers
from penstock.storage.storage import Storage, open_storage

STORAGE = "execution.checkpointing.storage"
DIRECTORY = "execution.checkpointing.dir"
CREATE_SUBDIR = "execution.checkpointing.create-subdir"
INLINE_THRESHOLD = "execution.checkpointing.data-inline-threshold"
MAX_STATE_SIZE = "penstock.jobmanager-storage.max-state-size"

DEFAULT_DIRECTORY = "penstock-checkpoints"
DEFAULT_INLINE_BYTES = 20 * 1024
MAX_INLINE_BYTES = 1024 * 1024
DEFAULT_MAX_STATE_BYTES = 5 * 1024 * 1024
LARGEST_MAX_STATE_BYTES = 32 * 1024 * 1024
"""A state goes to the JobManager in one message, and into the manifest, and both have limits of their own."""


@dataclass(frozen=True)
class StorageSettings:
    """The storage that a configuration asks for."""

    address: str | None
    """The checkpoint folder; None: nothing outside the JobManager's memory."""
    create_subdir: bool = True
    limits: InlineLimits = InlineLimits()

    @staticmethod
    def of(configuration: Configuration) -> "StorageSettings":
        """The choice of features J3, except that files are the default."""
        create_subdir = configuration.get_boolean(CREATE_SUBDIR, default_value=True)
        directory = configuration.get_string(DIRECTORY, "")
        if configuration.get_string(STORAGE, "filesystem").strip().lower() == "jobmanager":
            limits = InlineLimits(max_state_bytes=_max_state_bytes(configuration))
            return StorageSettings(_checked(directory) if directory else None, create_subdir, limits)
        limits = InlineLimits(inline_bytes=_inline_bytes(configuration))
        return StorageSettings(_checked(directory or DEFAULT_DIRECTORY), create_subdir, limits)

    def open(self, job_id: str, *, resumed: bool) -> Storage:
        """The job's storage, which has shown that two writers cannot take one name (PROTOCOL R1).

        Raises JobConflictError if the folder is another job's.
        """
        if self.address is None:
            return MemoryStorage()
        storage = open_storage(join_address(self.address, job_id) if self.create_subdir else self.address)
        probe_two_writers(storage)
        if not self.create_subdir and not resumed and read_log(storage).attempt > 0:
            raise JobConflictError(
                f"{self.address} holds the checkpoints of another job, and {CREATE_SUBDIR} is false; go on with that "
                f"job by --resume, or choose another folder"
            )
        return storage

    def jobs(self, unreadable: Callable[[UnreadableJob], None] = refuse) -> list[tuple[JobId, LogView]]:
        """The jobs that have checkpoints here; `unreadable` raises for those that must not be passed over.

        Raises UsageError where there is nothing that outlives a JobManager.
        """
        if self.address is None:
            raise UsageError(
                f"--resume needs checkpoints that outlive the JobManager, and {STORAGE} is 'jobmanager' without a "
                f"folder: there is no job log on disk; use FileSystemCheckpointStorage, or set {DIRECTORY}"
            )
        return find_jobs(self.address, unreadable) if self.create_subdir else _job_in(self.address)


def _job_in(address: str) -> list[tuple[JobId, LogView]]:
    """The one job whose files lie straight in a folder. Before its first checkpoint it has no output and no name."""
    place = parse_address(address)
    if isinstance(place, Path) and not place.is_dir():
        return []
    storage = open_storage(address)
    view = read_log(storage)
    if view.attempt == 0:
        return []
    job_id = load_manifest(storage, view.lineage[-1]).job_id if view.lineage else new_job_id()
    return [(JobId(job_id), view)]


def _checked(directory: str) -> str:
    """The folder's address, in full, so that it holds in every process."""
    return str(parse_address(directory))


def _inline_bytes(configuration: Configuration) -> int:
    size = parse_size_bytes(configuration.get_string(INLINE_THRESHOLD, str(DEFAULT_INLINE_BYTES)))
    if size > MAX_INLINE_BYTES:
        raise ConfigurationError(f"{INLINE_THRESHOLD} is {size} bytes; it can be {MAX_INLINE_BYTES} at most")
    return size


def _max_state_bytes(configuration: Configuration) -> int:
    size = parse_size_bytes(configuration.get_string(MAX_STATE_SIZE, str(DEFAULT_MAX_STATE_BYTES)))
    if size > LARGEST_MAX_STATE_BYTES:
        raise ConfigurationError(
            f"{MAX_STATE_SIZE} is {size} bytes; {LARGEST_MAX_STATE_BYTES} is the most that a message to the JobManager "
            f"and its manifest can hold; use FileSystemCheckpointStorage for large states"
        )
    return size
