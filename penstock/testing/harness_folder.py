"""What the processes of a harness leave behind: their threads, and the folder in which backends keep files."""

import os
import shutil
import tempfile
from pathlib import Path

from penstock.runtime.task import Subtask


def fast_folder() -> Path:
    """In memory where the system has such a folder: what a test writes need not survive anything."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def close_processes(subtasks: list[Subtask]) -> None:
    """End the threads of lost subtasks, close their backends, and forget them."""
    while subtasks:
        subtask = subtasks.pop()
        subtask.abandon()
        for backend in subtask.backends.values():
            backend.close()


def remove_folder(subtasks: list[Subtask], folder: Path) -> None:
    """First the files are closed: RocksDB waits long for a folder that has gone."""
    close_processes(subtasks)
    shutil.rmtree(folder, ignore_errors=True)
