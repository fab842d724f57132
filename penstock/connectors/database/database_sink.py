"""The base of database sinks: rows wait with their checkpoint, then go into the table in one transaction (Q5, Q7).

The transaction also stores the checkpoint's marker in the table `penstock_commits`. The marker's row is locked before
it is compared, so that of two drivers only one can write, and a commit that is repeated finds its own marker.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.connectors.database.database_table import Column, DatabaseTable, columns_of, require_fit, row_type
from penstock.connectors.database.dialect import COMMITS, Dialect
from penstock.connectors.file.part_names import sink_hash
from penstock.connectors.staged.staged_sink import StagedOutput, StagedSink
from penstock.connectors.staged.staged_writer import ColumnEncoder, StagedEncoder
from penstock.errors import ConnectorRefusedError, ConnectorUnavailableError, UnsupportedValueError
from penstock.model.delivery import Delivery
from penstock.model.sink import SinkContext
from penstock.model.types import TypeInformation, parse_type

PLAIN_CHARS = 400
_PLAIN = re.compile(r"[a-z0-9_./:-]+")
TYPE = b"penstock.type"
"""Where the schema of staged rows holds their type: Arrow's types cannot tell a time of day from a number."""


class DatabaseSink(StagedSink):
    """Rows in a table of a database. With a key a row replaces the one with the same key, otherwise it is added."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The database."""

    @property
    @abstractmethod
    def target(self) -> DatabaseTable:
        """The table."""

    @property
    def allows_fallback(self) -> bool:
        """Whether rows may come again: with a key the table ends with the same rows."""
        return bool(self.target.key)

    @property
    def delivery(self) -> Delivery:
        return Delivery.exactly_once(is_idempotent=bool(self.target.key))

    def encoder(self, context: SinkContext) -> StagedEncoder:
        return _TypedRows(context.record_type, self.target)

    def check(self, record_type: TypeInformation) -> None:
        """Connect, and compare the table with the records, if it exists. Nothing is changed."""
        table, columns = self.target, columns_of(record_type, self.target)
        with self.dialect.translated(), closing(self.dialect.connect()) as connection:
            if not _fits(self.dialect, connection, table, columns) and not table.create:
                raise ConnectorRefusedError(f"there is no table {table.name!r} in {self.dialect.name}; create it")

    def publish(self, output: StagedOutput) -> None:
        dialect = self.dialect
        with dialect.translated(), closing(dialect.connect()) as connection:
            try:
                _publish(dialect, connection, self.target, output)
            except BaseException:
                _roll_back(connection)
                raise


@dataclass(frozen=True)
class DialectSink(DatabaseSink):
    """Rows in a table of any database with a DB-API 2 driver, spoken to by a `Dialect` of yours."""

    database: Dialect
    table: DatabaseTable

    @property
    def dialect(self) -> Dialect:
        return self.database

    @property
    def target(self) -> DatabaseTable:
        return self.table


class _TypedRows:
    """Records as columns, with their type in the schema. A key is never null."""

    def __init__(self, record_type: TypeInformation, table: DatabaseTable) -> None:
        rows = row_type(record_type)
        self._is_value = record_type.names is None and record_type.name != "TUPLE"
        self._columns = ColumnEncoder(record_type if self._is_value else rows)
        self._schema = self._columns.schema.with_metadata({TYPE: rows.text.encode()})
        names = [column.name for column in columns_of(record_type, table)]
        self._key = [(name, names.index(name)) for name in table.key]

    def encode(self, records: Sequence[Any]) -> pa.RecordBatch:
        """One batch; a record that does not fit is an UnsupportedValueError."""
        batch = self._columns.encode(records)
        for name, index in self._key:
            if batch.column(index).null_count:
                raise UnsupportedValueError(f"a record has no value for {name!r}, which is in the key of its table")
        return batch.replace_schema_metadata(self._schema.metadata)


# ---- one transaction


def owner_key(owner: str) -> str:
    """The owner as a key of the table of markers. Two owners never have keys that a database takes for equal.

    Some compare text without regard to case, accents and spaces at the end.

    >>> owner_key("ab12/orders"), owner_key("ab12/Orders")
    ('ab12/orders', 'ab12/Orders#ed5d895a804d')
    """
    if _PLAIN.fullmatch(owner) and len(owner) <= PLAIN_CHARS:
        return owner
    return f"{owner[:PLAIN_CHARS]}#{sink_hash(owner)}"


