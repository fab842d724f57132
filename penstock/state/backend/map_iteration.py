"""Iteration over a map state of any backend."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.errors import StateAccessError


class Absent:
    """A placeholder for a missing map entry, where None can be a value."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = Absent()


class IterableMap(Protocol):
    """What an iterator needs from a map state."""

    changes: int

    def kept_items(self) -> tuple[Any, list[tuple[Any, Any]]]: ...
    def remove_kept(self, current: Any, key: Any) -> None: ...


class MapIterator(Iterator[Any]):
    """Iterates over a map state. A change by anything but its own `remove` is an error at the next step."""

    __slots__ = ("_changes", "_current", "_items", "_last", "_state", "_view")

    def __init__(self, state: IterableMap, view: Callable[[Any, Any], Any]) -> None:
        self._state = state
        self._view = view
        self._changes = state.changes
        self._last: Any = ABSENT
        self._current, items = state.kept_items()
        self._items = iter(items)

    def __next__(self) -> Any:
        if self._changes != self._state.changes:
            raise _concurrent_modification()
        kept, value = next(self._items)
        self._last = kept
        return self._view(kept, value)

    def remove(self) -> None:
        """Remove the entry that was returned last."""
        if self._last is ABSENT:
            raise StateAccessError("You need to call the '__next__' method before calling this method.")
        if self._changes != self._state.changes:
            raise _concurrent_modification()
        self._state.remove_kept(self._current, self._last)
        self._state.changes += 1
        self._changes = self._state.changes
        self._last = ABSENT


def _concurrent_modification() -> StateAccessError:
    return StateAccessError(
        "Concurrent modification detected. You can not modify the map state when iterating it except using the "
        "'remove' method of this iterator."
    )
