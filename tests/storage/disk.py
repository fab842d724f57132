"""A local disk that fails on demand: calls of this process are counted and refused."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REAL_OPEN, REAL_LINK = os.open, os.link


class Disk:
    """Intercepts the calls of the process on files below a folder, and counts those that change something.

    A successful fsync does nothing: what a test writes need not survive a power failure.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = str(folder)
        self.fault: Callable[[str, str], int | None] = lambda call, path: None
        """(call, path) -> the error number with which it fails; None: it works."""
        self.calls: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self.dead: set[str] = set()
        """Files (not folders) whose fsync has failed, by name: numbers of files are used again."""
        self.synced_after_error: list[str] = []
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(os, "open", self._open)
        monkeypatch.setattr(os, "link", self._link)

    def fail_nth(self, number: int, call: str, code: int = errno.EIO) -> None:
        """Let only the n-th such call fail, counted from now."""
        left = number

        def fault(made: str, path: str) -> int | None:
            nonlocal left
            left -= made == call
            return code if made == call and left == 0 else None

        self.fault = fault

    def _check(self, call: str, path: str) -> None:
        if not path.startswith(self._folder):
            return
        self.calls.append((call, path))
        code = self.fault(call, path)
        if code is not None:
            self.failed.append((call, path))
            raise OSError(code, os.strerror(code), path)

    def _fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if not is_folder and path in self.dead:
            self.synced_after_error.append(path)
        try:
            self._check("fsync folder" if is_folder else "fsync", path)
        except OSError:
            if not is_folder:
                self.dead.add(path)
            raise

    def _open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        if flags & os.O_CREAT:
            self._check("create", os.fspath(path))
        return REAL_OPEN(path, flags, mode, **more)

    def _link(self, source: Any, target: Any, **more: Any) -> None:
        self._check("link", os.fspath(target))
        REAL_LINK(source, target, **more)
