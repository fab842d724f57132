"""The storage Protocol: immutable files that are written once, as PROTOCOL R1 needs them."""

from pathlib import Path
from typing import Protocol

from penstock.storage.address import parse_address
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

    def folders(self) -> Paths:
        """The names of the folders directly below the root, sorted."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        ...

    def size(self, path: str) -> int:
        """The file's size in bytes. Raises FileMissingError."""
        ...


def open_storage(uri: str) -> Storage:
    """The storage with that root: a folder's path, its `file://` address, or one of an object store or HDFS.

    >>> open_storage("ftp://host/checkpoints")
    Traceback (most recent call last):
    penstock.errors.ConfigurationError: no storage for addresses with 'ftp://'; use a folder, s3://, gs://, abfss:// or hdfs://
    """
    address = parse_address(uri)
    if isinstance(address, Path):
        return LocalStorage(address)
    from penstock.storage.remote import open_remote  # not loaded where it is not needed

    return open_remote(address)
