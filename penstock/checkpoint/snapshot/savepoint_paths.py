"""The names of the files in a savepoint's folder (features N1).

savepoint-4f1c2a-0b1c2d3e4f50/_metadata                                 the manifest, written last
savepoint-4f1c2a-0b1c2d3e4f50/state/running-total/total/s0-1-9f1c.parquet     keyed state
savepoint-4f1c2a-0b1c2d3e4f50/operator/buffer/split-pending/s0-1-9f1c.parquet  operator state
savepoint-4f1c2a-0b1c2d3e4f50/native/s0-1-9f1c                          a file of the backend's own
"""

import hashlib
from contextlib import suppress
from urllib.parse import quote

from penstock.errors import StorageError
from penstock.model.ids import SubtaskId, new_nonce
from penstock.storage.local import LocalStorage, remove_empty_folders
from penstock.storage.storage import Storage

METADATA = "_metadata"
MAX_PART = 120


def savepoint_folder(job_id: str) -> str:
    """A new name for a savepoint of a job."""
    return f"savepoint-{job_id[:6]}-{new_nonce()}"


def keyed_path(operator_uid: str, name: str, subtask: SubtaskId) -> str:
    """A new name for rows of a keyed state."""
    return f"state/{folder_part(operator_uid)}/{folder_part(name)}/{_file_part(subtask)}.parquet"


def operator_path(operator_uid: str, mode: str, name: str, subtask: SubtaskId) -> str:
    """A new name for rows of an operator state; raw states have no name."""
    part = folder_part(f"{mode}-{name}" if name else mode)
    return f"operator/{folder_part(operator_uid)}/{part}/{_file_part(subtask)}.parquet"


def native_path(subtask: SubtaskId) -> str:
    """A new name for one of the backend's own files."""
    return f"native/{_file_part(subtask)}"


def source_path() -> str:
    """A new name for the position of the sources."""
    return f"sources-{new_nonce()}"


def folder_part(text: str) -> str:
    """A uid or a state's name as the name of a folder; the manifest says which one it is.

    >>> folder_part("orders/eu")
    'orders%2Feu'
    """
    part = quote(text, safe="").replace("~", "%7E")
    if part.strip(".") == "":
        part = part.replace(".", "%2E")
    if len(part) > MAX_PART:
        part = f"{part[: MAX_PART - 13]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return part


def clear_folder(storage: Storage) -> None:
    """Remove what was written for a savepoint that will never exist. Nothing depends on it, so errors are ignored."""
    with suppress(StorageError):
        for path in storage.list(""):
            storage.delete(path)
        if isinstance(storage, LocalStorage):
            remove_empty_folders(storage.root)


def _file_part(subtask: SubtaskId) -> str:
    return f"{subtask.stage}-{subtask.index}-{new_nonce()}"
