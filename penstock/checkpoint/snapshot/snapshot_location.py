"""The snapshot at a path: a savepoint, or a retained checkpoint of another job (features O8, PROTOCOL R25).

Opening a snapshot changes nothing and trusts nothing: the manifest is checked, its files must exist with their sizes,
and a checkpoint must be complete and not discarded in the log of its job.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from penstock.checkpoint.file_names import LOG_FOLDER
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.manifest import decode_manifest, digest, read_metadata, verify_sizes
from penstock.checkpoint.snapshot.savepoint_paths import METADATA
from penstock.errors import (
    CheckpointCorruptError,
    FileMissingError,
    LogCorruptError,
    PathOutsideError,
    SnapshotNotFoundError,
    SnapshotRefusedError,
    StorageError,
)
from penstock.model.ids import HEX_ID
from penstock.model.snapshot import Manifest
from penstock.storage.address import RemoteAddress, parse_address
from penstock.storage.storage import Storage, open_storage

_CHECKPOINT_FOLDER = re.compile(r"chk-(\d+)")
_SHOWN = 5


@dataclass(frozen=True)
class OpenSnapshot:
    """A snapshot that exists and is consistent."""

    path: str
    """The address of its folder, as it is in the log of a job that starts from it."""
    storage: Storage
    """Its root, which the manifest's paths are relative to: its own folder, or that of a checkpoint's job."""
    metadata_path: str
    manifest: Manifest
    """Without the committables of a checkpoint whose output is known to be committed."""
    sha256: str
    """Of the manifest."""
    has_ended: bool = True
    """The job of a checkpoint has ended; a savepoint needs no job."""

    @property
    def is_savepoint(self) -> bool:
        return bool(self.manifest.savepoint)


def open_snapshot(path: str) -> OpenSnapshot:
    """The savepoint or checkpoint at a path of its folder or its `_metadata`, on disk or in an object store.

    Raises SnapshotNotFoundError, CheckpointCorruptError, CheckpointMissingError or SnapshotRefusedError; each names the
    path or the file.
    """
    snapshot = locate(path)
    if not snapshot.is_savepoint:
        view = _require_complete(snapshot)
        if _is_committed(snapshot.manifest, view):
            snapshot = replace(snapshot, manifest=msgspec.structs.replace(snapshot.manifest, committables=[]))
        snapshot = replace(snapshot, has_ended=view.is_terminal)
    verify_sizes(snapshot.storage, snapshot.manifest)
    return snapshot


def full_address(path: str) -> str:
    """The path in a form that does not depend on the working directory.

    >>> full_address("s3a://bucket/savepoints/")
    's3://bucket/savepoints'
    """
    return str(parse_address(path))


def locate(path: str) -> OpenSnapshot:
    """The snapshot at a path, by its manifest alone; its files and its job's log are not checked."""
    folder = _find_folder(path)
    storage = open_storage(folder)
    manifest, sha256 = _read_manifest(storage, path)
    if manifest.savepoint:
        return OpenSnapshot(folder, storage, METADATA, manifest, sha256)
    root, name = _parent(folder)
    return OpenSnapshot(folder, open_storage(root), f"{name}/{METADATA}", manifest, sha256)


def _is_committed(manifest: Manifest, view: LogView) -> bool:
    """Whether its job has committed the checkpoint's output; sinks may have forgotten the transactions since (R21).

    Before a checkpoint's commits have ended its job discards nothing, so the one before it is still there until then,
    unless a command has removed that one.
    """
    is_finished = view.status is not None and view.status.status == "finished"
    kept = view.disposed.union(complete.checkpoint for complete in view.retained)
    is_parent_gone = manifest.parent is not None and manifest.parent not in kept
    return manifest.checkpoint_id in view.confirmed or is_finished or is_parent_gone


def _read_manifest(storage: Storage, path: str) -> tuple[Manifest, str]:
    where = f"{path.rstrip('/').removesuffix('/' + METADATA)}/{METADATA}"
    try:
        data = read_metadata(storage, METADATA)
    except FileMissingError as error:
        raise _without_metadata(storage, path) from error
    except PathOutsideError as error:
        raise CheckpointCorruptError(where, "a file", str(error), "PATH_OUTSIDE_ROOT") from error
    return decode_manifest(data, where), digest(data)


