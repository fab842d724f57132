"""The entries of a value state as numpy arrays: each key has a slot. For states of functions that process batches.

The first change of a slot in an epoch saves its old value, before the slot changes, as the other tables of this folder
do: queries read the value first and then look for a saved one. The slot of a key without a value is freed when the next
epoch begins, because until then the epoch may be undone.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.model.row_groups import Indices
from penstock.model.type_information import TypeInformation
from penstock.state.format.table_rows import Rows
from penstock.state.heap.change_log import ChangeLog
from penstock.state.heap.heap_tables import Seal
from penstock.state.heap.value_columns import ValueColumns

FIRST_SLOTS = 64
NO_SLOT = -1


class ColumnTable:
    """One value of fixed width per key."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type = type_info
        self.changes = ChangeLog()
        self._empty()

    def _empty(self) -> None:
        self._slots: dict[Any, int] = {}
        self._keys: list[Any] = []
        """By slot; that of a free slot is of no meaning."""
        self._free: list[int] = []
        self._columns = ValueColumns(self.type, FIRST_SLOTS)
        self._saved: list[tuple[Indices, ValueColumns]] = []
        """Slots that the epoch has changed, and their old values."""
        self._saved_at = np.full(FIRST_SLOTS, NO_SLOT)
        """For each slot its place in all of `_saved`."""
        self._saved_count = 0
        self._found: tuple[Sequence[Any], Indices] = ((), np.zeros(0, np.int64))
        """The last keys that were looked up, and their slots."""

    # ---- access

    def get_many(self, keys: Sequence[Any]) -> pa.Array:
        """The values of these keys, null where there is none."""
        slots = self._find(keys)
        taken = self._columns.take(np.maximum(slots, 0))
        taken.valid &= slots >= 0
        return taken.to_arrow()

    def put_many(self, keys: Sequence[Any], values: pa.Array) -> None:
        """Replace the values of these keys, which are all different; null removes one."""
        columns = ValueColumns.of_arrow(values, self.type)
        slots = self._find(keys)
        missing = np.flatnonzero((slots < 0) & columns.valid)
        if len(missing):
            slots[missing] = self._add([keys[index] for index in missing.tolist()])
        if (slots < 0).any():
            known = np.flatnonzero(slots >= 0)
            slots, columns = slots[known], columns.take(known)
        self._save(slots)
        self._columns.put(slots, columns)

    def value(self, key: Any) -> Any:
        """The value of a key, or None."""
        slot = self._slots.get(key)
        return None if slot is None else self._columns.item(slot)

    def put_value(self, key: Any, value: Any) -> None:
        """Replace the value of a key by one in its stored form; None removes it."""
        slot = self._slots.get(key)
        if slot is None:
            if value is None:
                return
            slot = int(self._add([key])[0])
            self._found = (), np.zeros(0, np.int64)
        self._save(np.array([slot]))
        self._columns.set_item(slot, value)

    def keys(self) -> list[Any]:
        """The keys that have a value."""
        valid = self._columns.valid
        return [key for key, slot in self._slots.items() if valid[slot]]

    def known_keys(self) -> list[Any]:
        """The keys that have a value, or had one before the epoch."""
        return list(self._slots)

    def entries(self) -> tuple[list[Any], pa.Array]:
        """The keys that have a value, and the values."""
        slots = np.flatnonzero(self._columns.valid[: len(self._keys)])
        keys = self._keys.copy() if len(slots) == len(self._keys) else [self._keys[slot] for slot in slots.tolist()]
        return keys, self._columns.take(slots).to_arrow()

    def _find(self, keys: Sequence[Any]) -> Indices:
        """The slots of keys, NO_SLOT where there is none."""
        known, slots = self._found
        if known is not keys or not len(keys):
            slots = np.fromiter(map(self._slots.get, keys, repeat(NO_SLOT)), np.int64, len(keys))
            self._found = keys, slots
        return slots

    def _add(self, keys: list[Any]) -> Indices:
        """New slots for keys that have none."""
        reused = [self._free.pop() for _ in range(min(len(self._free), len(keys)))]
        for slot, key in zip(reused, keys, strict=False):
            self._keys[slot] = key
        first = len(self._keys)
        self._keys += keys[len(reused) :]
        slots = [*reused, *range(first, len(self._keys))]
        size = len(self._saved_at)
        if len(self._keys) > size:
            size = max(2 * size, len(self._keys))
            self._columns.grow(size)
            saved_at = np.full(size, NO_SLOT)
            saved_at[: len(self._saved_at)] = self._saved_at
            self._saved_at = saved_at
        self._slots.update(zip(keys, slots, strict=True))
        return np.array(slots, np.int64)

    def _save(self, slots: Indices) -> None:
        """Save the values of slots that the epoch has not changed yet."""
        first = slots[self._saved_at[slots] < 0]
        if len(first):
            self._saved.append((first, self._columns.take(first)))
            self._saved_at[first] = np.arange(self._saved_count, self._saved_count + len(first))
            self._saved_count += len(first)

    # ---- epochs

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""
        for slots, _ in self._saved:
            self._saved_at[slots] = NO_SLOT
            for slot in slots[~self._columns.valid[slots]].tolist():
                del self._slots[self._keys[slot]]
                self._keys[slot] = None
                self._free.append(slot)
        self._saved.clear()
        self._saved_count = 0
        self._found = (), np.zeros(0, np.int64)

    def changed(self) -> Iterable[Hashable]:
        """Keys that the epoch changed."""
        keys = self._keys
        return (keys[slot] for slots, _ in self._saved for slot in slots.tolist())

    def roll_back(self) -> None:
        """Restore the old values."""
        for slots, columns in self._saved:
            self._columns.put(slots, columns)
        self.begin()

    def drop(self, kept: Any, *, has_namespaces: bool) -> None:
        """Forget the values of all keys but one; it cannot be undone."""
        found = [address for address in self.keys() if (address[0] if has_namespaces else address) == kept]
        values = self.get_many(found)
        self._empty()
        self.put_many(found, values)

    # ---- snapshots

    def seal_all(self) -> Seal:
        """All values, copied."""
        keys, values = self.entries()
        return lambda: Rows(keys, None, values, None)

    def seal_objects(self) -> Seal:
        """All values, as Python objects."""
        rows = self.seal_all()
        return lambda: rows()._replace(values=decode_column(rows().values, self.type))

    def seal_changes(self, changed: Iterable[Any]) -> Seal:
        """The values of these keys, copied."""
        keys = list(changed)
        slots = np.fromiter(map(self._slots.get, keys, repeat(NO_SLOT)), np.int64, len(keys))
        columns = self._columns.take(np.maximum(slots, 0))
        columns.valid &= slots >= 0
        return lambda: Rows(keys, None, columns.to_arrow(), (~columns.valid).tolist())

    def apply(self, rows: Rows) -> None:
        """Insert restored values. The last row of a key counts."""
        last = {key: index for index, key in enumerate(rows.keys)}
        values = encode_column(rows.values, self.type)
        if len(last) < len(values):
            values = values.take(pa.array(list(last.values())))
        self.put_many(list(last), values)
        self.begin()

    def entry_count(self) -> int:
        """How many keys have a value."""
        return int(np.count_nonzero(self._columns.valid[: len(self._keys)]))

    def has_at_most(self, count: int) -> bool:
        """Whether no more than `count` keys have a value."""
        return self.entry_count() <= count

    # ---- queries, on other threads

    def read(self, keys: Sequence[Any], *, before: bool) -> list[Any]:
        """The stored values of these keys now, or `before` the running epoch."""
        slots = np.array([self._slots.get(key, NO_SLOT) for key in keys], np.int64)
        present = np.flatnonzero(slots >= 0)
        values: list[Any] = [None] * len(keys)
        if len(present):
            found = decode_column(self._columns.take(slots[present]).to_arrow(), self.type)
            for index, value in zip(present.tolist(), found, strict=True):
                values[index] = value
        if before:
            for index in present.tolist():
                place = int(self._saved_at[slots[index]])
                if place >= 0:
                    values[index] = self._saved_value(place)
        return values

    def _saved_value(self, place: int) -> Any:
        for slots, columns in list(self._saved):
            if place < len(slots):
                return columns.item(place)
            place -= len(slots)
        raise AssertionError("a saved slot is in `_saved` before it is marked")

    def first_keys(self, limit: int, *, before: bool) -> list[Any]:
        """Up to `limit` keys that have a value now, or had one before the running epoch."""
        known = list(self._slots)
        found: list[Any] = []
        for start in range(0, len(known), limit):
            part = known[start : start + limit]
            values = self.read(part, before=before)
            found += [key for key, value in zip(part, values, strict=True) if value is not None]
            if len(found) >= limit:
                break
        return found[:limit]
