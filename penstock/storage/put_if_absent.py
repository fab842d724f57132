"""The Protocol that `pyarrow.fs` lacks: a file that appears complete, under a name that was free (PROTOCOL R1).

`LocalStorage` does it with `os.link`. Object stores do it with a conditional put, HDFS with a rename that does not
overwrite; both serve `RemoteStorage`, which reads and lists through `pyarrow.fs`.
"""

from typing import Protocol


class PutIfAbsent(Protocol):
    """Creates and deletes files. `path` is relative to the storage's root. Thread safe."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a new file; when this returns it is durable and complete.

        Raises NameTakenError, UnknownOutcomeError or another StorageError as `Storage.put_new` does.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file, if it exists. Leaves nothing in its place."""
        ...
