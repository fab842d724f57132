"""Files in a folder of a POSIX file system, durable when `put_new` returns (PROTOCOL R1).

A file appears under its name complete or not at all: it is written and fsynced under a temporary name, then linked,
which fails if the name is taken, then the folder is fsynced. A crash leaves a temporary file, `<name>~<random>`, which
`list` shows, so that garbage collection finds it by its name.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from penstock import failpoint
from penstock.errors import (
    FileMissingError,
    NameTakenError,
    NotDurableError,
    PathOutsideError,
    StorageError,
    UnknownOutcomeError,
)
from penstock.model.ids import new_nonce
from penstock.storage.paths import TEMPORARY_MARK, Paths, confine, confine_new

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE_TRIES = 5
_NUMBERED = re.compile(r".*-\d+")


class LocalStorage:
    """The files below one folder, which is created if needed. Any number of processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        _make_root(self.root)
        self._real_root = os.path.realpath(self.root)
        self._durable_folders: set[Path] = set()
        self._lost_folders: set[Path] = set()
        """Folders whose own names may not survive a power failure: nothing more is written into them."""

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def put_new(self, path: str, data: bytes) -> None:
        """Write a new file: temporary file, fsync, link, fsync of the folder (PROTOCOL R1)."""
        target = self._target(confine_new(path))
        self._require_durable_folders(target, path)
        failpoint.before("C13")
        descriptor, temporary = self._create_temporary(target)
        try:
            _write_durably(descriptor, data)
        except OSError as error:
            # After a failed fsync the pages count as clean: this file is lost, and a retry uses a new one.
            _remove(temporary)
            raise StorageError(f"cannot write {path!r} in {self.uri}: {error}") from error
        failpoint.before("C15")
        self._link(temporary, target, path)
        failpoint.after("C15")
        _remove(temporary)
        self._make_durable(target.parent, path)

    def read(self, path: str) -> bytes:
        try:
            descriptor = os.open(self._target(confine(path)), _READ)
            with open(descriptor, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileMissingError(f"there is no file {path!r} in {self.uri}") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise PathOutsideError(f"{path!r} in {self.uri} is a symbolic link, which is not followed") from error
            raise StorageError(f"cannot read {path!r} in {self.uri}: {error}") from error

    def list(self, prefix: str) -> Paths:
        try:
            return sorted(_walk(self.root, "", prefix))
        except OSError as error:
            raise StorageError(f"cannot list {prefix!r} in {self.uri}: {error}") from error

    def folders(self) -> Paths:
        try:
            return sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            raise StorageError(f"cannot list {self.uri}: {error}") from error

    def delete(self, path: str) -> None:
        target = self._target(confine(path))
        try:
            target.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise StorageError(f"cannot delete {path!r} in {self.uri}: {error}") from error
        # A numbered folder (chk-7) is never used again, so it is removed with its last file. Other folders stay.
        if target.parent != self.root and _NUMBERED.fullmatch(target.parent.name):
            self._durable_folders.discard(target.parent)
            remove_if_empty(target.parent)

    def size(self, path: str) -> int:
        try:
            found = os.stat(self._target(confine(path)), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileMissingError(f"there is no file {path!r} in {self.uri}") from error
        except OSError as error:
            raise StorageError(f"cannot stat {path!r} in {self.uri}: {error}") from error
        if stat.S_ISLNK(found.st_mode):
            raise PathOutsideError(f"{path!r} in {self.uri} is a symbolic link, which is not followed")
        if not stat.S_ISREG(found.st_mode):
            raise FileMissingError(f"{path!r} in {self.uri} is not a file")
        return found.st_size

    def _target(self, path: str) -> Path:
        target = self.root / path
        folder = os.path.realpath(target.parent)
        if os.path.commonpath((folder, self._real_root)) != self._real_root:
            raise PathOutsideError(f"path {path!r} leads out of {self.uri} through a symbolic link")
        return target

    def _create_temporary(self, target: Path) -> tuple[int, Path]:
        """A new empty file beside the target. Tries again if the folder vanishes with its last file meanwhile."""
        for _ in range(_CREATE_TRIES):
            temporary = target.with_name(f"{target.name}{TEMPORARY_MARK}{new_nonce()}")
            try:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                return os.open(temporary, _CREATE, 0o600), temporary
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageError(f"cannot create {target.name!r} in {self.uri}: {error}") from error
        raise StorageError(f"cannot create {target.name!r} in {self.uri}: its folder vanished {_CREATE_TRIES} times")

    def _link(self, temporary: Path, target: Path, path: str) -> None:
        """Give the file its name; NameTakenError if it is taken. On NFS the link count reveals a lost reply."""
        try:
            os.link(temporary, target, follow_symlinks=False)
        except OSError as error:
            if _link_count(temporary, path) == 2:
                return
            _remove(temporary)
            if error.errno == errno.EEXIST:
                # A writer that finds its own file here continues as if it had just written it: make it durable.
                self._make_durable(target.parent, path)
                raise NameTakenError(f"{path!r} exists already in {self.uri}") from error
            raise StorageError(f"cannot link {path!r} in {self.uri}: {error}") from error

    def _make_durable(self, folder: Path, path: str) -> None:
        """Fsync the folder, and its parents up to the root unless that was done before."""
        doubtful: set[Path] = set()
        try:
            _fsync_folder(folder)
            for parent in _up_to(folder, self.root):
                if parent not in self._durable_folders:
                    doubtful = {parent}
                    _fsync_folder(parent.parent)
                    self._durable_folders.add(parent)
        except OSError as error:
            self._lost_folders |= doubtful
            raise NotDurableError(f"{path!r} may not be durable in {self.uri}: {error}") from error

    def _require_durable_folders(self, target: Path, path: str) -> None:
        lost = self._lost_folders.intersection(_up_to(target.parent, self.root))
        if lost:
            raise StorageError(
                f"cannot write {path!r} in {self.uri}: an fsync of the folder above {min(lost).name!r} failed, so that "
                f"the folder may not survive a power failure; check the disk, then start the job again"
            )


def _write_durably(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        failpoint.after("C13")
        failpoint.before("C14")
        os.fsync(file.fileno())
    failpoint.after("C14")


def _link_count(temporary: Path, path: str) -> int:
    try:
        return os.stat(temporary, follow_symlinks=False).st_nlink
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise UnknownOutcomeError(f"cannot tell whether {path!r} was linked: {error}") from error


def _make_root(root: Path) -> None:
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            try:
                _fsync_folder(folder.parent)
            except OSError:
                remove_if_empty(folder)  # the next try creates it again; this entry may be lost
                raise
    except OSError as error:
        raise StorageError(f"cannot create the folder {str(root)!r}: {error}") from error
    if not root.is_dir():
        raise StorageError(f"{str(root)!r} is not a folder")


def _up_to(folder: Path, root: Path) -> Iterator[Path]:
    while folder != root:
        yield folder
        folder = folder.parent


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_empty_folders(folder: Path) -> None:
    """Remove the folder and its subfolders, the innermost first; folders with files stay."""
    for place, _, _ in os.walk(folder, topdown=False, followlinks=False):
        remove_if_empty(Path(place))


def _remove(temporary: Path) -> None:
    """Delete a temporary file if possible; one that stays is swept by its name."""
    try:
        temporary.unlink(missing_ok=True)
    except OSError:
        return


def remove_if_empty(folder: Path) -> None:
    """Remove a folder. One that has something in it, or does not exist, stays as it is."""
    try:
        folder.rmdir()
    except OSError:
        return


def _walk(folder: Path, below: str, prefix: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        path = below + entry.name
        if entry.is_dir(follow_symlinks=False):
            inner = path + "/"
            if inner.startswith(prefix) or prefix.startswith(inner):
                yield from _walk(Path(entry.path), inner, prefix)
        elif path.startswith(prefix) and entry.is_file(follow_symlinks=False):
            yield path
