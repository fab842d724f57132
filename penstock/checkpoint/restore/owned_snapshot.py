"""The snapshot that a job was started from and owns (features O9, CLAIM): it goes when newer checkpoints replace it.

It counts as the oldest of the retained checkpoints. First all its files are discarded in the log, its manifest last
(PROTOCOL R3); then they are deleted, the manifest first. After a crash in between, the next attempt goes on. A last
entry says that everything is deleted: what is put at the same place later is not the job's.
"""

from contextlib import suppress
from pathlib import Path

from penstock import failpoint
from penstock.checkpoint.file_names import CHECKPOINT_FOLDERS, FileKind, parse_name
from penstock.checkpoint.log.entries import MAX_FILES_PER_DISCARD, Discard
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import decode_manifest, digest, file_paths, read_metadata
from penstock.checkpoint.snapshot.savepoint_paths import METADATA
from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot, locate
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    FileMissingError,
    SnapshotNotFoundError,
    StorageError,
)
from penstock.storage.address import parse_address
from penstock.storage.local import remove_empty_folders
from penstock.storage.storage import Storage, open_storage


def collect_claimed(log: JobLog, retained: int) -> str | None:
    """Discard and delete the claimed snapshot if enough newer checkpoints are retained.

    Returns why it is kept although the job does not need it; None if there is no reason.
    """
    view = log.view()
    is_replaced = (
        view.commits_begun >= 0 and len(view.lineage) >= retained
    )  # never without a checkpoint of the job's own
    if view.claimed is not None and is_replaced:
        try:
            root, files = _own_files(view.claimed, view.claimed_sha256)
        except CheckpointError as error:
            return f"the claimed snapshot {view.claimed} stays: {error}"
        _discard(log, root, files)
    delete_claimed(log)
    return None


def delete_claimed(log: JobLog) -> None:
    """Delete the discarded files of a claimed snapshot, and record that it is done."""
    view = log.view()
    if view.claimed is not None or not view.claimed_deletes:
        return  # not all of its files are discarded in the log
    place = parse_address(view.claimed_root)
    if not isinstance(place, Path) or place.is_dir():
        storage = open_storage(view.claimed_root)
        for path in sorted(view.claimed_deletes, key=lambda path: (not path.endswith(METADATA), path)):
            failpoint.before("C23")
            if not (path.endswith(METADATA) and _is_another(storage, path, view.claimed_sha256)):
                storage.delete(path)
            failpoint.after("C23")
        if METADATA in view.claimed_deletes and isinstance(place, Path):
            remove_empty_folders(place)
    log.append(Discard([], [], view.claimed_root))


def finish_claimed_deletes(log: JobLog) -> None:
    """Finish what earlier attempts have begun. A storage that does not answer does not keep the job from starting."""
    with suppress(StorageError):
        delete_claimed(log)


def _discard(log: JobLog, root: str, files: list[str]) -> None:
    """Append the `discard`, in several entries for many files; one without files says that nothing is left."""
    while True:
        failpoint.before("C22")
        log.append(Discard([], files[:MAX_FILES_PER_DISCARD], root))
        failpoint.after("C22")
        files = files[MAX_FILES_PER_DISCARD:]
        if not files:
            return


def _own_files(path: str, sha256: str) -> tuple[str, list[str]]:
    """The root of the snapshot, and its files that no other snapshot there needs, its manifest last.

    No files if it was deleted, or if another one is at its place.
    """
    try:
        place = locate(path)
    except SnapshotNotFoundError:
        return path, []
    if sha256 not in ("", place.sha256):
        return path, []
    own = file_paths(place.manifest)
    if not place.manifest.savepoint:
        _require_ended(place)
        own -= _needed_by_others(place.storage, place.metadata_path)
    return place.storage.uri, [*sorted(own), place.metadata_path]


def _require_ended(place: OpenSnapshot) -> None:
    """Raise CheckpointError if the job of a claimed checkpoint runs again: it may build on its files."""
    if not read_log(place.storage).is_terminal:
        raise CheckpointError("its own job has been resumed")


def _is_another(storage: Storage, path: str, sha256: str) -> bool:
    """Whether the manifest at this path is not the one that was claimed."""
    try:
        return sha256 not in ("", digest(read_metadata(storage, path)))
    except FileMissingError:
        return False
    except CheckpointCorruptError:
        return True


def _needed_by_others(storage: Storage, metadata_path: str) -> set[str]:
    """The files of all other checkpoints of a job. If one cannot be read, that is an error and nothing is deleted."""
    needed: set[str] = set()
    for path in storage.list(CHECKPOINT_FOLDERS):
        name = parse_name(path)
        if name is not None and name.kind is FileKind.METADATA and not name.temporary and path != metadata_path:
            with suppress(FileMissingError):
                needed |= file_paths(decode_manifest(read_metadata(storage, path), path))
    return needed
