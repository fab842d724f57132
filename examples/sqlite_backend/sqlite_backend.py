"""Keyed state in SQLite: an example of a state backend, with Python's standard library only.

There is one database per operator and subtask, in the TaskManager's folder. An epoch is a transaction. A seal opens a
second connection with a read transaction, which keeps seeing the database as it was at the seal.

    state.backend.type: sqlite
    state.backend.sqlite.cache: 64 mb

Register it with `register_backend(SqliteSpec)` in the program, or with an entry point (see README.md).
"""

import sqlite3
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.configuration import Configuration
from penstock.model.descriptors import StateDescriptor
from penstock.model.option import Option
from penstock.model.option_types import Size
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import ListState, State, ValueState
from penstock.model.type_information import parse_type
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_spec import BackendSpec
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.folding_handles import AggregatingHandle, ReducingHandle
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.map_handle import MapHandle
from penstock.state.backend.map_iteration import ABSENT
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.sealed_state import SealedTable, SealedTables
from penstock.state.backend.value_guard import Guard, guard_of
from penstock.state.format.entry_bytes import BytesForm, address_bytes, address_order, map_key_bytes, value_bytes
from penstock.state.format.opaque_types import opaque, opaque_info
from penstock.state.format.table_rows import BATCH_ROWS, Rows, encode_rows
from penstock.state.heap.heap_timers import TimerTable

CACHE = Option("state.backend.sqlite.cache", Size(least=1), 64 * 1024 * 1024, "SQLite's page cache, for each operator.")
Live = Callable[[Any], Any] | None
_SCHEMA = """
    CREATE TABLE entries (state TEXT, key BLOB, map_key BLOB, value BLOB, PRIMARY KEY (state, key, map_key))
    WITHOUT ROWID
"""


@dataclass(frozen=True)
class SqliteSpec(BackendSpec):
    """The registration: name, settings, and how to open a backend."""

    name: ClassVar[str] = "sqlite"
    class_name: ClassVar[str] = "SqliteStateBackend"
    on_disk: ClassVar[bool] = True

    cache_bytes: int = CACHE.default

    @classmethod
    def of(cls, configuration: Configuration) -> "SqliteSpec":
        return cls(configuration.get(CACHE))

    def open(self, place: BackendPlace) -> "SqliteBackend":
        return SqliteBackend(place, self.cache_bytes)


