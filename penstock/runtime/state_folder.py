"""A folder of this process for what backends keep on disk. What killed processes left is removed."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from penstock.runtime.watchdog import identity, is_same_process, remove_at_exit
from penstock.state.backend.settings import BackendSettings

_NAME = re.compile(r"penstock-state-([0-9]+)-([0-9]+\.[0-9]+)-.*")


def make_state_folder(settings: BackendSettings, number: int) -> Path:
    """A new folder in one of the local directories: processes with other numbers take the others in turn."""
    parent = Path(settings.local_dirs[number % len(settings.local_dirs)] if settings.local_dirs else "")
    if not settings.local_dirs:
        parent = Path(tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(parent)
    pid, started = identity(os.getpid())
    folder = tempfile.mkdtemp(prefix=f"penstock-state-{pid}-{started!r}-", dir=parent)
    remove_at_exit(folder)
    return Path(folder)


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of processes that are no more: after `kill -9` nobody else does."""
    for folder in parent.glob("penstock-state-*"):
        name = _NAME.fullmatch(folder.name)
        if name is not None and not is_same_process(int(name[1]), float(name[2])):
            shutil.rmtree(folder, ignore_errors=True)
