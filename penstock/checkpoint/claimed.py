"""The snapshot that a job was started from and owns (features O9, CLAIM): it goes when newer checkpoints replace it.

It counts as the oldest of the retained checkpoints. All its files come under `discard`s first, its manifest in the last
of them (PROTOCOL R3); then they are deleted, the manifest first. A crash in between leaves that to the next attempt.
"""

from contextlib import suppress
from pathlib import Path

from penstock import failpoint
from penstock.checkpoint.entries import Discard
from penstock.checkpoint.log import JobLog
from penstock.checkpoint.manifest import decode_manifest, file_paths, read_metadata
from penstock.checkpoint.names import CHECKPOINT_FOLDERS, FileKind, parse_name
from penstock.checkpoint.snapshot_path import METADATA, locate
from penstock.errors import FileMissingError, SnapshotNotFoundError, StorageError
from penstock.storage.address import parse_address
from penstock.storage.blobs import Storage, open_storage
from penstock.storage.local import remove_empty_folders

MAX_FILES_PER_DISCARD = 1000


def collect_claimed(log: JobLog, retained: int) -> None:
    """Discard and delete the claimed snapshot, if so many newer checkpoints are kept that nobody needs it."""
    view = log.view()
    is_replaced = retained == 0 or len(view.line) >= retained
    if view.claimed is None or not is_replaced:
        delete_claimed(log)
        return
    root, files = _own_files(view.claimed)
    while files:
        failpoint.before("C22")
        log.append(Discard([], files[:MAX_FILES_PER_DISCARD], root))
        failpoint.after("C22")
        files = files[MAX_FILES_PER_DISCARD:]
    delete_claimed(log)


def delete_claimed(log: JobLog) -> None:
    """Delete what is under a `discard` of a claimed snapshot; again changes nothing."""
    view = log.view()
    if view.claimed is not None or not view.claimed_deletes:
        return  # not all of its files are under a `discard`
    place = parse_address(view.claimed_root)
    if isinstance(place, Path) and not place.is_dir():
        return
    storage = open_storage(view.claimed_root)
    for path in sorted(view.claimed_deletes, key=lambda path: (not path.endswith(METADATA), path)):
        failpoint.before("C23")
        storage.delete(path)
        failpoint.after("C23")
    if METADATA in view.claimed_deletes and isinstance(place, Path):
        remove_empty_folders(place)


def finish_claimed_deletes(log: JobLog) -> None:
    """What earlier attempts have begun; a storage that does not answer keeps no job from starting."""
    with suppress(StorageError):
        delete_claimed(log)


def _own_files(path: str) -> tuple[str, list[str]]:
    """The root of the snapshot, and its files that no other snapshot there needs, its manifest last."""
    try:
        place = locate(path)
    except SnapshotNotFoundError:
        return path, [METADATA]  # somebody has deleted it
    own = file_paths(place.manifest)
    if not place.manifest.savepoint:
        own -= _needed_by_others(place.storage, place.metadata_path)
    return place.storage.uri, [*sorted(own), place.metadata_path]


def _needed_by_others(storage: Storage, metadata_path: str) -> set[str]:
    """The files of all other checkpoints of a job. One that cannot be read is an error: then nothing is deleted."""
    needed: set[str] = set()
    for path in storage.list(CHECKPOINT_FOLDERS):
        name = parse_name(path)
        if name is not None and name.kind is FileKind.METADATA and not name.temporary and path != metadata_path:
            with suppress(FileMissingError):
                needed |= file_paths(decode_manifest(read_metadata(storage, path), path))
    return needed
