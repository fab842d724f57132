"""Where a job stores its checkpoints: in files, or in the memory of its JobManager."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.job_folders import UnreadableJob, find_jobs, refuse
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.errors import JobConflictError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.ids import JobId, new_job_id
from penstock.model.options import checkpointing_options as options
from penstock.model.snapshot import InlineLimits
from penstock.storage.address import join_address, parse_address
from penstock.storage.memory import MemoryStorage
from penstock.storage.probe import probe_two_writers
from penstock.storage.storage import Storage, open_storage


@dataclass(frozen=True)
class StorageSettings:
    """The storage that a configuration asks for."""

    address: str | None
    """The checkpoint folder; None: checkpoints stay in the JobManager's memory."""
    create_subdir: bool = True
    limits: InlineLimits = InlineLimits()

    @staticmethod
    def of(configuration: Configuration) -> "StorageSettings":
        """The storage in a configuration. Files are the default."""
        create_subdir = configuration.get(options.CREATE_SUBDIR)
        directory = configuration.get(options.DIRECTORY)
        if configuration.get(options.STORAGE) == "jobmanager":
            limits = InlineLimits(max_state_bytes=configuration.get(options.MAX_STATE_SIZE))
            return StorageSettings(_full_address(directory) if directory else None, create_subdir, limits)
        limits = InlineLimits(inline_bytes=configuration.get(options.INLINE_THRESHOLD))
        return StorageSettings(_full_address(directory or options.DEFAULT_DIRECTORY), create_subdir, limits)

    def open(self, job_id: str, *, resumed: bool) -> Storage:
        """The job's storage, after a check that two writers cannot create the same file (PROTOCOL R1).

        Raises JobConflictError if the folder is another job's.
        """
        if self.address is None:
            return MemoryStorage()
        storage = open_storage(self.job_address(job_id))
        probe_two_writers(storage)
        if not self.create_subdir and not resumed and read_log(storage).attempt > 0:
            raise JobConflictError(
                f"{self.address} holds the checkpoints of another job, and {options.CREATE_SUBDIR.key} is false; "
                f"continue that job with --resume, or choose another folder"
            )
        return storage

    def job_address(self, job_id: str) -> str:
        """The job's own folder. Only for checkpoints that are kept in files."""
        assert self.address is not None, "a job in memory has no folder"
        return join_address(self.address, job_id) if self.create_subdir else self.address

    def jobs(self, unreadable: Callable[[UnreadableJob], None] = refuse) -> list[tuple[JobId, LogView]]:
        """The jobs that have checkpoints here. `unreadable` is called for each one that cannot be read.

        Raises UsageError for a storage that does not outlive the JobManager.
        """
        if self.address is None:
            raise UsageError(
                f"--resume needs checkpoints that outlive the JobManager, and {options.STORAGE.key} is 'jobmanager' "
                f"without a folder: there is no job log on disk; use FileSystemCheckpointStorage, or set "
                f"{options.DIRECTORY.key}"
            )
        return find_jobs(self.address, unreadable) if self.create_subdir else _job_in(self.address)


def _job_in(address: str) -> list[tuple[JobId, LogView]]:
    """The one job whose files are directly in the folder. Its id is known from its first checkpoint on."""
    place = parse_address(address)
    if isinstance(place, Path) and not place.is_dir():
        return []
    storage = open_storage(address)
    view = read_log(storage)
    if view.attempt == 0:
        return []
    job_id = load_manifest(storage, view.lineage[-1]).job_id if view.lineage else new_job_id()
    return [(JobId(job_id), view)]


def _full_address(directory: str) -> str:
    """The folder's absolute address, which is valid in every process."""
    return str(parse_address(directory))
