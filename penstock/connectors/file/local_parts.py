"""Files of a sink in a local folder: appending, truncating, and making bytes and names durable.

Every OSError becomes a StorageError. After a failed fsync the kernel may have dropped the pages and cleared the error,
so that a second fsync would succeed wrongly: the file is dead from then on, and its rows must come from elsewhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.connectors.file.file_formats import RecordEncoder
from penstock.connectors.file.part_names import IN_PROGRESS, PENDING, PartName
from penstock.errors import StorageError

FLUSH_BYTES = 1 << 20


class AppendFile:
    """A file that one writer appends to and can truncate. Small writes are buffered."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        """Create the file or, with `resume`, open one that this writer has closed."""
        self.path = path
        self.dead = False
        self._waiting = bytearray()
        with translated("open", path):
            self._descriptor = os.open(path, os.O_WRONLY if resume else os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._flushed = os.fstat(self._descriptor).st_size

    @property
    def size(self) -> int:
        """The number of bytes, including buffered ones."""
        return self._flushed + len(self._waiting)

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        self._waiting += data
        if len(self._waiting) >= FLUSH_BYTES:
            self._flush()

    def truncate(self, size: int) -> None:
        """Keep only the first `size` bytes."""
        if size >= self._flushed:
            del self._waiting[size - self._flushed :]
            return
        self._waiting.clear()
        with translated("truncate", self.path):
            os.ftruncate(self._descriptor, size)
        self._flushed = size

    def sync(self) -> None:
        """Make every byte durable. A failure is final: the file is `dead`."""
        if self.dead:
            raise StorageError(f"{str(self.path)!r} is not usable: an earlier fsync of it failed")
        self._flush()
        try:
            sync_descriptor(self._descriptor, self.path)
        except StorageError:
            self.dead = True
            raise

    def close(self) -> None:
        """Close the file. Bytes that were not synced may be lost."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with translated("close", self.path):
                os.close(descriptor)

    def _flush(self) -> None:
        # Each piece is counted as soon as it is written, so that `truncate` is right after a full disk.
        with translated("write", self.path):
            while self._waiting:
                written = os.pwrite(self._descriptor, self._waiting, self._flushed)
                self._flushed += written
                del self._waiting[:written]


class LocalPartFolder:
    """One local folder; names are relative to it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __str__(self) -> str:
        return str(self._path)

    def path(self, name: str) -> Path:
        """The path of a file."""
        return self._path / name

    def make(self) -> None:
        """Create the folder durably, if it does not exist."""
        missing = [folder for folder in (self._path, *self._path.parents) if not folder.exists()]
        with translated("create the folder", self._path):
            self._path.mkdir(parents=True, exist_ok=True)
        for folder in reversed(missing):
            sync_folder(folder.parent)

    def names(self) -> list[str]:
        """The names of all files in the folder, sorted; empty if there is no folder."""
        with translated("list", self._path):
            try:
                return sorted(os.listdir(self._path))
            except FileNotFoundError:
                return []

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no such file."""
        with translated("stat", self.path(name)):
            try:
                return os.lstat(self.path(name)).st_size
            except FileNotFoundError:
                return None

    def touch(self, name: str) -> None:
        """Create an empty file, if there is none."""
        with translated("create", self.path(name)):
            os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o666))

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically. The caller knows that the new name is free."""
        with translated("rename", self.path(old)):
            os.rename(self.path(old), self.path(new))

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        with translated("delete", self.path(name)):
            self.path(name).unlink(missing_ok=True)

    def sync(self) -> None:
        """Make the names in the folder durable."""
        sync_folder(self._path)

    def new_part(self, name: PartName, encoder: RecordEncoder) -> "LocalPart":
        """A new, empty part of that name."""
        return LocalPart(self, name, encoder)


class LocalPart:
    """A part file in the sink's folder; a converted format has a second file when it is pending."""

    def __init__(self, folder: LocalPartFolder, name: PartName, encoder: RecordEncoder) -> None:
        self._folder = folder
        self._name = name
        self._encoder = encoder
        self._ended = False
        self._pending = False
        self._file = AppendFile(folder.path(name.hidden(IN_PROGRESS)))

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def dead(self) -> bool:
        return self._file.dead

    def append(self, data: bytes) -> None:
        self._file.append(data)

    def truncate(self, size: int) -> None:
        if self._ended:
            self._file = AppendFile(self._folder.path(self._name.hidden(IN_PROGRESS)), resume=True)
            self._ended = False
        self._file.truncate(size)

    def end(self) -> None:
        """Make the rows durable and close the file."""
        if not self._ended:
            self._file.sync()
            self._file.close()
            self._ended = True

    def prepare(self) -> int:
        self.end()
        self._pending = True
        if self._encoder.convert is None:
            self._folder.rename(self._name.hidden(IN_PROGRESS), self._name.hidden(PENDING))
            return self.size
        spool, path = (self._folder.path(self._name.hidden(state)) for state in (IN_PROGRESS, PENDING))
        with translated("convert", spool), spool.open("rb") as source, path.open("xb") as target:
            self._encoder.convert(source, target)
            target.flush()
            sync_descriptor(target.fileno(), path)
            return target.tell()

    def leave_pending(self, name: PartName) -> PartName:
        if not self._pending:
            return self._name
        progress = name.hidden(IN_PROGRESS)
        if self._encoder.convert is None:
            self._folder.rename(self._name.hidden(PENDING), progress)
        else:
            self._folder.remove(self._name.hidden(PENDING))
            self._folder.rename(self._name.hidden(IN_PROGRESS), progress)
        self._name, self._pending = name, False
        return name

    def keep_pending(self) -> None:
        self._folder.remove(self._name.hidden(IN_PROGRESS))

    def discard(self) -> None:
        self._file.close()
        self._folder.remove(self._name.hidden(IN_PROGRESS))
        self._folder.remove(self._name.hidden(PENDING))


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    with translated("open the folder", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_descriptor(descriptor, path)
    finally:
        os.close(descriptor)


def sync_descriptor(descriptor: int, path: Path) -> None:
    """Make an open file durable; after a failure there must be no second try on this file."""
    with translated("fsync", path):
        os.fsync(descriptor)


@contextmanager
def translated(action: str, path: Path | str) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the action and the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {action} {str(path)!r}: {error.strerror or error}") from error
