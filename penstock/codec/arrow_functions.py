"""The functions of `pyarrow.compute`, imported at first use.

The import takes longer than the rest of a command that looks into a snapshot. TaskManagers import it when they start.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """A function of `pyarrow.compute`."""
    return getattr(import_module("pyarrow.compute"), name)
