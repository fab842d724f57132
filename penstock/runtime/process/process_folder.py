"""Temporary folders of this process: of its state backends, its sockets, its offset log.

Folders that killed processes left are removed. A process holds a lock in each of its folders as long as it lives. The
folder's name has the process id too, but containers that share a disk do not see each other's processes.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from penstock.runtime.process.watchdog import identity, is_same_process, remove_at_exit

_LOCK = "lock"
_NAME = re.compile(r"penstock-(?:state|tm|driver)-([0-9]+)-([0-9]+\.[0-9]+)-.*")
_locks: dict[Path, int] = {}
"""The open lock file of each folder."""


def make_state_folder(local_dirs: Sequence[str], number: int) -> Path:
    """A new folder in one of the local directories, chosen by `number`, so that processes spread over them."""
    return make_folder("state", Path(local_dirs[number % len(local_dirs)] if local_dirs else tempfile.gettempdir()))


def make_folder(kind: Literal["state", "tm", "driver"], parent: Path) -> Path:
    """A new folder of this process below `parent`, where folders of dead processes are removed."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(parent)
    pid, started = identity(os.getpid())
    made = Path(tempfile.mkdtemp(prefix=f"new-penstock-{kind}-{pid}-{started!r}-", dir=parent))
    lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = made.rename(made.with_name(made.name.removeprefix("new-")))  # so that nobody finds it without its lock
    _locks[folder] = lock
    remove_at_exit(str(folder))
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder of this process that is no longer needed."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of processes that do not exist any more, for example after `kill -9`."""
    for folder in parent.glob("penstock-*-*"):
        name = _NAME.fullmatch(folder.name)
        if name is not None and not is_same_process(int(name[1]), float(name[2])) and not _is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    """Whether a process holds the folder's lock; True if that cannot be found out."""
    try:
        with open(folder / _LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False  # it was being removed when its process ended
    except OSError:
        return True
    return False
