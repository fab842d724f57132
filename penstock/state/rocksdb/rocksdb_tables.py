"""Tables of states in RocksDB. The changes of an epoch stay in `delta` until `commit` adds them to the epoch's batch.

Rows: a value is one row per key; a list is one row per epoch that added to it; a map is one row per map key. Reads
look into `delta` first. Values from RocksDB are never shared: they are decoded for the caller.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import parse_type
from penstock.state.backend.live_reads import require_readable
from penstock.state.backend.map_iteration import ABSENT
from penstock.state.format.entry_bytes import map_key_bytes, pack_long, value_bytes
from penstock.state.format.opaque_types import opaque
from penstock.state.format.table_rows import Rows
from penstock.state.rocksdb.key_bytes import RowBytes
from penstock.state.rocksdb.store import Family, WriteBatch

MAX_CHUNKS = 32
"""The maximum number of rows of a list. A list that has more is rewritten when it is read."""


class RocksValueTable:
    """One value per key; never None. Value, reducing and aggregating state."""

    def __init__(self, info: StateTableInfo, family: Family, keys: RowBytes) -> None:
        self.family = family
        self.delta: dict[Any, Any] = {}
        """None if the value was removed."""
        self._keys = keys
        self._value = value_bytes(parse_type(info.value_type))
        self._row = value_bytes(opaque(parse_type(info.value_type)))

    def load(self, key: Any) -> Any:
        """The value before the epoch, or None."""
        data = self.family.get(self._keys.row(key))
        return None if data is None else self._value.decode(data)

    def load_many(self, keys: Sequence[Any]) -> list[Any]:
        """The values of these keys, with the changes of the epoch; None where there is none."""
        delta, row, decode = self.delta, self._keys.row, self._value.decode
        unchanged = [key for key in keys if key not in delta]
        rows = self.family.get([row(key) for key in unchanged]) if unchanged else []
        stored = iter(None if data is None else decode(data) for data in rows)
        return [delta[key] if key in delta else next(stored) for key in keys]

    def stored(self, key: Any) -> Any:
        """What RocksDB holds for a key, or None. The running epoch is not looked at."""
        return self.load(key)

    def commit(self, batch: WriteBatch) -> None:
        """Add the epoch's changes to the batch."""
        family, row, encode = self.family, self._keys.row, self._value.encode
        for key, value in self.delta.items():
            if value is None:
                batch.delete(family, row(key))
            else:
                batch.put(family, row(key), encode(value))

    def forget(self) -> None:
        """Drop the epoch's changes, after they were written or rolled back."""
        self.delta.clear()

    def apply(self, rows: Rows, batch: WriteBatch) -> None:
        """Add restored rows to the batch."""
        for index, (key, value) in enumerate(zip(rows.keys, rows.values, strict=True)):
            if rows.deleted is not None and rows.deleted[index]:
                batch.delete(self.family, self._keys.row(key))
            else:
                batch.put(self.family, self._keys.row(key), self._row.encode(value))

    def entries(self, scan: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any, Any]]:
        """(state key, None, value) of scanned rows."""
        return ((self._keys.key_of_row(row), None, self._row.decode(data)) for row, data in scan)


@dataclass
class ListDelta:
    """The changes of an epoch to a list."""

    replaced: bool = False
    """The previous elements are removed."""
    elements: list[Any] = field(default_factory=list)


class RocksListTable:
    """A list per key; an empty one has no rows."""

    def __init__(self, info: StateTableInfo, family: Family, keys: RowBytes, first_chunk: int) -> None:
        self.family = family
        self.delta: dict[Any, ListDelta] = {}
        self._keys = keys
        self._next_chunk = first_chunk
        """Increases with each row, so that the rows of a list are sorted in the order of writing."""
        self._value = value_bytes(parse_type(info.value_type))
        self._row = value_bytes(opaque(parse_type(info.value_type)))

    def open(self, key: Any) -> ListDelta:
        """The epoch's changes to a key's list, for modification."""
        delta = self.delta.get(key)
        if delta is None:
            delta = self.delta[key] = ListDelta()
        return delta

    def load(self, key: Any) -> list[Any]:
        """The elements before the epoch."""
        chunks = [data for _, data in self.family.scan_prefix(self._keys.scope(key))]
        if len(chunks) > MAX_CHUNKS:
            delta = self.open(key)
            # Decoded again below, because the caller may modify the result.
            delta.replaced, delta.elements = True, [*self._decode(chunks), *delta.elements]
        return self._decode(chunks)

    def stored(self, key: Any) -> list[Any] | None:
        """What RocksDB holds for a key, or None. The running epoch is not looked at, and nothing is rewritten."""
        elements: list[Any] = []
        for _, data in self.family.scan_prefix(self._keys.scope(key)):
            elements += self._value.decode(data)
            require_readable(len(elements))
        return elements or None

    def _decode(self, chunks: list[bytes]) -> list[Any]:
        return [element for data in chunks for element in self._value.decode(data)]

    def commit(self, batch: WriteBatch) -> None:
        """Add the epoch's changes to the batch."""
        for key, delta in self.delta.items():
            scope = self._keys.scope(key)
            if delta.replaced:
                self._delete(scope, batch)
            if delta.elements:
                self._put(scope, self._value.encode(delta.elements), batch)

    def _delete(self, scope: bytes, batch: WriteBatch) -> None:
        for row, _ in self.family.scan_prefix(scope):
            batch.delete(self.family, row)

    def _put(self, scope: bytes, data: bytes, batch: WriteBatch) -> None:
        batch.put(self.family, scope + pack_long(self._next_chunk), data)
        self._next_chunk += 1

    def forget(self) -> None:
        """Drop the epoch's changes, after they were written or rolled back."""
        self.delta.clear()

    def apply(self, rows: Rows, batch: WriteBatch) -> None:
        """Add restored rows to the batch. Each is the whole list of its key; the last one of a key wins."""
        for key, index in {key: index for index, key in enumerate(rows.keys)}.items():
            scope = self._keys.scope(key)
            self._delete(scope, batch)
            if rows.deleted is None or not rows.deleted[index]:
                self._put(scope, self._row.encode(rows.values[index]), batch)

    def entries(self, scan: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any, Any]]:
        """(state key, None, whole list) of scanned rows."""
        split, decode = self._keys.split_scope, self._row.decode
        chunks = ((split(row)[0], decode(data)) for row, data in scan)
        for key, group in groupby(chunks, key=lambda chunk: chunk[0]):
            yield key, None, [element for _, chunk in group for element in chunk]


