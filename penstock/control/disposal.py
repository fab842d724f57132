"""Removing a savepoint: its manifest first, then its files, then its folder, and nothing else (features N6)."""

from pathlib import Path

from penstock.checkpoint.snapshot.manifest import file_paths
from penstock.checkpoint.snapshot.snapshot_location import locate
from penstock.errors import StorageError, UsageError
from penstock.storage.address import parse_address
from penstock.storage.local import remove_empty_folders


def dispose_savepoint(path: str) -> str:
    """Remove the savepoint at a path, its folder or its `_metadata`; the folder's address.

    A crash in between leaves no savepoint, but perhaps some of its files. Raises SnapshotNotFoundError if nothing is
    there, CheckpointCorruptError or UsageError if it is not a savepoint; nothing was removed then.
    """
    found = locate(path)
    if not found.is_savepoint:
        raise UsageError(
            f"{found.path!r} is a checkpoint of job {found.manifest.job_id}, not a savepoint: the job removes it by "
            f"itself"
        )
    for name in [found.metadata_path, *sorted(file_paths(found.manifest))]:
        found.storage.delete(name)
    place = parse_address(found.path)
    if isinstance(place, Path):
        remove_empty_folders(place)
        if place.exists():
            raise StorageError(
                f"the savepoint is removed, but its folder {str(place)!r} holds other files and was kept"
            )
    return str(place)
