"""The folder of a harness, in which backends keep files."""

import os
import shutil
import tempfile
from pathlib import Path

from penstock.state.backend.keyed_backend import KeyedBackend


def fast_folder() -> Path:
    """In memory where the system has such a folder: what a test writes need not survive anything."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def close_backends(backends: list[KeyedBackend]) -> None:
    """Close all backends and forget them."""
    while backends:
        backends.pop().close()


def remove_folder(backends: list[KeyedBackend], folder: Path) -> None:
    """First the files are closed: RocksDB waits long for a folder that has gone."""
    close_backends(backends)
    shutil.rmtree(folder, ignore_errors=True)
