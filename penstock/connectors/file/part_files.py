"""What the file sink needs from a storage: a folder of part files, and one part file that is being written."""

from typing import Protocol

from penstock.connectors.file.file_formats import RecordEncoder
from penstock.connectors.file.part_names import PartName


class PartFile(Protocol):
    """A part that one subtask writes: in progress, then pending. Until its epoch ends it can be reopened."""

    @property
    def size(self) -> int:
        """The bytes in progress; for a converted format the finished file has another size."""
        ...

    @property
    def dead(self) -> bool:
        """Whether its rows are in doubt: an fsync has failed."""
        ...

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        ...

    def truncate(self, size: int) -> None:
        """Keep only the first `size` bytes, and accept more. The part is in progress."""
        ...

    def end(self) -> None:
        """Accept no more bytes until `truncate`."""
        ...

    def prepare(self) -> int:
        """Make the part pending; returns the size of that file. Its name is durable once the folder is synced."""
        ...

    def leave_pending(self, name: PartName) -> PartName:
        """If the part is pending, make it in progress again under a new name. Returns its name.

        Nobody can publish it under the old name.
        """
        ...

    def keep_pending(self) -> None:
        """Remove every file but the pending one."""
        ...

    def discard(self) -> None:
        """Remove every file."""
        ...


class PartFolder(Protocol):
    """The folder of a sink; names are relative to it. `str` gives its address."""

    def make(self) -> None:
        """Create the folder durably, if it does not exist."""
        ...

    def names(self) -> list[str]:
        """The names of all files in the folder, sorted; empty if there is no folder."""
        ...

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no such file. The empty name is the folder's."""
        ...

    def touch(self, name: str) -> None:
        """Create an empty file, if there is none."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically. The caller has seen that the new name is free."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        ...

    def sync(self) -> None:
        """Make the names in the folder durable."""
        ...

    def new_part(self, name: PartName, encoder: RecordEncoder) -> PartFile:
        """A new, empty part of that name."""
        ...
