"""Live entries of the states of one operator, with what is needed to undo an epoch and to seal a delta.

Entries are changed in place. The first change of an entry in an epoch saves the old value in `undo`; `roll_back`
restores it. Handles work on `live` and `undo` directly: there is no layer between a state access and its dictionary.
The old value is saved before the entry changes, so that queries see it in one of the two (`live_entries`).

Sealed data is never changed later: stored values are replaced, not modified; a list only grows, and is sealed with its
length; the dictionary of a map is copied before the first change after a full seal (copy on write).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

from penstock.state.backend.map_iteration import ABSENT
from penstock.state.format.table_rows import Rows
from penstock.state.heap.change_log import ChangeLog

Seal = Callable[[], Rows]


class Table(Protocol):
    """Entries of one state, for all keys of the subtask."""

    changes: ChangeLog

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""

    def changed(self) -> Iterable[Hashable]:
        """Entries that the epoch changed."""

    def roll_back(self) -> None:
        """Restore the old values of what the epoch has changed."""

    def seal_all(self) -> Seal:
        """All entries as they are now."""

    def seal_changes(self, changed: Iterable[Any]) -> Seal:
        """These entries as they are now."""

    def apply(self, rows: Rows) -> None:
        """Insert restored rows in order, outside of epochs."""

    def entry_count(self) -> int:
        """How many rows a full seal has."""

    def has_at_most(self, count: int) -> bool:
        """Whether a full seal has no more than `count` rows."""


class ValueTable:
    """One stored value per key; never None. Value, reducing and aggregating state."""

    __slots__ = ("changes", "live", "undo")

    def __init__(self) -> None:
        self.live: dict[Any, Any] = {}
        self.undo: dict[Any, Any] = {}
        self.changes = ChangeLog()

    def get_many(self, keys: Sequence[Any]) -> list[Any]:
        """The values of these keys, None where there is none."""
        return list(map(self.live.get, keys))

    def put_many(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Replace the values of these keys by others in their stored form; None removes one."""
        live, undo = self.live, self.undo
        for key, value in zip(keys, values, strict=True):
            old = live.get(key)
            if key not in undo:
                if value is None and old is None:
                    continue
                undo[key] = old
            if value is not None:
                live[key] = value
            elif old is not None:
                del live[key]

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""
        self.undo.clear()

    def changed(self) -> Iterable[Hashable]:
        """Keys that the epoch changed."""
        return self.undo

    def roll_back(self) -> None:
        """Restore the old values."""
        live = self.live
        for key, old in self.undo.items():
            if old is None:
                live.pop(key, None)
            else:
                live[key] = old
        self.undo.clear()

    def seal_all(self) -> Seal:
        """All values. Stored values are never modified, so references are enough."""
        keys, values = list(self.live), list(self.live.values())
        return lambda: Rows(keys, None, values, None)

    def seal_changes(self, changed: Iterable[Any]) -> Seal:
        """The values of these keys."""
        keys = list(changed)
        values = list(map(self.live.get, keys))
        return lambda: Rows(keys, None, values, [value is None for value in values])

    def apply(self, rows: Rows) -> None:
        """Insert restored values."""
        if rows.deleted is None:
            self.live.update(zip(rows.keys, rows.values, strict=True))
            return
        for key, value, deleted in zip(rows.keys, rows.values, rows.deleted, strict=True):
            if deleted:
                self.live.pop(key, None)
            else:
                self.live[key] = value

    def entry_count(self) -> int:
        """How many keys have a value."""
        return len(self.live)

    def has_at_most(self, count: int) -> bool:
        """Whether no more than `count` keys have a value."""
        return len(self.live) <= count


class ListTable:
    """A list per key; never empty. Lists grow in place; any other change replaces the list.

    `undo` holds the old length while an epoch has only appended, the old list after it was replaced, and None if there
    was no list.
    """

    __slots__ = ("changes", "live", "undo")

    def __init__(self) -> None:
        self.live: dict[Any, list[Any]] = {}
        self.undo: dict[Any, int | list[Any] | None] = {}
        self.changes = ChangeLog()

    def open(self, key: Any) -> list[Any]:
        """The list of a key for appending. For the first addition in an epoch, or after the list was cleared."""
        elements = self.live.get(key)
        if elements is None:
            self.undo.setdefault(key, None)
            elements = self.live[key] = []
        elif key not in self.undo:
            self.undo[key] = len(elements)
        return elements

    def replace(self, key: Any, elements: list[Any]) -> None:
        """Replace the list; an empty one removes the key."""
        old = self.live.get(key)
        length = self.undo.get(key) if key in self.undo else -1
        if type(length) is int:  # only additions so far
            self.undo[key] = old if old is None or length in (-1, len(old)) else old[:length]
        if elements:
            self.live[key] = elements
        elif old is not None:
            del self.live[key]

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""
        self.undo.clear()

    def changed(self) -> Iterable[Hashable]:
        """Keys that the epoch changed."""
        return self.undo

    def roll_back(self) -> None:
        """Restore the old lists. A grown list is truncated in a copy, because a seal may share it."""
        live = self.live
        for key, old in self.undo.items():
            if old is None:
                live.pop(key, None)
            elif isinstance(old, int):
                live[key] = live[key][:old]
            else:
                live[key] = old
        self.undo.clear()

    def seal_all(self) -> Seal:
        """All lists with their lengths: later additions lie beyond them."""
        return _seal_lists(list(self.live), list(self.live.values()))

    def seal_changes(self, changed: Iterable[Any]) -> Seal:
        """The lists of these keys."""
        keys = list(changed)
        return _seal_lists(keys, list(map(self.live.get, keys)))

    def apply(self, rows: Rows) -> None:
        """Insert restored lists."""
        for index, (key, elements) in enumerate(zip(rows.keys, rows.values, strict=True)):
            if rows.deleted is not None and rows.deleted[index]:
                self.live.pop(key, None)
            else:
                self.live[key] = elements

    def entry_count(self) -> int:
        """How many keys have a list."""
        return len(self.live)

    def has_at_most(self, count: int) -> bool:
        """Whether no more than `count` keys have a list."""
        return len(self.live) <= count