class SqliteBackend(KeyedBackend):
    """Entries are in SQLite. Timers are few and small, so they are in memory, as in the HashMap backend."""

    on_disk = True

    def __init__(self, place: BackendPlace, cache_bytes: int) -> None:
        super().__init__(place)
        place.folder.mkdir(parents=True, exist_ok=True)
        self._path = place.folder / f"sqlite-{uuid.uuid4().hex}"
        self._database = connect(self._path)
        self._database.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not block each other
        self._database.execute("PRAGMA synchronous = OFF")  # after a crash, the last checkpoint is restored
        self._database.execute(f"PRAGMA cache_size = {-cache_bytes // 1024}")
        self._database.execute(_SCHEMA)

    # ---- epochs

    def _begin(self) -> None:
        self._database.execute("BEGIN")
        for timers in self._timers():
            timers.undo.clear()

    def _finish(self) -> None:
        self._database.execute("COMMIT")

    def _take_back(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        for timers in self._timers():
            timers.roll_back()

    def _timers(self) -> list[TimerTable]:
        return [table for table in self._tables.values() if isinstance(table, TimerTable)]

    # ---- states

    def _new_table(self, info: StateTableInfo) -> "SqliteTable | TimerTable":
        return TimerTable(address_order(info)) if info.kind == "timer" else SqliteTable(self._database, info)

    def _new_handle(self, descriptor: StateDescriptor, table: "SqliteTable", current: CurrentKey) -> State:
        if descriptor.map_key_type is not None:
            return MapHandle(current, table, map_keys_of(descriptor.map_key_type), guard_of(descriptor.value_type))
        if descriptor.kind == "list":
            return SqliteListState(current, table, guard_of(descriptor.value_type.children[0]))
        value = SqliteValueState(current, table, guard_of(descriptor.value_type))
        if descriptor.kind == "reducing":
            return ReducingHandle(value)
        return AggregatingHandle(value) if descriptor.kind == "aggregating" else value

    def keys_with(self, name: str) -> list[Any]:
        found = self._database.execute("SELECT DISTINCT key FROM entries WHERE state = ?", (name,))
        return [self._tables[name].key.decode(key) for (key,) in found]

    # ---- snapshots

    def seal_all(self, number: int) -> SealedTables:
        reader = Reader(self._path)
        tables = []
        for name, table in self._tables.items():
            info, live = self._infos[name], self.ttl.snapshot_filter(name)
            is_timers = isinstance(table, TimerTable)
            rows = table.seal_all() if is_timers else partial(reader.rows, info, self.key_codec, live)
            tables.append(SealedTable(info, rows, full=True))
        return self._sealed(number, tables)

    def close(self) -> None:
        self._database.close()
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink()


class SqliteTable:
    """The entries of one state. A map has a row per map key; otherwise a key has one row, with an empty map key."""

    def __init__(self, database: sqlite3.Connection, info: StateTableInfo) -> None:
        self._database, self._state = database, info.name
        self.key, self._map_key, self._value = forms(info)

    def get(self, key: Any, map_key: Any = None) -> Any:
        query = "SELECT value FROM entries WHERE state = ? AND key = ? AND map_key = ?"
        row = self._database.execute(query, (*self._scope(key), self._map_key.encode(map_key))).fetchone()
        return ABSENT if row is None else self._value.decode(row[0])

    def put(self, key: Any, map_key: Any, value: Any) -> None:
        row = (*self._scope(key), self._map_key.encode(map_key), self._value.encode(value))
        self._database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", row)

    def remove(self, key: Any, map_key: Any = None) -> None:
        query = "DELETE FROM entries WHERE state = ? AND key = ? AND map_key = ?"
        self._database.execute(query, (*self._scope(key), self._map_key.encode(map_key)))

    def clear(self, key: Any) -> None:
        self._database.execute("DELETE FROM entries WHERE state = ? AND key = ?", self._scope(key))

    def items(self, key: Any) -> dict[Any, Any]:
        query = "SELECT map_key, value FROM entries WHERE state = ? AND key = ?"
        rows = self._database.execute(query, self._scope(key))
        return {self._map_key.decode(map_key): self._value.decode(value) for map_key, value in rows}

    def is_empty(self, key: Any) -> bool:
        query = "SELECT 1 FROM entries WHERE state = ? AND key = ? LIMIT 1"
        return self._database.execute(query, self._scope(key)).fetchone() is None

    def apply(self, rows: Rows) -> None:
        """Insert restored rows in one transaction."""
        map_keys = rows.map_keys or [None] * len(rows.keys)
        deleted = rows.deleted or [False] * len(rows.keys)
        self._database.execute("BEGIN")
        for key, map_key, value, is_gone in zip(rows.keys, map_keys, rows.values, deleted, strict=True):
            if is_gone:
                self.remove(key, map_key)
            else:
                self.put(key, map_key, value)
        self._database.execute("COMMIT")

    def _scope(self, key: Any) -> tuple[str, bytes]:
        hash(key)  # raises where there is no current key
        return self._state, self.key.encode(key)


class SqliteValueState(ValueState[Any]):
    """One value per key."""

    def __init__(self, current: CurrentKey, table: SqliteTable, guard: Guard) -> None:
        self._current, self._table, self._guard = current, table, guard

    def value(self) -> Any:
        value = self._table.get(self._current.key)
        return None if value is ABSENT else value

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
        else:
            self._table.put(self._current.key, None, self._guard.stored(value))

    def clear(self) -> None:
        self._table.remove(self._current.key)


class SqliteListState(ListState[Any]):
    """A list per key in one row: adding an element rewrites the row."""

    def __init__(self, current: CurrentKey, table: SqliteTable, guard: Guard) -> None:
        self._current, self._table, self._guard = current, table, guard

    def get(self) -> list[Any]:
        elements = self._table.get(self._current.key)
        return [] if elements is ABSENT else list(elements)

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        self._put([*self.get(), *self._guard.elements(values)])

    def update(self, values: Iterable[Any]) -> None:
        self._put(self._guard.elements(values))

    def clear(self) -> None:
        self._put([])

    def _put(self, elements: list[Any]) -> None:
        if elements:
            self._table.put(self._current.key, None, elements)
        else:
            self._table.remove(self._current.key)


class Reader:
    """Reads the entries as of its creation, in the thread that writes snapshots."""

    def __init__(self, path: Path) -> None:
        self._database = connect(path)
        self._database.execute("BEGIN")
        self._database.execute("SELECT 1 FROM entries").fetchone()  # begins the read transaction
        weakref.finalize(self, self._database.close)

    def rows(self, info: StateTableInfo, codec: KeyCodec, live: Live) -> Iterator[pa.RecordBatch]:
        """All rows of a state, without what `live` drops. Pickles are not loaded."""
        key, map_key, _ = forms(info)
        value = value_bytes(opaque(parse_type(info.value_type)))
        query = "SELECT key, map_key, value FROM entries WHERE state = ?"
        cursor = self._database.execute(query, (info.name,))
        while found := cursor.fetchmany(BATCH_ROWS):
            entries = [(key.decode(k), map_key.decode(m), value.decode(v)) for k, m, v in found]
            if live is not None:
                entries = [(k, m, left) for k, m, v in entries if (left := live(v)) is not None]
            keys, map_keys, values = map(list, zip(*entries, strict=True)) if entries else ([], [], [])
            rows = Rows(keys, map_keys if info.map_key_type is not None else None, values, None)
            yield from encode_rows(rows, opaque_info(info), codec)


def forms(info: StateTableInfo) -> tuple[BytesForm, BytesForm, BytesForm]:
    """The encodings of keys (with namespaces, if the state has any), of map keys and of values."""
    map_key = BytesForm(lambda kept: b"", lambda data: None)  # unless the state is a map
    if info.map_key_type is not None:
        map_key = map_key_bytes(parse_type(info.map_key_type))
    return address_bytes(info), map_key, value_bytes(parse_type(info.value_type))


def connect(path: Path) -> sqlite3.Connection:
    """Transactions are explicit. A connection is used by one thread at a time, but not always by the same."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
