"""All checks in one list."""

from collections.abc import Callable

from penstock.testing.conformance_state import (
    collections,
    epochs,
    evolution,
    many_keys,
    namespaces,
    queries,
    snapshots,
    values,
)
from penstock.testing.conformance_state.tools import NewBackend

CHECKS: list[Callable[[NewBackend], None]] = [
    check
    for module in (values, collections, epochs, snapshots, evolution, many_keys, namespaces, queries)
    for name, check in vars(module).items()
    if getattr(check, "__module__", None) == module.__name__ and not name.startswith("_") and callable(check)
]
"""All checks of the suite."""