def _seal_lists(keys: list[Any], lists: list[list[Any] | None]) -> Seal:
    lengths = [-1 if elements is None else len(elements) for elements in lists]

    def rows() -> Rows:
        values = [
            None if elements is None else elements[:length] for elements, length in zip(lists, lengths, strict=True)
        ]
        return Rows(keys, None, values, [length < 0 for length in lengths])

    return rows


class MapTable:
    """A dictionary per key; never empty. `undo` holds, per key, the old values of the map keys that changed."""

    __slots__ = ("_owned", "changes", "live", "undo")

    def __init__(self) -> None:
        self.live: dict[Any, dict[Any, Any]] = {}
        self.undo: dict[Any, dict[Any, Any]] = {}
        self.changes = ChangeLog()
        self._owned: set[Any] | None = None
        """Keys whose dictionary is not shared with a seal; None if no dictionary is shared."""

    def open(self, key: Any) -> dict[Any, Any]:
        """Prepare a key for its first change in an epoch; its undo entries."""
        self._own(key)
        entries = self.undo[key] = {}
        return entries

    def _own(self, key: Any) -> None:
        if self._owned is not None and key not in self._owned:
            self._owned.add(key)
            if key in self.live:
                self.live[key] = self.live[key].copy()

    def clear(self, key: Any) -> None:
        """Remove all map keys of a key."""
        if key not in self.live:
            return
        self._own(key)
        entries = self.live[key]
        # The old values are those in the dictionary, except for keys that the epoch has changed before.
        self.undo[key] = {**entries, **self.undo[key]} if key in self.undo else entries
        del self.live[key]

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""
        self.undo.clear()

    def changed(self) -> Iterable[Hashable]:
        """(key, map key) pairs that the epoch changed."""
        return ((key, map_key) for key, entries in self.undo.items() for map_key in entries)

    def roll_back(self) -> None:
        """Restore the old values in copies, because a seal may share the dictionaries."""
        for key, old in self.undo.items():
            entries = {**self.live.get(key, {}), **old}
            for map_key, value in old.items():
                if value is ABSENT:
                    del entries[map_key]
            self._put(key, entries)
        self.undo.clear()

    def _put(self, key: Any, entries: dict[Any, Any]) -> None:
        if self._owned is not None:
            self._owned.add(key)
        if entries:
            self.live[key] = entries
        else:
            self.live.pop(key, None)

    def seal_all(self) -> Seal:
        """All dictionaries. From now on each is copied before it is changed."""
        keys, dictionaries = list(self.live), list(self.live.values())
        self._owned = set()

        def rows() -> Rows:
            repeated = [key for key, entries in zip(keys, dictionaries, strict=True) for _ in entries]
            map_keys = [map_key for entries in dictionaries for map_key in entries]
            values = [value for entries in dictionaries for value in entries.values()]
            return Rows(repeated, map_keys, values, None)

        return rows

    def seal_changes(self, changed: Iterable[Any]) -> Seal:
        """These (key, map key) pairs."""
        pairs = list(changed)
        get, none = self.live.get, dict[Any, Any]()
        values = [get(key, none).get(map_key, ABSENT) for key, map_key in pairs]

        def rows() -> Rows:
            deleted = [value is ABSENT for value in values]
            stored = [None if value is ABSENT else value for value in values]
            return Rows([key for key, _ in pairs], [map_key for _, map_key in pairs], stored, deleted)

        return rows

    def apply(self, rows: Rows) -> None:
        """Insert restored entries."""
        assert rows.map_keys is not None
        live = self.live
        for index, (key, map_key, value) in enumerate(zip(rows.keys, rows.map_keys, rows.values, strict=True)):
            if rows.deleted is not None and rows.deleted[index]:
                entries = live.get(key, {})
                entries.pop(map_key, None)
                if not entries:
                    live.pop(key, None)
            elif (found := live.get(key)) is not None:
                found[map_key] = value
            else:
                live[key] = {map_key: value}

    def entry_count(self) -> int:
        """The number of map keys of all keys. Visits every key."""
        return sum(map(len, self.live.values()))

    def has_at_most(self, count: int) -> bool:
        """Whether all keys together have no more than `count` map keys; visits every key only if that is possible."""
        return len(self.live) <= count and self.entry_count() <= count
