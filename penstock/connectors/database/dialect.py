"""How to talk to a database: `Dialect`, with defaults in standard SQL for any DB-API 2 driver."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from penstock.connectors.database.column_values import parameter_rows
from penstock.connectors.database.database_table import NESTED, Column, DatabaseTable, FoundColumn
from penstock.model.types import TypeInformation

COMMITS = "penstock_commits"
"""The table of markers: for each job and sink, the last checkpoint whose rows are in the database."""

_TYPES = {
    "BOOLEAN": "boolean",
    "BYTE": "smallint",
    "SHORT": "smallint",
    "INT": "integer",
    "LONG": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "STRING": "varchar(4000)",
    "BINARY": "blob",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NTZ": "timestamp",
    "INSTANT": "timestamp",
    "DURATION": "bigint",
    "BIG_INT": "decimal(38,0)",
    "BIG_DEC": "decimal(38,18)",
}


class Dialect(ABC):
    """A database and its driver. Plain data; connections are opened in the JobManager only.

    A database with standard SQL needs only `connect`. Its connections must not be in autocommit mode. The other
    methods can be overridden where the database differs.
    """

    name = "the database"
    placeholder = "?"
    """`?` for drivers of the parameter style qmark, `%s` for format."""

    @abstractmethod
    def connect(self) -> Any:
        """A new DB-API connection."""

    @contextmanager
    def translated(self) -> Iterator[None]:
        """In the block, errors of the driver become ConnectorUnavailableError and ConnectorRefusedError."""
        yield

    def quote(self, name: str) -> str:
        """A name in SQL; `schema.table` are two names."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))

    def column_type(self, type_info: TypeInformation) -> str:
        """The SQL type of a new column."""
        if type_info.name == "DECIMAL":
            return f"decimal({type_info.arrow.precision},{type_info.arrow.scale})"
        return _TYPES["STRING" if type_info.name in NESTED else type_info.name]

    def accepts(self, sql_type: str, type_info: TypeInformation) -> bool:
        """Return whether a column of an existing table can store all values of a type. By default it is assumed to."""
        return True

    def find_columns(self, connection: Any, table: DatabaseTable) -> Mapping[str, FoundColumn] | None:
        """The columns of the table; None if it is missing. The default implementation only knows their names."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(
                f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = {self.placeholder}",
                (table.name.rpartition(".")[2],),
            )
            return {name: FoundColumn(sql_type) for name, sql_type in cursor.fetchall()} or None

    def lock_marker(self, connection: Any, owner: str) -> int | None:
        """Begin a transaction in which no other process can store the owner's marker, and return the stored one."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT marker FROM {COMMITS} WHERE owner = {self.placeholder} FOR UPDATE", (owner,))
            row = cursor.fetchone()
        return None if row is None else int(row[0])

    def write(
        self, connection: Any, table: DatabaseTable, columns: Sequence[Column], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Write rows in the transaction that has begun."""
        statement = self.statement(table, columns)
        with closing(connection.cursor()) as cursor:
            for batch in batches:
                if batch.num_rows:
                    cursor.executemany(statement, self.parameters(batch, columns))

    def parameters(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """The rows of a batch as parameters of `statement`."""
        return parameter_rows(batch, columns)

    def statement(self, table: DatabaseTable, columns: Sequence[Column]) -> str:
        """The statement that writes one row."""
        if table.statement:
            return placed(table.statement, self.placeholder)
        names = ", ".join(self.quote(column.name) for column in columns)
        values = ", ".join([self.placeholder] * len(columns))
        insert = f"INSERT INTO {self.quote(table.name)} ({names}) VALUES ({values})"
        return f"{insert} {self.on_conflict(table, columns)}" if table.key else insert

    def on_conflict(self, table: DatabaseTable, columns: Sequence[Column]) -> str:
        """The end of an insert that replaces the row with the same key."""
        key = ", ".join(map(self.quote, table.key))
        others = [self.quote(column.name) for column in columns if column.name not in table.key]
        if not others:
            return f"ON CONFLICT ({key}) DO NOTHING"
        return f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"

    def missing_key(self, connection: Any, table: DatabaseTable) -> str | None:
        """What the table lacks for its key, as a clause; None if nothing. The default trusts the table."""
        return None


def placed(statement: str, placeholder: str) -> str:
    """Replace the `?` of a statement by another parameter style, except in quoted text."""
    if placeholder == "?":
        return statement
    pieces = statement.split("'")
    return "'".join(
        (piece if index % 2 else piece.replace("%", "%%").replace("?", placeholder))
        if index % 2 == 0
        else piece.replace("%", "%%")
        for index, piece in enumerate(pieces)
    )
