"""A sink for SQLite, with Python's own driver.

Rows and the marker of their checkpoint are written in one transaction that takes the database's write lock first.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.connectors.database.column_values import parameter_rows, python_values
from penstock.connectors.database.database_sink import DatabaseSink
from penstock.connectors.database.database_table import NESTED, Column, DatabaseTable, FoundColumn, columns_of
from penstock.connectors.database.dialect import COMMITS, Dialect
from penstock.errors import ArgumentValueError, ConnectorRefusedError, ConnectorUnavailableError
from penstock.model.types import TypeInformation

LOCK_TIMEOUT_S = 10.0

_TYPES = {
    "BOOLEAN": "BOOLEAN",
    "BYTE": "INTEGER",
    "SHORT": "INTEGER",
    "INT": "INTEGER",
    "LONG": "INTEGER",
    "FLOAT": "REAL",
    "DOUBLE": "REAL",
    "BINARY": "BLOB",
    "DURATION": "INTEGER",
}
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "INSTANT")
_BUSY = ("locked", "busy", "disk i/o error", "unable to open")


@dataclass(frozen=True)
class SqliteSink(DatabaseSink):
    """Rows in a table of an SQLite file, exactly once. With a `key` a row replaces the one with the same key.

    >>> SqliteSink("/data/totals.db", "totals", key="customer").target.key
    ('customer',)
    """

    path: str | os.PathLike[str]
    """On a disk of the driver's machine; SQLite's locks do not work on network file systems."""
    table: str
    key: str | Sequence[str] = ()
    create_table: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", database_file(self.path))
        object.__setattr__(self, "key", key_columns(self.key))
        assert self.target

    @property
    def dialect(self) -> Dialect:
        return SqliteDialect(str(self.path))

    def check(self, record_type: TypeInformation) -> None:
        """Check as for every database. A missing file is not created yet."""
        if os.path.exists(self.path):
            super().check(record_type)
            return
        columns_of(record_type, self.target)
        SqliteDialect(str(self.path)).require_folder()
        if not self.create_table:
            raise ConnectorRefusedError(f"there is no SQLite file {self.path!r} with a table {self.table!r}; create it")

    @property
    def target(self) -> DatabaseTable:
        return DatabaseTable(self.table, tuple(self.key), self.create_table)


def database_file(path: str | os.PathLike[str]) -> str:
    """The absolute path of a database."""
    text = os.fspath(path)
    if not text or text == ":memory:" or "://" in text:
        raise ArgumentValueError(f"{text!r} is not the path of an SQLite file; rows need one that outlives the driver")
    return os.path.abspath(text)


def key_columns(key: str | Sequence[str]) -> tuple[str, ...]:
    """The key columns as a tuple, given as one name or several."""
    return (key,) if isinstance(key, str) else tuple(key)


@dataclass(frozen=True)
class SqliteDialect(Dialect):
    """SQLite. Dates, times, decimals and nested values are text: SQLite has no types for them."""

    path: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"SQLite file {self.path!r}"

    def connect(self) -> Any:
        self.require_folder()
        return sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None)

    def require_folder(self) -> None:
        """Raise ConnectorRefusedError if the file could not be created."""
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise ConnectorRefusedError(f"there is no folder {folder!r} for the SQLite file {self.path!r}; create it")

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = f"{self.name} cannot be written: {error}"
            if isinstance(error, sqlite3.OperationalError) and any(word in str(error).lower() for word in _BUSY):
                raise ConnectorUnavailableError(f"{text}; another process may hold its lock") from error
            raise ConnectorRefusedError(text) from error

    def column_type(self, type_info: TypeInformation) -> str:
        return _TYPES.get(type_info.name, "TEXT")

    def accepts(self, sql_type: str, type_info: TypeInformation) -> bool:
        """Return whether the column stores values unchanged: its affinity is that of the type, or does not matter."""
        found, needed = _affinity(sql_type), _affinity(self.column_type(type_info))
        if found == "NUMERIC":  # numbers stay numbers, and text that is not a number stays text
            return needed != "TEXT" or type_info.name in _TIMES
        return found in (needed, "BLOB") or (found == "INTEGER" and needed == "NUMERIC")

    def find_columns(self, connection: Any, table: DatabaseTable) -> Mapping[str, FoundColumn] | None:
        rows = connection.execute(f"PRAGMA table_info({self.quote(table.name)})").fetchall()
        return {
            name: FoundColumn(sql_type or "BLOB", bool(not_null and default is None))
            for _, name, sql_type, not_null, default, _ in rows
        } or None

    def missing_key(self, connection: Any, table: DatabaseTable) -> str | None:
        key, quoted = set(table.key), self.quote(table.name)
        primary = {row[1] for row in connection.execute(f"PRAGMA table_info({quoted})") if row[5]}
        indexes = [row[1] for row in connection.execute(f"PRAGMA index_list({quoted})") if row[2] and not row[4]]
        unique = [{row[2] for row in connection.execute(f"PRAGMA index_info({self.quote(i)})")} for i in indexes]
        return None if key == primary or key in unique else "it has no primary key or unique index on them"

    def lock_marker(self, connection: Any, owner: str) -> int | None:
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute(f"SELECT marker FROM {COMMITS} WHERE owner = ?", (owner,)).fetchone()
        return None if row is None else int(row[0])

    def parameters(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        return parameter_rows(batch, columns, _values)


def _values(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    values = python_values(array, type_info)
    if type_info.name in _TYPES or type_info.name == "STRING" or type_info.name in NESTED:
        return values
    return [None if value is None else _text(value) for value in values]


def _text(value: Any) -> str:
    """A date or time as text that sorts like the value and that SQLite's own functions can read."""
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    return str(value)


def _affinity(sql_type: str) -> str:
    """The affinity of a column type, by SQLite's rules in their order."""
    text = sql_type.upper()
    if "INT" in text:
        return "INTEGER"
    if any(word in text for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in text or not text:
        return "BLOB"
    return "REAL" if any(word in text for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"
