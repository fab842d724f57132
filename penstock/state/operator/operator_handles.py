"""Handles of operator state. Values are checked and converted when they are written, and copied when they are read."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from penstock.errors import StateAccessError
from penstock.model.operator_state import BroadcastState, ReadOnlyBroadcastState
from penstock.model.state import ListState
from penstock.state.backend.map_keys import MapKeys
from penstock.state.backend.value_guard import Guard
from penstock.state.heap.copy_on_write import CopyOnWrite


class OperatorListState(ListState[Any]):
    """A list state of one subtask, split or union."""

    def __init__(self, state: CopyOnWrite[list[Any]], guard: Guard) -> None:
        self._state = state
        self._guard = guard

    def get(self) -> list[Any]:
        """The elements, in the order they were added, as a new list."""
        load = self._guard.load
        return self._state.live.copy() if load is None else list(map(load, self._state.live))

    def add(self, value: Any) -> None:
        """Add one element at the end."""
        stored = self._guard.element(value)
        self._state.writable().append(stored)

    def add_all(self, values: Iterable[Any]) -> None:
        """Add several elements at the end; all or none."""
        stored = self._guard.elements(values)
        self._state.writable().extend(stored)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        self._state.replace(self._guard.elements(values))

    def clear(self) -> None:
        """Remove all elements."""
        self._state.replace([])


class OperatorBroadcastState(BroadcastState[Any, Any]):
    """The subtask's copy of a dictionary that all subtasks have."""

    def __init__(self, state: CopyOnWrite[dict[Any, Any]], keys: MapKeys, guard: Guard) -> None:
        self._state = state
        self._keys = keys
        self._guard = guard

    def get(self, key: Any) -> Any:
        return self._loaded(self._state.live.get(self._kept(key)))

    def contains(self, key: Any) -> bool:
        return self._kept(key) in self._state.live

    def items(self) -> list[tuple[Any, Any]]:
        return list(zip(self.keys(), self.values(), strict=True))

    def keys(self) -> list[Any]:
        to_user = self._keys.to_user
        return list(self._state.live) if to_user is None else list(map(to_user, self._state.live))

    def values(self) -> list[Any]:
        return list(map(self._loaded, self._state.live.values()))

    def is_empty(self) -> bool:
        return not self._state.live

    def put(self, key: Any, value: Any) -> None:
        kept, stored = self._kept(key), self._stored(value)
        self._state.writable()[kept] = stored

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """All or none of the values are set."""
        stored = {self._kept(key): self._stored(value) for key, value in dict_value.items()}
        self._state.writable().update(stored)

    def remove(self, key: Any) -> None:
        kept = self._kept(key)
        if kept in self._state.live:
            del self._state.writable()[kept]

    def clear(self) -> None:
        self._state.replace({})

    def _kept(self, key: Any) -> Any:
        return key if type(key) in self._keys.plain else self._keys.to_kept(key)

    def _stored(self, value: Any) -> Any:
        return value if value is None or type(value) in self._guard.plain else self._guard.store(value)

    def _loaded(self, value: Any) -> Any:
        load = self._guard.load
        return value if load is None or value is None else load(value)


class ReadOnlyView(ReadOnlyBroadcastState[Any, Any]):
    """A read-only view of broadcast state for the other input. Every change raises an error with a hint."""

    def __init__(self, state: BroadcastState[Any, Any], name: str) -> None:
        self._state = state
        self._name = name

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def put(self, key: Any, value: Any) -> NoReturn:
        self._refuse()

    def put_all(self, dict_value: Mapping[Any, Any]) -> NoReturn:
        self._refuse()

    def remove(self, key: Any) -> NoReturn:
        self._refuse()

    def clear(self) -> NoReturn:
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse()

    def __delitem__(self, key: Any) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StateAccessError(
            f"broadcast state {self._name!r} can only be read here, as the copies of the subtasks would differ; change "
            f"it in process_broadcast_element"
        )
