"""The storage Protocol: immutable files that are written once (PROTOCOL R1)."""

from pathlib import Path
from typing import Protocol

from penstock.storage.address import HDFS, parse_address
from penstock.storage.local import LocalStorage
from penstock.storage.paths import Paths


class Storage(Protocol):
    """Files below one root, addressed by relative `/`-paths. Threads and processes may share it.

    A file never changes: it is written once, read, and deleted. Once a write has returned, every `read` and `list` sees
    it.
    """

    @property
    def uri(self) -> str:
        """The address of the root, for `open_storage`."""
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
        """The paths that start with the prefix, sorted. One with `~` is the leftover of an interrupted write."""
        ...

    def folders(self) -> Paths:
        """The names of the folders directly below the root, sorted."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
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
    if uri.startswith("memory://"):
        from penstock.storage.memory import memory_storage  # only tests have one

        return memory_storage(uri)
    address = parse_address(uri)
    if isinstance(address, Path):
        return LocalStorage(address)
    if address.kind == HDFS:
        from penstock.storage.hdfs import open_hdfs  # loaded only if needed

        return open_hdfs(address)
    from penstock.storage.remote import open_remote

    return open_remote(address)