def _require_complete(snapshot: OpenSnapshot) -> LogView:
    """The log of the checkpoint's job, which says that the checkpoint exists (PROTOCOL R25)."""
    storage, manifest = snapshot.storage, snapshot.manifest
    number = manifest.checkpoint_id
    if not storage.list(LOG_FOLDER):
        verify_sizes(storage, manifest)  # report the missing files of a checkpoint that was moved without its job
        raise SnapshotRefusedError(
            "MISSING_IDENTITY",
            f"checkpoint {number} in {storage.uri} has no job log beside it ({LOG_FOLDER} is not there), and nothing "
            f"else says that it was completed; bring the log back, or use a savepoint, which can be moved",
        )
    try:
        view = read_log(storage)
    except LogCorruptError as error:
        raise SnapshotRefusedError(
            "BROKEN_CHAIN", f"the log of the job of checkpoint {number} in {storage.uri} cannot be read: {error}"
        ) from error
    complete = next((found for found in view.retained if found.checkpoint == number), None)
    if complete is None:
        raise SnapshotRefusedError(
            "NOT_A_CHECKPOINT",
            f"the log in {storage.uri} has no completed checkpoint {number} that is still kept: it was aborted or "
            f"discarded; {_kept(view)}",
        )
    if complete.metadata_path != snapshot.metadata_path:
        raise CheckpointCorruptError(
            f"{snapshot.path}/{METADATA}", complete.metadata_path, snapshot.metadata_path, "BROKEN_CHAIN"
        )
    if complete.metadata_sha256 != snapshot.sha256:
        raise CheckpointCorruptError(
            f"{storage.uri}/{complete.metadata_path}",
            f"sha256 {complete.metadata_sha256}",
            f"sha256 {snapshot.sha256}",
            "CORRUPT_MANIFEST",
        )
    return view


def _kept(view: LogView) -> str:
    names = ", ".join(f"chk-{complete.checkpoint}" for complete in view.retained)
    return f"those that are kept: {names}" if names else "none is kept"


def _find_folder(path: str) -> str:
    """The address of the folder with the manifest."""
    place = parse_address(path)
    if isinstance(place, RemoteAddress):
        address = str(place)
        return address.removesuffix(f"/{METADATA}")
    try:
        os.stat(place)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _not_found(path, "file") from error
    except OSError as error:
        raise SnapshotNotFoundError(
            "NOT_A_SAVEPOINT",
            f"Cannot find checkpoint or savepoint file/directory '{path}' on file system 'file': {error.strerror}",
        ) from error
    if place.is_dir():
        return place.as_uri()
    if place.name != METADATA:
        raise SnapshotNotFoundError(
            "NOT_A_SAVEPOINT",
            f"'{path}' is a file and not a checkpoint or savepoint; give its folder, or the file {METADATA} in it",
        )
    return place.parent.as_uri()


def _parent(folder: str) -> tuple[str, str]:
    """The parent folder, and the last part of the path."""
    place = parse_address(folder)
    if isinstance(place, Path):
        return place.parent.as_uri(), place.name
    above, _, name = str(place).rpartition("/")
    return above, name


def _not_found(path: str, file_system: str) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        "NOT_A_SAVEPOINT",
        f"Cannot find checkpoint or savepoint file/directory '{path}' on file system '{file_system}'.",
    )


def _without_metadata(storage: Storage, path: str) -> SnapshotNotFoundError:
    """The error for a folder without `_metadata`; it names what the folder holds instead."""
    place = parse_address(path)
    try:
        files, folders = storage.list(""), storage.folders()
    except StorageError:
        files, folders = [], []
    if isinstance(place, RemoteAddress) and not files:
        return _not_found(path, place.kind)
    return SnapshotNotFoundError(
        "NOT_A_SAVEPOINT",
        f"Cannot find meta data file '{METADATA}' in directory '{path}'. {_what_to_name(path, files, folders)}",
    )


def _what_to_name(path: str, files: list[str], folders: list[str]) -> str:
    """What to give instead of a folder without `_metadata`, by what it holds; Flink's sentence if nothing helps."""
    near = sorted(name for name in folders if _CHECKPOINT_FOLDER.fullmatch(name) or name.startswith("savepoint-"))
    if near:
        return f"It holds {', '.join(near[-_SHOWN:])}: name one of them."
    if any(HEX_ID.fullmatch(name) for name in folders):
        return f"It holds checkpoints of jobs: `penstock checkpoints list {path}` shows the paths to name."
    if not files and not folders:
        return "The folder is empty."
    return "Please try to load the checkpoint/savepoint directly from the metadata file instead of the directory."
