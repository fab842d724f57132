"""Stateful stream processing in Python on Spark."""

import penstock.import_interrupts  # noqa: F401 - first of all modules, for its effect

__version__ = "0.1.0"

__all__ = ["__version__"]