def _publish(dialect: Dialect, connection: Any, table: DatabaseTable, output: StagedOutput) -> None:
    if _is_published(dialect, connection, output):
        return
    batches = output.batches()
    first = next(batches, None)
    columns = columns_of(parse_type(first.schema.metadata[TYPE].decode()), table) if first is not None else []
    if first is not None and not _fits(dialect, connection, table, columns):
        connection.rollback()
        _create(dialect, connection, table, columns)
        if _is_published(dialect, connection, output):
            return
    if first is not None:
        dialect.write(connection, table, columns, _of_one_type(first, batches))
    with closing(connection.cursor()) as cursor:
        cursor.execute(
            f"UPDATE {COMMITS} SET marker = {dialect.placeholder} WHERE owner = {dialect.placeholder}",
            (output.marker, owner_key(output.owner)),
        )
    connection.commit()


def _is_published(dialect: Dialect, connection: Any, output: StagedOutput) -> bool:
    """Begin the transaction that publishes, unless the rows are already published."""
    marker = _locked_marker(dialect, connection, owner_key(output.owner))
    if marker is None:
        raise ConnectorUnavailableError(f"the marker of {output.owner!r} in {dialect.name} disappeared")
    if output.is_covered_by(marker):
        connection.rollback()
        return True
    return False


def _locked_marker(dialect: Dialect, connection: Any, owner: str) -> int | None:
    """The stored marker, locked. The table and the owner's row are created in earlier transactions."""
    try:
        marker = dialect.lock_marker(connection, owner)
    except Exception:  # the table may be missing; each driver has its own error for that
        connection.rollback()
        _execute(
            connection,
            f"CREATE TABLE IF NOT EXISTS {COMMITS} (owner varchar(500) PRIMARY KEY, marker bigint NOT NULL)",
        )
        marker = dialect.lock_marker(connection, owner)
    if marker is not None:
        return marker
    connection.rollback()
    try:
        _execute(connection, f"INSERT INTO {COMMITS} VALUES ({dialect.placeholder}, -1)", (owner,))
    except Exception as error:  # another driver was first; the next line sees its row
        connection.rollback()
        marker = dialect.lock_marker(connection, owner)
        if marker is None:
            raise error
        return marker
    return dialect.lock_marker(connection, owner)


def _fits(dialect: Dialect, connection: Any, table: DatabaseTable, columns: list[Column]) -> bool:
    """Return whether the table exists. Raises if it exists and does not fit."""
    found = dialect.find_columns(connection, table)
    if found is None:
        return False
    if table.statement:
        return True  # only the database can tell whether it accepts the columns of a statement
    require_fit(table, columns, found, dialect.accepts, dialect.column_type)
    problem = dialect.missing_key(connection, table) if table.key else None
    if problem is not None:
        raise ConnectorRefusedError(
            f"table {table.name!r} cannot be written by key ({', '.join(table.key)}): {problem}; add a primary key or "
            f"unique index on exactly these columns"
        )
    return True


def _create(dialect: Dialect, connection: Any, table: DatabaseTable, columns: list[Column]) -> None:
    if not table.create:
        raise ConnectorRefusedError(f"there is no table {table.name!r} in {dialect.name}; create it")
    parts = [f"{dialect.quote(column.name)} {dialect.column_type(column.type)}" for column in columns]
    if table.key:
        parts.append(f"PRIMARY KEY ({', '.join(map(dialect.quote, table.key))})")
    _execute(connection, f"CREATE TABLE IF NOT EXISTS {dialect.quote(table.name)} ({', '.join(parts)})")


def _of_one_type(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in chain([first], rest):
        assert batch.schema.metadata == first.schema.metadata, "all rows of an attempt have one type"
        yield batch


def _execute(connection: Any, statement: str, parameters: tuple[Any, ...] = ()) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement, parameters)
    connection.commit()


def _roll_back(connection: Any) -> None:
    try:
        connection.rollback()
    except Exception:  # noqa: S110 - the connection is lost, and the transaction with it
        pass
