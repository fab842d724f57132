"""The map state of backends that keep each map key as a separate entry."""

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.model.state import MapState
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.map_iteration import ABSENT, MapIterator
from penstock.state.backend.map_keys import MapKeys
from penstock.state.backend.value_guard import Guard


class MapEntries(Protocol):
    """A table of maps by state key and stored map key. Returned values are immutable or not shared."""

    def get(self, key: Any, map_key: Any) -> Any:
        """The value of a map key, or ABSENT."""

    def put(self, key: Any, map_key: Any, value: Any) -> None:
        """Set the value of a map key."""

    def remove(self, key: Any, map_key: Any) -> None:
        """Remove a map key if it exists."""

    def clear(self, key: Any) -> None:
        """Remove all map keys of a key."""

    def items(self, key: Any) -> dict[Any, Any]:
        """All map keys with their values."""

    def is_empty(self, key: Any) -> bool:
        """Whether the map has no keys."""


class MapHandle(MapState[Any, Any]):
    """A dictionary per key. The order of its keys is not kept by a restore, and there is no size()."""

    __slots__ = ("_current", "_guard", "_keys", "_table", "changes")

    def __init__(self, current: CurrentKey, table: MapEntries, keys: MapKeys, guard: Guard) -> None:
        self._current = current
        self._table, self._keys, self._guard = table, keys, guard
        self.changes = 0
        """Incremented by every change, so that iterators detect it."""

    def get(self, key: Any) -> Any:
        """The value of a map key; None when it is absent."""
        kept, current = self._kept(key), self._current.key
        value = self._table.get(current, kept)
        return None if value is ABSENT else self._user_value(kept, value)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a map key. None is a value too."""
        kept, stored = self._kept(key), self._stored(value)
        self._table.put(self._current.key, kept, stored)
        self.changes += 1

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of several map keys; all or none."""
        stored = {self._kept(key): self._stored(value) for key, value in dict_value.items()}
        current, put = self._current.key, self._table.put
        for kept, value in stored.items():
            put(current, kept, value)
        if stored:
            self.changes += 1

    def remove(self, key: Any) -> None:
        """Remove a map key if it exists."""
        self.changes += 1
        self.remove_kept(self._current.key, self._kept(key))

    def remove_kept(self, current: Any, key: Any) -> None:
        """Remove a stored map key of a state key."""
        self._table.remove(current, key)

    def contains(self, key: Any) -> bool:
        """Whether the map key exists."""
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
        """Whether the map has no keys."""
        return self._table.is_empty(self._current.key)

    def clear(self) -> None:
        """Remove all map keys."""
        self.changes += 1
        self._table.clear(self._current.key)

    def kept_items(self) -> tuple[Any, list[tuple[Any, Any]]]:
        """The current state key, and its stored map keys with their values."""
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
