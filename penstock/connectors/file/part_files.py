"""Files of a sink in a local folder: appending with a way back, and what makes bytes and names durable.

This is the only module of the file sink that touches the disk; another kind of storage would be a second PartFolder.
Every OSError leaves it as a StorageError. After a failed fsync the kernel may have dropped the pages and forgotten the
failure, so that a second fsync would lie: the file is dead from then on, and what it held must come from elsewhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StorageError

FLUSH_BYTES = 1 << 20


class AppendFile:
    """A file that one writer appends to and can cut back. Bytes wait in memory until there are enough of them."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        """Open a file: a new name, or, to `resume`, one that this writer has closed."""
        self.path = path
        self.dead = False
        self._waiting = bytearray()
        with translated("open", path):
            self._descriptor = os.open(path, os.O_WRONLY if resume else os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._flushed = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        """Bytes appended and not cut off."""
        return self._flushed + len(self._waiting)

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        self._waiting += data
        if len(self._waiting) >= FLUSH_BYTES:
            self._flush()

    def cut(self, size: int) -> None:
        """Forget every byte after the first `size`."""
        if size >= self._flushed:
            del self._waiting[size - self._flushed :]
            return
        self._waiting.clear()
        with translated("truncate", self.path):
            os.ftruncate(self._descriptor, size)
        self._flushed = size

    def sync(self) -> None:
        """Put every byte on the disk. A failure is final: the file is `dead`."""
        if self.dead:
            raise StorageError(f"{str(self.path)!r} is not usable: an earlier fsync of it failed")
        self._flush()
        try:
            sync_descriptor(self._descriptor, self.path)
        except StorageError:
            self.dead = True
            raise

    def close(self) -> None:
        """Let go of the file. Bytes that were not synced may be lost."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with translated("close", self.path):
                os.close(descriptor)

    def _flush(self) -> None:
        # Each piece that the disk took is counted at once, so that `cut` is right after a disk that was full.
        with translated("write", self.path):
            while self._waiting:
                written = os.pwrite(self._descriptor, self._waiting, self._flushed)
                self._flushed += written
                del self._waiting[:written]


class PartFolder:
    """One local folder, by names relative to it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __str__(self) -> str:
        return str(self._path)

    def path(self, name: str) -> Path:
        """Where a file of that name is."""
        return self._path / name

    def make(self) -> None:
        """Make sure that the folder exists, also after a power failure."""
        missing = [folder for folder in (self._path, *self._path.parents) if not folder.exists()]
        with translated("create the folder", self._path):
            self._path.mkdir(parents=True, exist_ok=True)
        for folder in reversed(missing):
            sync_folder(folder.parent)

    def names(self) -> list[str]:
        """The names of all files in the folder, sorted; none if there is no folder."""
        with translated("list", self._path):
            try:
                return sorted(os.listdir(self._path))
            except FileNotFoundError:
                return []

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no such file."""
        with translated("look at", self.path(name)):
            try:
                return os.lstat(self.path(name)).st_size
            except FileNotFoundError:
                return None

    def touch(self, name: str) -> None:
        """Make an empty file, if it is not there yet."""
        with translated("create", self.path(name)):
            os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o666))

    def rename(self, old: str, new: str) -> None:
        """Give a file its next name, in one step. The caller knows that the new name is free."""
        with translated("rename", self.path(old)):
            os.rename(self.path(old), self.path(new))

    def remove(self, name: str) -> None:
        """Delete a file; one that is gone already is fine."""
        with translated("delete", self.path(name)):
            self.path(name).unlink(missing_ok=True)

    def sync(self) -> None:
        """Make the names in the folder durable."""
        sync_folder(self._path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    with translated("open the folder", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_descriptor(descriptor, path)
    finally:
        os.close(descriptor)


def sync_descriptor(descriptor: int, path: Path) -> None:
    """Make an open file durable; a failure must not be tried again on the same file."""
    with translated("fsync", path):
        os.fsync(descriptor)


@contextmanager
def translated(action: str, path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a StorageError that names the step and the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {action} {str(path)!r}: {error.strerror or error}") from error
