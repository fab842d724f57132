"""Removing a savepoint: its manifest first, then its files, then its folder, and nothing else (features N6)."""

import os
from contextlib import suppress
from pathlib import Path

from penstock.checkpoint.manifest import MAX_MANIFEST_BYTES, decode_manifest, file_paths
from penstock.errors import CheckpointCorruptError, CheckpointMissingError, FileMissingError, StorageError, UsageError
from penstock.model.snapshot import Manifest
from penstock.storage.address import parse_address
from penstock.storage.blobs import Storage, open_storage

METADATA = "_metadata"


def dispose_savepoint(path: str) -> str:
    """Remove the savepoint at a path, its folder or its `_metadata`; the folder's address.

    A crash in between leaves no savepoint, and perhaps files of it. Raises CheckpointMissingError if nothing is there,
    CheckpointCorruptError or UsageError if it is not a savepoint: then nothing was removed.
    """
    address = _folder_of(path)
    place = parse_address(address)
    if isinstance(place, Path) and not os.path.isdir(place):
        raise CheckpointMissingError(
            f"Cannot find checkpoint or savepoint file/directory '{path}' on file system 'file'."
        )
    storage = open_storage(address)
    manifest = _read_manifest(storage, address)
    if not manifest.savepoint:
        raise UsageError(
            f"{address!r} is a checkpoint of job {manifest.job_id}, not a savepoint: the job removes it by itself"
        )
    storage.delete(METADATA)
    for name in sorted(file_paths(manifest)):
        storage.delete(name)
    if isinstance(place, Path):
        _remove_folders(place)
    return str(place)


def _read_manifest(storage: Storage, address: str) -> Manifest:
    try:
        if storage.size(METADATA) > MAX_MANIFEST_BYTES:
            raise CheckpointCorruptError(f"{address}/{METADATA}", f"at most {MAX_MANIFEST_BYTES} bytes", "more")
        data = storage.read(METADATA)
    except FileMissingError:
        raise CheckpointMissingError(
            f"Cannot find meta data file '{METADATA}' in directory '{address}': it is not a savepoint"
        ) from None
    return decode_manifest(data, f"{address}/{METADATA}")


def _folder_of(path: str) -> str:
    stripped = path.rstrip("/") or path
    head, _, tail = stripped.rpartition("/")
    return head or "/" if tail == METADATA and head else stripped


def _remove_folders(folder: Path) -> None:
    """Remove what is empty now, from the inside out; a folder in which somebody has put other files stays."""
    for place, _, _ in os.walk(folder, topdown=False, followlinks=False):
        with suppress(OSError):
            os.rmdir(place)
    if folder.exists():
        raise StorageError(f"the savepoint is removed, but its folder {str(folder)!r} holds other files and stays")
