"""A sink for PostgreSQL. The only module that imports psycopg; its errors become ours here.

Rows are sent with COPY: into the table itself, or, with a key, into a temporary table from which one statement inserts
or replaces the last row of each key.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from penstock.connectors.database.column_values import json_texts
from penstock.connectors.database.database_sink import DatabaseSink
from penstock.connectors.database.database_table import NESTED, Column, DatabaseTable, FoundColumn, columns_of
from penstock.connectors.database.dialect import COMMITS, Dialect
from penstock.connectors.database.password import Password, as_password, split_url, with_password
from penstock.connectors.sqlite import key_columns
from penstock.connectors.staged.staged_writer import StagedEncoder
from penstock.errors import (
    ArgumentValueError,
    ConfigurationError,
    ConnectorRefusedError,
    ConnectorUnavailableError,
    UnsupportedValueError,
)
from penstock.model.sink import SinkContext
from penstock.model.types import TypeInformation

if TYPE_CHECKING:
    from psycopg import Connection

INSTALL = "pip install 'penstock[postgres]'"
CONNECT = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "penstock",
}
"""Settings of libpq that the URL may override: they detect a server that has disappeared."""
LOCK_TIMEOUT = "30s"
IDLE_TIMEOUT = "60s"
"""The server ends the transaction of a suspended driver, so that the next driver can continue."""

_TYPES = {
    "BOOLEAN": "boolean",
    "BYTE": "smallint",
    "SHORT": "smallint",
    "INT": "integer",
    "LONG": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "STRING": "text",
    "BINARY": "bytea",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamptz",
    "TIMESTAMP_NTZ": "timestamp",
    "INSTANT": "timestamptz",
    "DURATION": "interval",
    "BIG_INT": "numeric(38,0)",
    "BIG_DEC": "numeric",
}
_TEXTS = {"text", "varchar", "bpchar", "citext", "uuid", "json", "jsonb"}
_JSON = {"json", "jsonb", "text", "varchar"}
_ACCEPTED: dict[str, set[str]] = {
    "BOOLEAN": {"bool"},
    "BYTE": {"int2", "int4", "int8", "numeric"},
    "SHORT": {"int2", "int4", "int8", "numeric"},
    "INT": {"int4", "int8", "numeric"},
    "LONG": {"int8", "numeric"},
    "FLOAT": {"float4", "float8"},
    "DOUBLE": {"float8"},
    "STRING": _TEXTS,
    "BINARY": {"bytea"},
    "DATE": {"date"},
    "TIME": {"time"},
    "TIMESTAMP": {"timestamptz", "timestamp"},
    "TIMESTAMP_NTZ": {"timestamp"},
    "INSTANT": {"timestamptz", "timestamp"},
    "DURATION": {"interval"},
    "BIG_DEC": {"numeric"},
    **dict.fromkeys(NESTED, _JSON),
}
_DIGITS = {"BYTE": 3, "SHORT": 5, "INT": 10, "LONG": 19, "BIG_INT": 38}
_FIND_COLUMNS = """
SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod), a.atttypmod,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_FIND_KEYS = """
SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1]) GROUP BY i.indexrelid
"""
_CSV = csv.WriteOptions(include_header=False, quoting_style="needed")


@dataclass(frozen=True)
class PostgresSink(DatabaseSink):
    """Rows in a table of PostgreSQL, exactly once. With a `key` a row replaces the one with the same key.

    The password is that of PGPASSWORD or ~/.pgpass, a function, or the variable that the URL names.

    >>> PostgresSink("postgresql://app:${APP_PASSWORD}@db.example.com/shop", "totals", key="customer")
    PostgresSink(url='postgresql://app@db.example.com/shop', table='totals', key=('customer',), create_table=True)
    """

    url: str
    table: str
    key: str | Sequence[str] = ()
    create_table: bool = True
    password: str | Callable[[], str] | Password | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("postgresql://", "postgres://")):
            raise ArgumentValueError(
                "the URL of a PostgresSink begins with postgresql://, such as postgresql://host/db"
            )
        url, in_url = split_url(self.url)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "password", as_password(self.password) or in_url)
        object.__setattr__(self, "key", key_columns(self.key))
        assert self.target

    @property
    def dialect(self) -> Dialect:
        return PostgresDialect(self.url, as_password(self.password))

    @property
    def target(self) -> DatabaseTable:
        return DatabaseTable(self.table, tuple(self.key), self.create_table)

    def encoder(self, context: SinkContext) -> StagedEncoder:
        return _WithoutNul(super().encoder(context), columns_of(context.record_type, self.target))


