"""SQLite: the conformance suite with a database that fails at every call, types, schemas and a real second process."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.connectors.database import DatabaseTable, DialectSink
from penstock.connectors.sqlite import SqliteDialect, SqliteSink
from penstock.datastream import MapFunction
from penstock.errors import (
    ConnectorRefusedError,
    ConnectorUnavailableError,
    UnsupportedValueError,
    UsageError,
    UserFunctionError,
)
from penstock.model.sink import Sink
from penstock.model.types import resolve_type
from penstock.testing import CHECKPOINT, CRASH, Harness
from penstock.testing.conformance_sink import CHECKS, SinkSystem
from penstock.testing.conformance_sink.sink_job import SinkJob
from tests.connectors.database.faulty_sqlite import FaultySqlite

Check = Callable[[SinkSystem], None]
PAIRS = resolve_type("id bigint, value bigint")


def cases() -> list[Any]:
    """The long checks of the second mode are not run every day."""
    long = ("a_crash", "a_lost_reply")
    return [
        pytest.param(check, key, marks=[pytest.mark.full] if key and check.__name__.startswith(long) else [])
        for check in CHECKS
        for key in ((), ("id",))
    ]


@pytest.mark.parametrize(("check", "key"), cases())
def test_q5_q7_conformance(check: Check, key: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "numbers.db"
    check(FaultySqlite(path, monkeypatch, SqliteSink(path, "numbers", key=key), upserts=bool(key)))


class Echo(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def harness(sink: Sink, record_type: Any) -> Harness:
    return Harness.non_keyed(Echo(), sink=sink, sink_type=resolve_type(record_type))


def table(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows


# ---- jobs


def test_rows_appear_with_their_checkpoint_and_once_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    job = harness(SqliteSink(path, "t"), PAIRS).feed([(1, 1), (2, 2)])
    assert not path.exists()
    job.feed([CHECKPOINT, (3, 3), CRASH, CHECKPOINT])
    assert table(path, "SELECT * FROM t") == [(1, 1), (2, 2), (3, 3)]


def test_q7_the_last_value_of_a_key_is_there(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    sink = SqliteSink(path, "totals", key="id")
    harness(sink, PAIRS).feed([(1, 1), (2, 2), CHECKPOINT, (1, 3), (1, 4), CRASH, CHECKPOINT])
    assert table(path, "SELECT * FROM totals ORDER BY id") == [(1, 4), (2, 2)]
    assert sink.allows_fallback and sink.delivery.is_idempotent


def test_a_key_is_never_null(tmp_path: Path) -> None:
    with pytest.raises((UnsupportedValueError, UserFunctionError), match="no value for 'id'"):
        harness(SqliteSink(tmp_path / "t.db", "t", key="id"), PAIRS).feed([(None, 1), CHECKPOINT])


def test_every_type_has_a_column(tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    fields: list[tuple[str, Any, Any, Any]] = [
        ("a", Types.BOOLEAN(), True, 1),
        ("b", Types.BYTE(), -1, -1),
        ("c", Types.LONG(), 2**63 - 1, 2**63 - 1),
        ("d", Types.DOUBLE(), 1.5, 1.5),
        ("e", Types.STRING(), "it's\0", "it's\0"),
        ("f", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0x", b"\0x"),
        ("g", Types.SQL_DATE(), date(2026, 1, 2), "2026-01-02"),
        ("h", Types.SQL_TIME(), time(1, 2, 3, 4), "01:02:03.000004"),
        ("i", Types.SQL_TIMESTAMP(), at, "2026-01-02 03:04:05.000006+00:00"),
        ("j", Types.BIG_INT(), 10**30, str(10**30)),
        ("k", Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        ("l", resolve_type("decimal(10,3)"), Decimal("1.500"), "1.500"),
        ("m", Types.LIST(Types.LONG()), [1, 2], "[1,2]"),
        ("n", Types.MAP(Types.STRING(), Types.LONG()), {"x": 1}, '{"x":1}'),
        ("o", Types.ROW_NAMED(["p", "q"], [Types.LONG(), Types.STRING()]), (1, "y"), '{"p":1,"q":"y"}'),
        ("r", resolve_type("interval day to second"), timedelta(seconds=1), 1_000_000),
    ]
    path = tmp_path / "t.db"
    record_type = Types.ROW_NAMED([f[0] for f in fields], [f[1] for f in fields])
    sink = SqliteSink(path, "t")
    harness(sink, record_type).feed([tuple(f[2] for f in fields), (None,) * len(fields), CHECKPOINT])
    assert table(path, "SELECT * FROM t") == [tuple(f[3] for f in fields), (None,) * len(fields)]
    sink.check(record_type)  # the table that it made fits


@pytest.mark.parametrize(
    ("record_type", "rows", "expected"),
    [
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a")], [("f0", 1), ("f1", "a")]),
        (Types.STRING(), ["a"], [("value", "a")]),
    ],
)
def test_records_without_names_have_columns_too(record_type: Any, rows: Any, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    harness(SqliteSink(path, "t"), record_type).feed([*rows, CHECKPOINT])
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute("SELECT * FROM t")
        assert list(zip([c[0] for c in cursor.description], cursor.fetchone(), strict=True)) == expected


# ---- refusals


def test_a_table_with_another_schema_is_refused_with_both(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    table(path, "CREATE TABLE t (id TEXT, size REAL, other TEXT NOT NULL)")
    with pytest.raises(ConnectorRefusedError) as refused:
        SqliteSink(path, "t").check(PAIRS)
    text = str(refused.value)
    assert "column 'id' is TEXT and cannot store LONG" in text and "no column 'value'" in text
    assert "column 'other' needs a value" in text
    assert "the table has (id TEXT, size REAL, other TEXT)" in text
    assert "the records need (id INTEGER, value INTEGER)" in text


def test_a_key_without_an_index_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    table(path, "CREATE TABLE t (id INTEGER, value INTEGER)")
    sink = SqliteSink(path, "t", key=["id", "value"])
    with pytest.raises(ConnectorRefusedError, match=r"by key \(id, value\): it has no primary key or unique index"):
        sink.check(PAIRS)
    table(path, "CREATE UNIQUE INDEX k ON t (value, id)")
    sink.check(PAIRS)


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    SqliteSink(tmp_path / "t.db", "t").check(PAIRS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectorRefusedError, match="there is no folder"):
        SqliteSink(tmp_path / "none" / "t.db", "t").check(PAIRS)
    with pytest.raises(ConnectorRefusedError, match="create it"):
        SqliteSink(tmp_path / "t.db", "t", create_table=False).check(PAIRS)


@pytest.mark.parametrize("record_type", [None, Types.PICKLED_BYTE_ARRAY()])
def test_untyped_records_are_refused(record_type: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output_type="):
        SqliteSink(tmp_path / "t.db", "t").check(resolve_type(record_type))


def test_a_key_must_be_a_field(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="key column 'name' of table 't' is not a field"):
        SqliteSink(tmp_path / "t.db", "t", key="name").check(PAIRS)


def test_a_locked_database_is_worth_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.db"
    monkeypatch.setattr("penstock.connectors.sqlite.LOCK_TIMEOUT_S", 0.01)
    job = harness(SqliteSink(path, "t"), PAIRS).feed([(1, 1), CHECKPOINT, (2, 2)])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        sink = SqliteSink(path, "t")
        with (
            pytest.raises(ConnectorUnavailableError, match="another process may hold its lock"),
            sink.dialect.translated(),
        ):
            sink.dialect.lock_marker(sink.dialect.connect(), "job/out")
        other.execute("ROLLBACK")
    job.feed([CHECKPOINT])
    assert table(path, "SELECT * FROM t") == [(1, 1), (2, 2)]


class IgnoresCase(SqliteDialect):
    """As MySQL and SQL Server compare text by default."""

    def connect(self) -> Any:
        connection = super().connect()
        connection.execute(
            "CREATE TABLE IF NOT EXISTS penstock_commits (owner text COLLATE NOCASE PRIMARY KEY, marker bigint)"
        )
        return connection


def test_sinks_whose_uids_differ_only_in_case_have_markers_of_their_own(tmp_path: Path) -> None:
    database = IgnoresCase(str(tmp_path / "db"))
    for uid in ("orders", "Orders", "ORDERS", "o" * 600, "o" * 601):
        system = OneTable(DialectSink(database, DatabaseTable("t")))
        SinkJob(system, sink_uid=uid).start().checkpoint([(1, 1)])
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(5,)]
        owners = [owner for (owner,) in connection.execute("SELECT owner FROM penstock_commits")]
    assert len({owner.lower() for owner in owners}) == 5 and max(map(len, owners)) <= 500


class OneTable(SinkSystem):
    """A sink that is given."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def sink(self) -> Sink:
        return self._sink

    def rows(self) -> list[tuple[int, int]]:
        return []

    def leftovers(self) -> Sequence[object]:
        return []
