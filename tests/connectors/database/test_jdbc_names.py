"""PyFlink's JdbcSink: its builders, what becomes of its URLs and statements, and passwords that nothing shows."""

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.connectors.database import DatabaseTable, Dialect, DialectSink
from penstock.connectors.database.database_table import FoundColumn
from penstock.connectors.database.dialect import placed
from penstock.connectors.postgres import PostgresDialect, PostgresSink
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from penstock.errors import ArgumentError, ArgumentValueError, ConnectorRefusedError, UsageError
from penstock.testing import CHECKPOINT, CRASH, Harness
from tests.connectors.database.test_sqlite_sink import Echo, harness, table

BOOKS = Types.ROW([Types.INT(), Types.STRING()])


def options(url: str, **also: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_driver_name("org.x.Driver")
    if "user" in also:
        builder.with_user_name(also["user"]).with_password(also["password"])
    return builder.build()


def test_a_statement_is_run_for_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    table(path, "CREATE TABLE Books (id INTEGER PRIMARY KEY, title TEXT)")
    sql = "insert into Books (ID, title) values (?, ?) on conflict (id) do update set title = title || excluded.title;"
    execution = (
        JdbcExecutionOptions.builder().with_batch_size(200).with_batch_interval_ms(10).with_max_retries(5).build()
    )
    sink = JdbcSink.sink(sql, BOOKS, options(f"jdbc:sqlite:{path}"), execution)
    sink.check(BOOKS)
    job = Harness.non_keyed(Echo(), sink=sink, sink_type=BOOKS)
    job.feed([(1, "a"), (2, "b"), CHECKPOINT, (1, "c"), CRASH, CHECKPOINT])
    assert table(path, "SELECT * FROM Books ORDER BY id") == [(1, "ac"), (2, "b")]


def test_a_plain_insert_on_postgresql_is_a_copy_and_anything_else_a_statement() -> None:
    place = options("jdbc:postgresql://db:5432/shop", user="app", password="sesame")
    sink: Any = JdbcSink.sink("INSERT INTO Books (Id, title) VALUES (?, ?)", BOOKS, place)
    assert sink.target == DatabaseTable("books", create=False, columns=("id", "title"))
    assert sink.dialect.url == "postgresql://app@db:5432/shop" and sink.dialect.password() == "sesame"
    sql = "INSERT INTO books (id, title) VALUES (?, upper(?))"
    assert JdbcSink.sink(sql, BOOKS, place).target.statement == sql


def test_getters() -> None:
    found = options("jdbc:postgresql://db/shop", user="app", password="sesame")
    assert (found.get_db_url(), found.get_user_name(), found.get_password(), found.get_driver_name()) == (
        "jdbc:postgresql://db/shop", "app", "sesame", "org.x.Driver",
    )  # fmt: skip
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_interval_ms(), defaults.get_batch_size(), defaults.get_max_retries()) == (0, 5000, 3)


def test_refusals() -> None:
    place = options("jdbc:postgresql://db/shop")
    with pytest.raises(ArgumentValueError, match="no sink for 'jdbc:mysql://db/shop'.*Dialect"):
        JdbcSink.sink("insert into t (a) values (?)", Types.ROW([Types.INT()]), options("jdbc:mysql://db/shop"))
    with pytest.raises(ArgumentValueError, match="cannot run 'delete from t'"):
        JdbcSink.sink("delete from t", BOOKS, place)
    with pytest.raises(ArgumentValueError, match="2 columns and has 1 question marks"):
        JdbcSink.sink("insert into t (a, b) values (?, 1)", BOOKS, place)
    with pytest.raises(UsageError, match="has 1 columns, the record type .* 2"):
        JdbcSink.sink("insert into t (a) values (?)", BOOKS, place)
    with pytest.raises(ArgumentError, match="JdbcConnectionOptions"):
        JdbcSink.sink("insert into t (a) values (?)", BOOKS, None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentValueError, match="with_url"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build()


def test_placeholders_in_quoted_text_stay() -> None:
    assert (
        placed("INSERT INTO t (a, b) VALUES (?, 'what? 5%')", "%s") == "INSERT INTO t (a, b) VALUES (%s, 'what? 5%%')"
    )


# ---- any other database


class Own(Dialect):
    """All that a driver with standard SQL needs, here for SQLite without its own dialect."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self) -> Any:
        return sqlite3.connect(self.path)

    def lock_marker(self, connection: Any, owner: str) -> int | None:  # SQLite has no FOR UPDATE
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        row = connection.execute("SELECT marker FROM penstock_commits WHERE owner = ?", (owner,)).fetchone()
        return None if row is None else int(row[0])

    def find_columns(self, connection: Any, table: DatabaseTable) -> Any:  # nor an information schema
        rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table.name,)).fetchall()
        return {name: FoundColumn("anything") for (name,) in rows} or None


def test_a_dialect_of_ones_own(tmp_path: Path) -> None:
    sink = DialectSink(Own(tmp_path / "t.db"), DatabaseTable("t", key=("id",)))
    job = harness(sink, "id bigint, value string")
    job.feed([(1, "a"), CHECKPOINT, (1, "b"), (2, "c"), CRASH, CHECKPOINT])
    assert table(tmp_path / "t.db", "SELECT * FROM t ORDER BY id") == [(1, "b"), (2, "c")]
    with pytest.raises(ConnectorRefusedError, match="it has no column 'other'"):
        sink.check(Types.ROW_NAMED(["id", "other"], [Types.LONG(), Types.LONG()]))


# ---- passwords


def test_a_password_is_not_shown_and_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = [
        PostgresSink("postgresql://app:sesame@db/shop", "t"),
        PostgresSink("postgresql://app@db/shop", "t", password="sesame"),
        PostgresSink("postgresql://app@db/shop", "t", password=lambda: "sesame"),
    ]
    for sink in sinks:
        dialect = sink.dialect
        assert isinstance(dialect, PostgresDialect) and dialect.password is not None
        assert dialect.password() == "sesame"
        for shown in (repr(sink), repr(dialect), dialect.name, str(sink.target), repr(dialect.password)):
            assert "sesame" not in shown
        data = pickle.dumps(sink)
        assert b"sesame" not in data
        with pytest.raises(UsageError, match="stays in the process"):
            pickle.loads(data).password()


def test_a_password_in_the_environment_travels_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = pickle.loads(pickle.dumps(PostgresSink("postgresql://app:${APP_PASSWORD}@db/shop", "t")))
    with pytest.raises(UsageError, match="APP_PASSWORD with a password is not set"):
        sink.password()
    monkeypatch.setenv("APP_PASSWORD", "sesame")
    assert sink.password() == "sesame" and "sesame" not in repr(sink)


def test_a_url_of_another_kind_is_refused_without_showing_it() -> None:
    with pytest.raises(ArgumentValueError) as refused:
        PostgresSink("mysql://app:sesame@db/shop", "t")
    assert "sesame" not in str(refused.value)
