"""Second copies of keyed state on the TaskManager's own disk, read first by a recovery (features K9, X2).

A copy is a cache: it is written after the file is in the checkpoint storage, may be missing, and is used only if its
size and sha256 are those of the manifest. The folder outlives the process, because every attempt starts
new TaskManagers; it is removed with the job, or when nothing was written to it for a long time.

    <dir>/<job id>/3-7-s0-1-9f1c2a0b1c2d        of the file shared/3-7-s0-1-9f1c2a0b1c2d
"""

import logging
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Collection
from pathlib import Path, PurePosixPath

import msgspec

from penstock.checkpoint.file_names import SHARED_FOLDER, FileName, parse_name
from penstock.checkpoint.snapshot.manifest import digest
from penstock.clock import Clock
from penstock.model.ids import HEX_ID, SubtaskId, new_nonce
from penstock.model.snapshot import StateFile

MAX_AGE_S = 7 * 24 * 3600
"""If a job has not added copies for this time, it was abandoned or has moved to another machine."""
_log = logging.getLogger("penstock.local-copies")


class LocalBackup(msgspec.Struct, frozen=True):
    """Which local copies a job writes and reads."""

    write: bool = False
    read: bool = False
    dirs: tuple[str, ...] = ()
    """The folders; empty: a folder of the user in the system's temporary folder."""


class RestoreFigures(msgspec.Struct, frozen=True):
    """Where the restored files of keyed state were read from."""

    local_files: int = 0
    local_bytes: int = 0
    primary_files: int = 0
    primary_bytes: int = 0

    def __add__(self, other: "RestoreFigures") -> "RestoreFigures":
        return RestoreFigures(*(mine + theirs for mine, theirs in zip(_figures(self), _figures(other), strict=True)))

    def __str__(self) -> str:
        if not self.local_files and not self.primary_files:
            return "no files of keyed state (a small state is in the metadata)"
        return (
            f"{self.local_files} files ({self.local_bytes} bytes) from local copies, "
            f"{self.primary_files} files ({self.primary_bytes} bytes) from the checkpoint storage"
        )


class LocalCopies:
    """The copies of one job on this machine. Thread-safe. A failure only means that there is no copy."""

    def __init__(self, settings: LocalBackup, job_id: str, clock: Clock) -> None:
        self._settings = settings
        roots = [Path(folder) for folder in settings.dirs] or [_own_folder(Path(tempfile.gettempdir()))]
        self._folders = [root / job_id for root in roots]
        self._is_usable = settings.write or settings.read
        self._lock = threading.Lock()
        if self._is_usable:
            self._prepare(clock.now_ms() / 1000 - MAX_AGE_S)

    def keep(self, path: str, data: bytes) -> None:
        """Write a copy of a file that is in the checkpoint storage."""
        if not (self._is_usable and self._settings.write):
            return
        target = self._place(path)
        temporary = target.with_name(f"{target.name}~{new_nonce()}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
            temporary.rename(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            _log.warning("no local copy of %r: %s", path, error)

    def read(self, file: StateFile) -> bytes | None:
        """The file's bytes, verified against the manifest; None if there is no such copy or it differs."""
        if not (self._is_usable and self._settings.read):
            return None
        try:
            descriptor = os.open(self._place(file.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as opened:
                data = opened.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("the local copy of %r cannot be read: %s", file.path, error)
            return None
        if len(data) != file.size or digest(data) != file.sha256:
            _log.warning("the local copy of %r is damaged; it is read from the checkpoint storage", file.path)
            return None
        return data

    def confirm(self, subtask: SubtaskId, parallelism: int, newer: tuple[int, int], needed: Collection[str]) -> None:
        """Remove copies that a completed checkpoint does not need, of this subtask and of former subtasks.

        `newer`: this attempt and the checkpoint. Copies that the attempt has made for later checkpoints stay.
        """
        names = {PurePosixPath(path).name for path in needed}
        with self._lock:
            for folder in self._folders if self._is_usable else []:
                for entry in _entries(folder):
                    name = parse_name(SHARED_FOLDER + entry.name)
                    if name is not None and entry.name not in names and _is_old(name, subtask, parallelism, newer):
                        _unlink(entry)

    def remove(self) -> None:
        """Remove all copies, because the job has ended."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _place(self, path: str) -> Path:
        """The path of a copy, by the name alone, so that any process finds it. Subtasks use the folders in turn."""
        name = parse_name(path)
        index = name.subtask.index if name is not None and name.subtask is not None else 0
        return self._folders[index % len(self._folders)] / PurePosixPath(path).name

    def _prepare(self, oldest_s: float) -> None:
        try:
            for folder in self._folders:
                if not self._settings.dirs:
                    _make_private(folder.parent)
                folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _make_private(folder)
                _remove_old(folder.parent, folder.name, oldest_s)
        except OSError as error:
            self._is_usable = False
            _log.warning("no local copies: %s", error)


def _is_old(name: FileName, subtask: SubtaskId, parallelism: int, newer: tuple[int, int]) -> bool:
    if name.subtask is None or name.attempt is None or name.subtask.stage != subtask.stage:
        return False
    attempt, checkpoint = newer
    is_pending = name.attempt > attempt or (name.attempt == attempt and name.number > checkpoint)
    return not is_pending and (name.subtask == subtask or name.subtask.index >= parallelism)


def _own_folder(parent: Path) -> Path:
    return parent / f"penstock-local-{os.geteuid()}"


def _make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter. Raises OSError if it belongs to somebody else."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{str(folder)!r} is not a private folder of this user")


def _remove_old(root: Path, own: str, oldest_s: float) -> None:
    """Remove the copies of jobs that have not run here since then."""
    for entry in _entries(root):
        if HEX_ID.fullmatch(entry.name) and entry.name != own:
            try:
                is_old = entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < oldest_s
            except OSError:
                continue  # another process removes it
            if is_old:
                shutil.rmtree(entry.path, ignore_errors=True)


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _unlink(entry: "os.DirEntry[str]") -> None:
    try:
        os.unlink(entry.path)
    except OSError:
        return


def _figures(figures: RestoreFigures) -> tuple[int, ...]:
    return tuple(getattr(figures, name) for name in figures.__struct_fields__)