@dataclass(frozen=True)
class PostgresDialect(Dialect):
    """PostgreSQL through psycopg 3."""

    url: str
    password: Password | None = None
    placeholder = "%s"

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"PostgreSQL at {self.url}"

    def connect(self) -> "Connection[Any]":
        psycopg = _psycopg()
        given = psycopg.conninfo.conninfo_to_dict(with_password(self.url, self.password))
        connection: Connection[Any] = psycopg.connect(**{**CONNECT, **given})
        return connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        psycopg = _psycopg()
        try:
            yield
        except psycopg.Error as error:
            text = f"{self.name}: {_reason(error)}"
            # Without a state the server was not reached; 08, 53, 57: connections, resources, a stop; 40, 55: locks.
            state = error.sqlstate or _refused_state(str(error))
            if state is None or state[:2] in ("08", "53", "57", "40", "55"):
                raise ConnectorUnavailableError(text) from None
            raise ConnectorRefusedError(f"{text}{_advice(state)}") from None

    def column_type(self, type_info: TypeInformation) -> str:
        if type_info.name == "DECIMAL":
            return f"numeric({type_info.arrow.precision},{type_info.arrow.scale})"
        return "jsonb" if type_info.name in NESTED else _TYPES[type_info.name]

    def accepts(self, sql_type: str, type_info: TypeInformation) -> bool:
        name, _, arguments = sql_type.removesuffix(")").partition("(")
        short = _SHORT.get(name, name)
        if short == "numeric" and type_info.name in (*_DIGITS, "DECIMAL", "BIG_DEC"):
            return _numeric_fits(arguments, type_info)
        return short in _ACCEPTED.get(type_info.name, set())

    def find_columns(self, connection: Any, table: DatabaseTable) -> Mapping[str, FoundColumn] | None:
        rows = connection.execute(_FIND_COLUMNS, (self.quote(table.name),)).fetchall()
        return {name: FoundColumn(full, bool(required)) for name, _, full, _, required in rows} or None

    def missing_key(self, connection: Any, table: DatabaseTable) -> str | None:
        keys = [set(row[0]) for row in connection.execute(_FIND_KEYS, (self.quote(table.name),)).fetchall()]
        return None if set(table.key) in keys else "it has no primary key or unique index on them"

    def lock_marker(self, connection: Any, owner: str) -> int | None:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'")
        row = connection.execute(f"SELECT marker FROM {COMMITS} WHERE owner = %s FOR UPDATE", (owner,)).fetchone()
        return None if row is None else int(row[0])

    def write(
        self, connection: Any, table: DatabaseTable, columns: Sequence[Column], batches: Iterable[pa.RecordBatch]
    ) -> None:
        if table.statement:
            super().write(connection, table, columns, batches)
        elif table.key:
            self._upsert(connection, table, columns, batches)
        else:
            self._copy(connection, self.quote(table.name), columns, batches)

    def _upsert(
        self, connection: Any, table: DatabaseTable, columns: Sequence[Column], batches: Iterable[pa.RecordBatch]
    ) -> None:
        names = ", ".join(self.quote(column.name) for column in columns)
        key = ", ".join(map(self.quote, table.key))
        target = self.quote(table.name)
        connection.execute(
            f"CREATE TEMPORARY TABLE penstock_rows ON COMMIT DROP AS SELECT {names} FROM {target} WITH NO DATA"
        )
        connection.execute("ALTER TABLE penstock_rows ADD COLUMN penstock_order bigserial")
        self._copy(connection, "penstock_rows", columns, batches)
        connection.execute(
            f"INSERT INTO {target} ({names}) SELECT DISTINCT ON ({key}) {names} FROM penstock_rows "
            f"ORDER BY {key}, penstock_order DESC {self.on_conflict(table, columns)}"
        )

    def _copy(self, connection: Any, target: str, columns: Sequence[Column], batches: Iterable[pa.RecordBatch]) -> None:
        names = ", ".join(self.quote(column.name) for column in columns)
        with connection.cursor() as cursor, cursor.copy(f"COPY {target} ({names}) FROM STDIN (FORMAT csv)") as copy:
            for batch in batches:
                copy.write(_csv_lines(batch, columns))


