"""State handles on live tables: what user functions read and write, always for the current key.

A handle works on its table's dictionaries directly. The first change of an entry in an epoch saves the old value in
`undo`, and does so before the entry is changed: queries on other threads rely on this order (`live_entries`). Every
other access is one or two dictionary operations. Values are checked and converted to their stored
form when they are written, and copied when they are read if they are mutable, so that no stored object is reachable
from user code (PROTOCOL R10). Without a current key, hashing the key raises StateAccessError.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from penstock.errors import UnsupportedValueError
from penstock.model.state import ListState, MapState, ValueState
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.map_iteration import ABSENT, MapIterator
from penstock.state.backend.map_keys import MapKeys
from penstock.state.backend.value_guard import Guard
from penstock.state.heap.heap_tables import ListTable, MapTable, ValueTable


class HeapValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("_current", "_get", "_live", "_load", "_plain", "_store", "_undo")

    def __init__(self, current: CurrentKey, table: ValueTable, guard: Guard) -> None:
        self._current = current
        self._live, self._undo, self._get = table.live, table.undo, table.live.get
        self._plain, self._store, self._load = guard.plain, guard.store, guard.load

    def value(self) -> Any:
        """The value, or None."""
        if self._load is None:
            return self._get(self._current.key)
        value = self._get(self._current.key)
        return None if value is None else self._load(value)

    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        if type(value) not in self._plain:
            if value is None:
                self.clear()
                return
            value = self._store(value)
        key = self._current.key
        if key not in self._undo:
            self._undo[key] = self._get(key)
        self._live[key] = value

    def clear(self) -> None:
        """Remove the value."""
        key = self._current.key
        if key in self._live:
            self._undo.setdefault(key, self._live[key])
            del self._live[key]


class HeapListState(ListState[Any]):
    """A list per key."""

    __slots__ = ("_current", "_live", "_load", "_plain", "_store", "_table", "_undo")

    def __init__(self, current: CurrentKey, table: ListTable, guard: Guard) -> None:
        self._current = current
        self._table = table
        self._live, self._undo = table.live, table.undo
        self._plain, self._store, self._load = guard.plain, guard.store, guard.load

    def get(self) -> list[Any]:
        """The elements, in the order they were added, as a new list."""
        elements = self._live.get(self._current.key)
        if elements is None:
            return []
        return elements.copy() if self._load is None else list(map(self._load, elements))

    def add(self, value: Any) -> None:
        """Add one element at the end."""
        if type(value) not in self._plain:
            value = self._stored(value)
        key = self._current.key
        elements = self._live.get(key)
        if elements is None or key not in self._undo:
            elements = self._table.open(key)
        elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Add several elements at the end; all or none."""
        added = self._all_stored(values)
        if added:
            self._table.open(self._current.key).extend(added)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        self._table.replace(self._current.key, self._all_stored(values))

    def clear(self) -> None:
        """Remove all elements."""
        self._table.replace(self._current.key, [])

    def _stored(self, value: Any) -> Any:
        if value is None:
            raise UnsupportedValueError("You cannot add null to a ListState.")
        return self._store(value)

    def _all_stored(self, values: Iterable[Any]) -> list[Any]:
        if values is None:
            raise UnsupportedValueError("List of values to add cannot be null.")
        if isinstance(values, np.ndarray):
            values = values.tolist()  # plain numbers take the fast path
        return [value if type(value) in self._plain else self._stored(value) for value in values]


class HeapMapState(MapState[Any, Any]):
    """A dictionary per key. The order of its keys is not kept by a restore, and there is no size()."""

    __slots__ = (
        "_current", "_exact_key", "_live", "_load", "_plain", "_store", "_table", "_to_kept", "_to_user", "_undo",
        "changes",
    )  # fmt: skip

    def __init__(self, current: CurrentKey, table: MapTable, keys: MapKeys, guard: Guard) -> None:
        self._current = current
        self._table = table
        self._live, self._undo = table.live, table.undo
        self._exact_key, self._to_kept, self._to_user = keys.plain, keys.to_kept, keys.to_user
        self._plain, self._store, self._load = guard.plain, guard.store, guard.load
        self.changes = 0
        """Incremented by every change, so that iterators detect it."""

    def get(self, key: Any) -> Any:
        """The value of a map key; None when it is absent."""
        if type(key) not in self._exact_key:
            key = self._to_kept(key)
        entries = self._live.get(self._current.key)
        if entries is None:
            return None
        value = entries.get(key)
        return value if self._load is None or value is None else self._load(value)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a map key. None is a value too."""
        if type(key) not in self._exact_key:
            key = self._to_kept(key)
        if type(value) not in self._plain and value is not None:
            value = self._store(value)
        current = self._current.key
        undo = self._undo.get(current)
        if undo is None:
            undo = self._table.open(current)
        entries = self._live.get(current)
        if entries is None:
            entries = self._live[current] = {}
        if key not in undo:
            undo[key] = entries.get(key, ABSENT)
        entries[key] = value
        self.changes += 1

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of several map keys; all or none."""
        exact, plain = self._exact_key, self._plain
        stored = {}
        for key, value in dict_value.items():
            kept = key if type(key) in exact else self._to_kept(key)
            stored[kept] = value if type(value) in plain or value is None else self._store(value)
        current = self._current.key
        if not stored:
            return
        undo = self._undo.get(current)
        if undo is None:
            undo = self._table.open(current)
        entries = self._live.setdefault(current, {})
        for key in stored:
            if key not in undo:
                undo[key] = entries.get(key, ABSENT)
        entries.update(stored)
        self.changes += 1

    def remove(self, key: Any) -> None:
        """Remove a map key if it exists."""
        self.changes += 1
        self.remove_kept(self._current.key, key if type(key) in self._exact_key else self._to_kept(key))

    def remove_kept(self, current: Any, key: Any) -> None:
        """Remove a stored map key of a state key."""
        if key not in self._live.get(current, ()):
            return
        undo = self._undo.get(current)
        if undo is None:
            undo = self._table.open(current)
        entries = self._live[current]
        undo.setdefault(key, entries[key])
        del entries[key]
        if not entries:
            del self._live[current]

    def contains(self, key: Any) -> bool:
        """Whether the map key exists."""
        return (key if type(key) in self._exact_key else self._to_kept(key)) in self._live.get(self._current.key, ())

    def items(self) -> MapIterator:
        """All (map key, value) pairs."""
        return MapIterator(self, self._item)

    def keys(self) -> MapIterator:
        """All map keys."""
        return MapIterator(self, self._user_key)

    def values(self) -> MapIterator:
        """All values."""
        return MapIterator(self, self._user_value)

    def is_empty(self) -> bool:
        """Whether the map has no keys."""
        return self._current.key not in self._live

    def clear(self) -> None:
        """Remove all map keys."""
        self.changes += 1
        self._table.clear(self._current.key)

    def kept_items(self) -> tuple[Any, list[tuple[Any, Any]]]:
        """The current state key, and its stored map keys with their values."""
        current = self._current.key
        entries = self._live.get(current)
        return current, [] if entries is None else list(entries.items())

    def _item(self, kept: Any, value: Any) -> tuple[Any, Any]:
        return self._user_key(kept, value), self._user_value(kept, value)

    def _user_key(self, kept: Any, value: Any) -> Any:
        return kept if self._to_user is None else self._to_user(kept)

    def _user_value(self, kept: Any, value: Any) -> Any:
        return value if self._load is None or value is None else self._load(value)
