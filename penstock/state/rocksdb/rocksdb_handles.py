"""Values and lists in RocksDB: what user functions read and write, always for the current key.

Values are checked and converted when they are written, as in the HashMap backend. When they are read, they are copied
only if they come from the running epoch: values from RocksDB are decoded for the caller.
"""

from collections.abc import Iterable
from typing import Any

from penstock.model.state import ListState, ValueState
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.map_iteration import ABSENT
from penstock.state.backend.value_guard import Guard
from penstock.state.rocksdb.rocksdb_tables import RocksListTable, RocksValueTable


class RocksValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("_current", "_delta", "_guard", "_load")

    def __init__(self, current: CurrentKey, table: RocksValueTable, guard: Guard) -> None:
        self._current = current
        self._delta, self._load, self._guard = table.delta, table.load, guard

    def value(self) -> Any:
        """The value, or None."""
        key = self._current.key
        value = self._delta.get(key, ABSENT)
        if value is ABSENT:
            return self._load(key)
        return value if value is None or self._guard.load is None else self._guard.load(value)

    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        if value is not None and type(value) not in self._guard.plain:
            value = self._guard.store(value)
        self._delta[self._current.key] = value

    def clear(self) -> None:
        """Remove the value."""
        self._delta[self._current.key] = None


class RocksListState(ListState[Any]):
    """A list per key. Adding elements reads nothing."""

    __slots__ = ("_current", "_guard", "_table")

    def __init__(self, current: CurrentKey, table: RocksListTable, guard: Guard) -> None:
        self._current = current
        self._table, self._guard = table, guard

    def get(self) -> list[Any]:
        """The elements, in the order they were added, as a new list."""
        key = self._current.key
        delta = self._table.delta.get(key)
        if delta is None:
            return self._table.load(key)
        load = self._guard.load
        added = delta.elements.copy() if load is None else list(map(load, delta.elements))
        return added if delta.replaced else [*self._table.load(key), *added]

    def add(self, value: Any) -> None:
        """Add one element at the end."""
        stored = self._guard.element(value)
        self._table.open(self._current.key).elements.append(stored)

    def add_all(self, values: Iterable[Any]) -> None:
        """Add several elements at the end; all or none."""
        added = self._guard.elements(values)
        if added:
            self._table.open(self._current.key).elements.extend(added)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        stored = self._guard.elements(values)
        delta = self._table.open(self._current.key)
        delta.replaced, delta.elements = True, stored

    def clear(self) -> None:
        """Remove all elements."""
        self.update(())
