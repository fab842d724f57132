"""Removing a savepoint, or a checkpoint of a job that has ended, and nothing else (features N6).

The manifest goes first, then its files, then its folder. A checkpoint is discarded in its job's log before that, as by
the job itself (PROTOCOL R3): a start from it fails from then on, and files that other checkpoints need stay.
"""

from pathlib import Path

import msgspec

from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_view import DISPOSER
from penstock.checkpoint.retention import delete_files, discard_checkpoint
from penstock.checkpoint.snapshot.manifest import digest, file_paths
from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot, locate, open_snapshot
from penstock.clock import SystemClock
from penstock.errors import JobConflictError, StorageError
from penstock.model.ids import new_token
from penstock.storage.address import parse_address
from penstock.storage.local import remove_empty_folders


def dispose_savepoint(path: str) -> str:
    """Remove the savepoint or retained checkpoint at a path, its folder or its `_metadata`; the folder's address.

    A crash in between leaves no snapshot, but perhaps some of its files. Raises SnapshotNotFoundError if nothing is
    there, CheckpointCorruptError if it is no snapshot, and JobConflictError for a checkpoint that its job may need;
    nothing was removed then.
    """
    found = locate(path)
    if found.is_savepoint:
        for name in [found.metadata_path, *sorted(file_paths(found.manifest))]:
            found.storage.delete(name)
    else:
        _dispose_checkpoint(open_snapshot(path))
    place = parse_address(found.path)
    if isinstance(place, Path):
        remove_empty_folders(place)
        if place.exists():
            raise StorageError(f"it is removed, but its folder {str(place)!r} holds other files and was kept")
    return str(place)


def _dispose_checkpoint(found: OpenSnapshot) -> None:
    """Take the ended job over, discard the checkpoint, record the job's end again, and delete the files.

    If a driver resumes the job at the same time, one of the two fails before anything is removed.
    """
    number, job_id = found.manifest.checkpoint_id, found.manifest.job_id
    log = JobLog.open(found.storage, SystemClock())
    view = log.view()
    if not view.is_terminal or view.claim is None or view.status is None:
        raise JobConflictError(
            f"{found.path!r} is checkpoint {number} of job {job_id}, which has not ended: a running job removes it by "
            f"itself, and any other can be resumed from it; end the job with `penstock cancel` or `penstock stop` first"
        )
    if found.manifest.committables:
        raise JobConflictError(
            f"{found.path!r} holds output of job {job_id} that may not be committed yet; resume the job, or start "
            f"another one from it, which commits the output"
        )
    token_hash = digest(new_token().encode())[:16]
    claim = msgspec.structs.replace(view.claim, attempt=view.attempt + 1, token_hash=token_hash, writer=DISPOSER)
    log.claim(claim, reopen=True)
    files = discard_checkpoint(log, number)
    log.append(view.status)
    delete_files(found.storage, files)