@dataclass
class MapDelta:
    """The changes of an epoch to a map."""

    cleared: bool = False
    """The previous entries are removed."""
    entries: dict[Any, Any] = field(default_factory=dict)
    """ABSENT if a map key was removed."""


class RocksMapTable:
    """A dictionary per key."""

    def __init__(self, info: StateTableInfo, family: Family, keys: RowBytes) -> None:
        assert info.map_key_type is not None
        self.family = family
        self.delta: dict[Any, MapDelta] = {}
        self._keys = keys
        self._map_key = map_key_bytes(parse_type(info.map_key_type))
        self._value = value_bytes(parse_type(info.value_type))
        self._row = value_bytes(opaque(parse_type(info.value_type)))

    def put(self, key: Any, map_key: Any, value: Any) -> None:
        """Set the value of a map key."""
        delta = self.delta.get(key)
        if delta is None:
            delta = self.delta[key] = MapDelta()
        delta.entries[map_key] = value

    def remove(self, key: Any, map_key: Any) -> None:
        """Remove a map key if it exists."""
        self.put(key, map_key, ABSENT)

    def clear(self, key: Any) -> None:
        """Remove all map keys of a key."""
        self.delta[key] = MapDelta(cleared=True)

    def get(self, key: Any, map_key: Any) -> Any:
        """The value of a stored map key, or ABSENT."""
        delta = self.delta.get(key)
        if delta is not None:
            if map_key in delta.entries:
                return delta.entries[map_key]
            if delta.cleared:
                return ABSENT
        data = self.family.get(self._keys.scope(key) + self._map_key.encode(map_key))
        return ABSENT if data is None else self._value.decode(data)

    def items(self, key: Any) -> dict[Any, Any]:
        """All stored map keys with their values, in a new dictionary."""
        delta = self.delta.get(key)
        found: dict[Any, Any] = {}
        if delta is None or not delta.cleared:
            found = self._scan(key)
        if delta is not None:
            found.update(delta.entries)
            found = {map_key: value for map_key, value in found.items() if value is not ABSENT}
        return found

    def _scan(self, key: Any) -> dict[Any, Any]:
        scope = self._keys.scope(key)
        return {
            self._map_key.decode(row[len(scope) :]): self._value.decode(data)
            for row, data in self.family.scan_prefix(scope)
        }

    def stored(self, key: Any) -> dict[Any, Any] | None:
        """What RocksDB holds for a key, or None. The running epoch is not looked at."""
        scope = self._keys.scope(key)
        found: dict[Any, Any] = {}
        for row, data in self.family.scan_prefix(scope):
            found[self._map_key.decode(row[len(scope) :])] = self._value.decode(data)
            require_readable(len(found))
        return found or None

    def is_empty(self, key: Any) -> bool:
        """Whether the map has no keys. Reads as few rows as possible."""
        delta = self.delta.get(key)
        if delta is None:
            return next(self.family.scan_prefix(self._keys.scope(key)), None) is None
        if any(value is not ABSENT for value in delta.entries.values()):
            return False
        return not self.items(key)

    def commit(self, batch: WriteBatch) -> None:
        """Add the epoch's changes to the batch."""
        for key, delta in self.delta.items():
            scope = self._keys.scope(key)
            if delta.cleared:
                for row, _ in self.family.scan_prefix(scope):
                    batch.delete(self.family, row)
            for map_key, value in delta.entries.items():
                row = scope + self._map_key.encode(map_key)
                if value is ABSENT:
                    batch.delete(self.family, row)
                else:
                    batch.put(self.family, row, self._value.encode(value))

    def forget(self) -> None:
        """Drop the epoch's changes, after they were written or rolled back."""
        self.delta.clear()

    def apply(self, rows: Rows, batch: WriteBatch) -> None:
        """Add restored rows to the batch."""
        assert rows.map_keys is not None
        for index, (key, map_key, value) in enumerate(zip(rows.keys, rows.map_keys, rows.values, strict=True)):
            row = self._keys.scope(key) + self._map_key.encode(map_key)
            if rows.deleted is not None and rows.deleted[index]:
                batch.delete(self.family, row)
            else:
                batch.put(self.family, row, self._row.encode(value))

    def entries(self, scan: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any, Any]]:
        """(state key, stored map key, value) of scanned rows."""
        for row, data in scan:
            key, rest = self._keys.split_scope(row)
            yield key, self._map_key.decode(rest), self._row.decode(data)
