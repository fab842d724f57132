"""The retained checkpoints below a folder, from the job logs and manifests."""

import os
from collections import Counter
from pathlib import Path

import msgspec

from penstock.checkpoint.job_folders import UnreadableJob, find_jobs
from penstock.checkpoint.log.entries import Complete
from penstock.checkpoint.log.log_reader import entry_numbers, read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.manifest import load_manifest, state_files
from penstock.errors import CheckpointError, PathNotFoundError, StorageError
from penstock.model.snapshot import Manifest
from penstock.storage.address import join_address, parse_address
from penstock.storage.storage import open_storage


class RetainedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint that a job can start from."""

    job_id: str
    name: str
    checkpoint: int
    epoch: int
    path: str
    """The argument of `run -s`."""
    time_ms: int | None = None
    """This and the fields below are None if the manifest cannot be read."""
    size_bytes: int | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    problem: str | None = None


def retained_checkpoints(folder: str) -> tuple[list[RetainedCheckpoint], list[str]]:
    """The retained checkpoints of all jobs below a folder, oldest first in each job, and what could not be read.

    The folder may also be that of one job. Raises PathNotFoundError if there is no such folder.
    """
    place = parse_address(folder)
    if isinstance(place, Path) and not os.path.isdir(place):
        raise PathNotFoundError(f"there is no folder {folder!r}")
    found: list[RetainedCheckpoint] = []
    problems: list[str] = []
    if entry_numbers(open_storage(folder)):
        found += _of_job(_job_id(folder), str(place), read_log(open_storage(folder)))

    def note(job: UnreadableJob) -> None:
        problems.append(str(job))

    for job_id, view in find_jobs(folder, note):
        found += _of_job(job_id, join_address(folder, job_id), view)
    return found, problems


def _of_job(job_id: str, address: str, view: LogView) -> list[RetainedCheckpoint]:
    name = view.claim.name if view.claim is not None else ""
    return [_retained(job_id, name, address, complete) for complete in view.retained]


def _retained(job_id: str, name: str, address: str, complete: Complete) -> RetainedCheckpoint:
    path = f"{address}/{complete.metadata_path.rpartition('/')[0]}"
    kept = RetainedCheckpoint(job_id, name, complete.checkpoint, complete.epoch, path)
    try:
        manifest = load_manifest(open_storage(address), complete)
    except (CheckpointError, StorageError) as error:
        return msgspec.structs.replace(kept, problem=str(error))
    return msgspec.structs.replace(
        kept,
        job_id=manifest.job_id,
        time_ms=manifest.now_ms,
        size_bytes=sum(file.size for file in state_files(manifest)),
        parallelism=_parallelism(manifest),
        max_parallelism=manifest.max_parallelism,
    )


def _parallelism(manifest: Manifest) -> int | None:
    """The parallelism of the widest stage; None before the first epoch, when there is no state yet."""
    stages = Counter(snapshot.subtask.stage for snapshot in manifest.subtasks)
    return max(stages.values()) if stages else None


def _job_id(folder: str) -> str:
    """The last part of the address: by default a job's folder is named after the job."""
    return folder.rstrip("/").rpartition("/")[2]
