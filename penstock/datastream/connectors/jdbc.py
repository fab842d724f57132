"""PyFlink's `JdbcSink`, for PostgreSQL and SQLite. No Java driver is used, and output appears exactly once."""

import re
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.database.database_sink import DatabaseSink, DialectSink
from penstock.connectors.database.database_table import DatabaseTable, columns_of
from penstock.connectors.database.dialect import Dialect
from penstock.connectors.database.password import Password, as_password, split_url
from penstock.connectors.postgres import PostgresDialect
from penstock.connectors.sqlite import SqliteDialect, database_file
from penstock.errors import ArgumentError, ArgumentValueError
from penstock.model.types import resolve_type

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

_INSERT = re.compile(
    r"\s*insert\s+into\s+(?P<table>[\w.]+)\s*\((?P<columns>[^()]*)\)\s*(?P<rest>.*?);?\s*", re.I | re.S
)
_VALUES = re.compile(r"values\s*\((\s*\?\s*,)*\s*\?\s*\)", re.I)
_SQLITE = "jdbc:sqlite:"


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """Where a database is. The password is not shown and not sent to other processes."""

    url: str
    driver_name: str | None = None
    user_name: str | None = None
    password: Password | None = field(default=None, repr=False)

    def get_db_url(self) -> str:
        """The URL, without a password."""
        return self.url

    def get_driver_name(self) -> str | None:
        """The Java class that PyFlink would load; not used here."""
        return self.driver_name

    def get_user_name(self) -> str | None:
        """The user."""
        return self.user_name

    def get_password(self) -> str | None:
        """The password."""
        return self.password() if self.password is not None else None

    class JdbcConnectionOptionsBuilder:
        """PyFlink's builder."""

        def __init__(self) -> None:
            self._url = ""
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: Password | None = None

        def with_url(self, url: str) -> "JdbcConnectionOptions.JdbcConnectionOptionsBuilder":
            """`jdbc:postgresql://host:port/database` or `jdbc:sqlite:/path`."""
            scheme, _, rest = url.partition(":")
            plain, password = split_url(rest)
            self._url = f"{scheme}:{plain}"
            self._password = self._password or password
            return self

        def with_driver_name(self, driver_name: str) -> "JdbcConnectionOptions.JdbcConnectionOptionsBuilder":
            """Accepted, without effect: no Java driver is loaded."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> "JdbcConnectionOptions.JdbcConnectionOptionsBuilder":
            """Set the user."""
            self._user_name = user_name
            return self

        def with_password(self, password: Any) -> "JdbcConnectionOptions.JdbcConnectionOptionsBuilder":
            """Set the password: a text, `${VARIABLE}`, or a function that returns it."""
            self._password = as_password(password)
            return self

        def build(self) -> "JdbcConnectionOptions":
            """The options."""
            if not self._url:
                raise ArgumentValueError("a JDBC connection needs with_url('jdbc:postgresql://host:port/database')")
            return JdbcConnectionOptions(self._url, self._driver_name, self._user_name, self._password)


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """Accepted: rows are written with their checkpoint, and retried for `penstock.sink.commit-timeout`."""

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Not used here."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Not used here."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Not used here."""
        return self.max_retries

    @staticmethod
    def defaults() -> "JdbcExecutionOptions":
        """Options with PyFlink's values."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> "JdbcExecutionOptions.Builder":
        """A builder."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """PyFlink's builder."""

        def __init__(self) -> None:
            self._values: dict[str, int] = {}

        def with_batch_size(self, size: int) -> "JdbcExecutionOptions.Builder":
            """Accepted."""
            self._values["batch_size"] = size
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> "JdbcExecutionOptions.Builder":
            """Accepted."""
            self._values["batch_interval_ms"] = interval_ms
            return self

        def with_max_retries(self, max_retries: int) -> "JdbcExecutionOptions.Builder":
            """Accepted."""
            self._values["max_retries"] = max_retries
            return self

        def build(self) -> "JdbcExecutionOptions":
            """The options."""
            return JdbcExecutionOptions(**self._values)


class JdbcSink:
    """Makes sinks that run an SQL statement for each record."""

    @staticmethod
    def sink(
        sql: str,
        type_info: Any,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> DatabaseSink:
        """A sink that runs `sql` with the fields of each record in place of its question marks.

        A plain `INSERT INTO table (columns) VALUES (?, …)` is sent with COPY on PostgreSQL. The table must exist.
        """
        if not isinstance(jdbc_connection_options, JdbcConnectionOptions):
            raise ArgumentError(f"JdbcSink.sink() takes JdbcConnectionOptions, not {jdbc_connection_options!r}")
        dialect = _dialect(jdbc_connection_options)
        table = _table(sql, can_copy=isinstance(dialect, PostgresDialect))
        columns_of(resolve_type(type_info), table)
        return DialectSink(dialect, table)


def _table(sql: str, *, can_copy: bool) -> DatabaseTable:
    match = _INSERT.fullmatch(sql)
    if match is None:
        raise ArgumentValueError(
            f"JdbcSink cannot run {sql!r}; write INSERT INTO table (column, …) VALUES (?, …), perhaps with ON CONFLICT"
        )
    # PostgreSQL takes names without quotes in lower case.
    columns = tuple(column.strip().lower() for column in match["columns"].split(","))
    is_plain = can_copy and '"' not in match["columns"] and _VALUES.fullmatch(match["rest"].strip())
    statement = "" if is_plain else sql.strip().removesuffix(";")
    if sql.count("?") != len(columns):
        raise ArgumentValueError(f"{sql!r} names {len(columns)} columns and has {sql.count('?')} question marks")
    return DatabaseTable(
        match["table"].lower() if can_copy else match["table"], create=False, columns=columns, statement=statement
    )


def _dialect(options: JdbcConnectionOptions) -> Dialect:
    url = options.url
    if url.startswith(_SQLITE):
        return SqliteDialect(database_file(url.removeprefix(_SQLITE)))
    if url.startswith("jdbc:postgresql://"):
        place = url.removeprefix("jdbc:postgresql://")
        user = f"{options.user_name}@" if options.user_name and "@" not in place else ""
        return PostgresDialect(f"postgresql://{user}{place}", options.password)
    raise ArgumentValueError(
        f"there is no sink for {url!r}; JdbcSink writes to jdbc:postgresql:// and jdbc:sqlite:. For another database "
        f"with a Python driver write a penstock.connectors.database.Dialect and use DialectSink"
    )
