"""State handles on RocksDB tables: what user functions read and write, always for the current key.

Values are checked and put in their stored form on the way in, as on the HashMap backend. On the way out they are copied
only where they come from the running epoch: what RocksDB gives is the caller's own.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.model.state import ListState, MapState, ValueState
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.map_keys import MapKeys
from penstock.state.backend.value_guard import Guard
from penstock.state.heap.heap_handles import MapIterator
from penstock.state.heap.heap_tables import ABSENT
from penstock.state.rocksdb.rocksdb_tables import RocksListTable, RocksMapTable, RocksValueTable


class RocksValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("_current", "_delta", "_guard", "_load")

    def __init__(self, current: CurrentKey, table: RocksValueTable, guard: Guard) -> None:
        self._current = current
        self._delta, self._load, self._guard = table.delta, table.load, guard

    def value(self) -> Any:
        """The value; None when there is none."""
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
        """Forget the value."""
        self._delta[self._current.key] = None


class RocksListState(ListState[Any]):
    """A list per key. Adding reads nothing."""

    __slots__ = ("_current", "_guard", "_table")

    def __init__(self, current: CurrentKey, table: RocksListTable, guard: Guard) -> None:
        self._current = current
        self._table, self._guard = table, guard

    def get(self) -> list[Any]:
        """The elements, in the order they were added, as a list of the caller's own."""
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
        """Add several elements at the end; if one of them does not fit, none is added."""
        added = self._guard.elements(values)
        if added:
            self._table.open(self._current.key).elements.extend(added)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; without any the state is cleared."""
        stored = self._guard.elements(values)
        delta = self._table.open(self._current.key)
        delta.replaced, delta.elements = True, stored

    def clear(self) -> None:
        """Forget all elements."""
        self.update(())


class RocksMapState(MapState[Any, Any]):
    """A dictionary per key, each map key a row of its own. There is no order among them, and no size()."""

    __slots__ = ("_current", "_guard", "_keys", "_table", "changes")

    def __init__(self, current: CurrentKey, table: RocksMapTable, keys: MapKeys, guard: Guard) -> None:
        self._current = current
        self._table, self._keys, self._guard = table, keys, guard
        self.changes = 0
        """Grows with every change, so that iterators notice one."""

    def get(self, key: Any) -> Any:
        """The value of a map key; None when it is absent."""
        kept, current = self._kept(key), self._current.key
        value = self._table.get(current, kept)
        return None if value is ABSENT else self._user_value(kept, value)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a map key. None is a value too."""
        kept, stored = self._kept(key), self._stored(value)
        self._table.open(self._current.key).entries[kept] = stored
        self.changes += 1

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of several map keys; if one of them does not fit, none is set."""
        stored = {self._kept(key): self._stored(value) for key, value in dict_value.items()}
        if stored:
            self._table.open(self._current.key).entries.update(stored)
            self.changes += 1

    def remove(self, key: Any) -> None:
        """Remove a map key; an absent one is fine."""
        self.changes += 1
        self.remove_kept(self._current.key, self._kept(key))

    def remove_kept(self, current: Any, key: Any) -> None:
        """Remove a kept map key of some state key."""
        self._table.open(current).entries[key] = ABSENT

    def contains(self, key: Any) -> bool:
        """Whether the map key is there."""
        kept = self._kept(key)
        return self._table.get(self._current.key, kept) is not ABSENT

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
        """Whether there is no map key."""
        return self._table.is_empty(self._current.key)

    def clear(self) -> None:
        """Remove all map keys."""
        self.changes += 1
        delta = self._table.open(self._current.key)
        delta.cleared = True
        delta.entries.clear()

    def kept_items(self) -> tuple[Any, list[tuple[Any, Any]]]:
        """The current state key, and its kept map keys with their values."""
        current = self._current.key
        return current, list(self._table.items(current).items())

    def _kept(self, key: Any) -> Any:
        return key if type(key) in self._keys.plain else self._keys.to_kept(key)

    def _stored(self, value: Any) -> Any:
        return value if type(value) in self._guard.plain or value is None else self._guard.store(value)

    def _item(self, kept: Any, value: Any) -> tuple[Any, Any]:
        return self._user_key(kept, value), self._user_value(kept, value)

    def _user_key(self, kept: Any, value: Any) -> Any:
        return kept if self._keys.to_user is None else self._keys.to_user(kept)

    def _user_value(self, kept: Any, value: Any) -> Any:
        return value if self._guard.load is None or value is None else self._guard.load(value)
