"""The storage Protocol: immutable files that are written once, as PROTOCOL R1 needs them."""

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from penstock.errors import StorageError
from penstock.storage.local import LocalStorage
from penstock.storage.paths import Paths


class Storage(Protocol):
    """Files below one root, addressed by relative `/`-paths. Threads and processes may share it.

    A file never changes: it is written once, read, and deleted. What another writer has been told is written is seen
    by every later `read` and `list`.
    """

    @property
    def uri(self) -> str:
        """Where the root is; `open_storage` takes it."""
        ...

    def put_new(self, path: str, data: bytes) -> None:
        """Write a new file; when this returns it is durable and complete.

        Raises NameTakenError if a file of that name exists, UnknownOutcomeError if it may or may not be there, now or
        later, and any other StorageError if nothing was written under that name and nothing will be.
        """
        ...

    def read(self, path: str) -> bytes:
        """The whole file. Raises FileMissingError only if it is known not to be there."""
        ...

    def list(self, prefix: str) -> Paths:
        """The paths of all files that start with the prefix, sorted; with `~` in it: what an interrupted write left."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        ...

    def size(self, path: str) -> int:
        """The file's size in bytes. Raises FileMissingError."""
        ...


def open_storage(uri: str) -> Storage:
    """The storage with that root: a folder's path or its `file://` address.

    >>> open_storage("s3://bucket/checkpoints")
    Traceback (most recent call last):
    penstock.errors.StorageError: no storage for 's3://bucket/checkpoints'; use a folder or a file:// address
    """
    parts = urlsplit(uri)
    if parts.scheme == "":
        return LocalStorage(Path(os.path.expanduser(uri)))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return LocalStorage(Path(unquote(parts.path)))
    raise StorageError(f"no storage for {uri!r}; use a folder or a file:// address")