class _WithoutNul:
    """Refuses text with a NUL character, which PostgreSQL cannot store, in the operator that emitted it."""

    def __init__(self, encoder: StagedEncoder, columns: Sequence[Column]) -> None:
        self._encoder = encoder
        self._texts = [(index, column.name) for index, column in enumerate(columns) if column.type.name == "STRING"]

    def encode(self, records: Sequence[Any]) -> pa.RecordBatch:
        batch = self._encoder.encode(records)
        for index, name in self._texts:
            if pc.any(pc.match_substring(batch.column(index), "\0")).as_py():
                raise UnsupportedValueError(
                    f"field {name!r} has a NUL character, which PostgreSQL cannot store in text"
                )
        return batch


# ---- rows as CSV


def _csv_lines(batch: pa.RecordBatch, columns: Sequence[Column]) -> bytes:
    arrays = [_csv_column(array, column.type) for array, column in zip(batch.columns, columns, strict=True)]
    lines = io.BytesIO()
    csv.write_csv(pa.table(arrays, names=[column.name for column in columns]), lines, _CSV)
    return lines.getvalue()


def _csv_column(array: pa.Array, type_info: TypeInformation) -> pa.Array:
    """A column whose text in CSV is what PostgreSQL reads. Null is an empty field, empty text is quoted."""
    if type_info.name in NESTED:
        return pa.array(json_texts(array, type_info), pa.string())
    if type_info.name in ("BINARY", "PICKLE"):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in array.to_pylist()], pa.string())
    if type_info.name == "DURATION":
        micros = array.cast(pa.int64())
        return pc.binary_join_element_wise(micros.cast(pa.string()), pa.scalar("microseconds"), " ")
    if type_info.name == "TIME":
        return array.cast(pa.time64("us")).cast(pa.string())
    if type_info.name in ("DECIMAL", "BIG_INT"):
        return array.cast(pa.string())
    return array


# ---- types and errors

_SHORT = {
    "boolean": "bool",
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "real": "float4",
    "double precision": "float8",
    "character varying": "varchar",
    "character": "bpchar",
    "timestamp with time zone": "timestamptz",
    "timestamp without time zone": "timestamp",
    "time without time zone": "time",
}


def _numeric_fits(arguments: str, type_info: TypeInformation) -> bool:
    if not arguments:
        return True
    precision, _, scale = arguments.partition(",")
    whole, fraction = int(precision) - int(scale or 0), int(scale or 0)
    if type_info.name == "DECIMAL":
        needed = type_info.arrow
        return bool(whole >= needed.precision - needed.scale and fraction >= needed.scale)
    return type_info.name in _DIGITS and whole >= _DIGITS[type_info.name]


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError(f"PostgresSink needs psycopg: {INSTALL}") from error
    return psycopg


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return " ".join(dict.fromkeys(lines)) or type(error).__name__


def _refused_state(text: str) -> str | None:
    """The SQLSTATE of an error while connecting, which psycopg only gives as text."""
    if "password" in text and ("failed" in text or "no password supplied" in text) or "pg_hba.conf" in text:
        return "28P01"
    if "database" in text and "does not exist" in text:
        return "3D000"
    if "role" in text and "does not exist" in text:
        return "28000"
    return None


def _advice(state: str) -> str:
    if state.startswith("28"):
        return "; check the user, and the password in PGPASSWORD, ~/.pgpass or the variable that the URL names"
    if state == "3D000":
        return "; create the database, or correct the URL"
    if state == "42501":
        return "; grant the user the right"
    if state.startswith(("22", "23")):
        return "; a row breaks a rule of the table: change the table, and the commit will succeed"
    return ""
