"""PostgreSQL, a real server: the conformance suite, types, refusals, readers that poll, a server that goes away."""

import threading
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from penstock.common import Types
from penstock.connectors.postgres import PostgresSink
from penstock.datastream import MapFunction
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.errors import ConnectorRefusedError, ConnectorUnavailableError, PenstockError
from penstock.model.sink import Sink
from penstock.model.types import resolve_type
from penstock.testing import CHECKPOINT, CRASH, Harness
from penstock.testing.conformance_sink import CHECKS, SinkSystem
from penstock.testing.conformance_sink.sink_job import SinkJob
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

Check = Callable[[SinkSystem], None]
PAIRS = resolve_type("id bigint, value bigint")
COPIED = "INSERT INTO numbers (id, value) VALUES (?, ?)"
UPSERT = f"{COPIED} ON CONFLICT (id) DO UPDATE SET value = excluded.value"


@pytest.fixture
def url(database: str) -> str:
    return database


def query(url: str, statement: str, *parameters: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []


class Database(SinkSystem):
    """A database whose every statement and commit fails before and after."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch, sink: Sink, *, upserts: bool) -> None:
        super().__init__()
        self.upserts = upserts
        self._sink = sink
        faults, real = self.faults, psycopg.Connection
        self.reader = real.connect(url, autocommit=True)

        class Connection(real):  # type: ignore[misc, valid-type]
            def execute(self, *args: Any, **named: Any) -> Any:
                return faults.call(super().execute, *args, **named)

            def commit(self) -> None:
                faults.call(super().commit)

        monkeypatch.setattr(psycopg, "connect", Connection.connect)

    def sink(self) -> Sink:
        return self._sink

    def rows(self) -> list[tuple[int, int]]:
        if self.reader.execute("SELECT to_regclass('numbers')").fetchone() == (None,):
            return []
        return list(self.reader.execute("SELECT id, value FROM numbers ORDER BY ctid").fetchall())

    def leftovers(self) -> Sequence[object]:
        tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        return [name for (name,) in self.reader.execute(tables) if name not in ("numbers", "penstock_commits")]

    def clear(self) -> None:
        self.reader.execute("TRUNCATE numbers")


@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "upsert"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_q5_q7_conformance(check: Check, key: Sequence[str], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system = Database(url, monkeypatch, PostgresSink(url, "public.numbers", key=key), upserts=bool(key))
    with system.reader:
        check(system)


@pytest.mark.parametrize("sql", [COPIED, UPSERT], ids=["copied", "statement"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_q5_q7_conformance_of_the_jdbc_sink(check: Check, sql: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query(url, f"CREATE TABLE numbers (id bigint{' PRIMARY KEY' if sql is UPSERT else ''}, value bigint)")
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:{url}").build()
    sink = JdbcSink.sink(sql, Types.ROW([Types.LONG(), Types.LONG()]), options)
    system = Database(url, monkeypatch, sink, upserts=sql is UPSERT)
    with system.reader:
        check(system)


class Echo(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def harness(sink: Sink, record_type: Any) -> Harness:
    return Harness.non_keyed(Echo(), sink=sink, sink_type=resolve_type(record_type))


# ---- rows


def test_every_type_has_a_column(url: str) -> None:
    at, span = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc), -timedelta(days=3, microseconds=7)
    fields: list[tuple[str, Any, Any, Any]] = [
        ("a", Types.BOOLEAN(), True, True),
        ("b", Types.BYTE(), -128, -128),
        ("c", Types.LONG(), 2**63 - 1, 2**63 - 1),
        ("d", Types.DOUBLE(), float("-inf"), float("-inf")),
        ("e", Types.STRING(), 'it\'s "\\.\n,', 'it\'s "\\.\n,'),
        ("empty", Types.STRING(), "", ""),
        ("f", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0x\xff", b"\0x\xff"),
        ("g", Types.SQL_DATE(), date(1, 1, 2), date(1, 1, 2)),
        ("h", Types.SQL_TIME(), time(1, 2, 3, 4), time(1, 2, 3, 4)),
        ("i", Types.SQL_TIMESTAMP(), at, at),
        ("ntz", resolve_type("timestamp_ntz"), at.replace(tzinfo=None), at.replace(tzinfo=None)),
        ("j", Types.BIG_INT(), -(10**37), Decimal(-(10**37))),
        ("k", Types.BIG_DEC(), Decimal("1.50"), Decimal("1.50")),
        ("l", resolve_type("decimal(10,3)"), Decimal("-1.500"), Decimal("-1.500")),
        ("m", Types.LIST(Types.LONG()), [1, None], [1, None]),
        ("n", Types.MAP(Types.STRING(), Types.LONG()), {"x": 1}, {"x": 1}),
        ("o", Types.ROW_NAMED(["p", "q"], [Types.LONG(), Types.STRING()]), (1, "ü"), {"p": 1, "q": "ü"}),
        ("r", resolve_type("interval day to second"), span, span),
        ("Odd \"name'", Types.FLOAT(), 0.5, 0.5),
    ]  # fmt: skip
    record_type = Types.ROW_NAMED([f[0] for f in fields], [f[1] for f in fields])
    sink = PostgresSink(url, "t")
    harness(sink, record_type).feed([tuple(f[2] for f in fields), (None,) * len(fields), CHECKPOINT])
    assert query(url, "SET TimeZone = 'UTC'") == []
    [found, empty] = query(url, "SELECT * FROM t")
    assert dict(zip([f[0] for f in fields], found, strict=True)) == {f[0]: f[3] for f in fields}
    assert set(empty) == {None}
    sink.check(record_type)  # the table that it made fits
    PostgresSink(url, "t", create_table=False).check(record_type)


def test_one_column_of_nulls(url: str) -> None:
    harness(PostgresSink(url, "t"), "value string").feed([("",), (None,), ("\\.",), ("a",), CHECKPOINT])
    assert query(url, "SELECT value FROM t") == [("",), (None,), ("\\.",), ("a",)]


def test_jobs_survive_crashes(url: str) -> None:
    harness(PostgresSink(url, "s.t", key="id"), PAIRS)
    query(url, "CREATE SCHEMA s")
    sink = PostgresSink(url, "s.t", key="id")
    harness(sink, PAIRS).feed([(1, 1), (2, 2), CHECKPOINT, (1, 3), (1, 4), CRASH, CHECKPOINT])
    assert sorted(query(url, "SELECT * FROM s.t")) == [(1, 4), (2, 2)]


def test_a_nul_is_refused_where_it_was_made(url: str) -> None:
    with pytest.raises(PenstockError, match="field 'value' has a NUL character"):
        harness(PostgresSink(url, "t"), Types.STRING()).feed(["a\0b", CHECKPOINT])


def test_a_reader_never_sees_a_part_of_a_checkpoint(url: str) -> None:
    class System(SinkSystem):
        def sink(self) -> Sink:
            return PostgresSink(url, "numbers")

        def rows(self) -> list[tuple[int, int]]:
            return []

        def leftovers(self) -> Sequence[object]:
            return []

    job = SinkJob(System(), subtask_count=2).start()
    job.checkpoint([(0, n) for n in range(1000)], [(0, n) for n in range(1000)])
    seen, is_over = set(), threading.Event()

    def poll() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not is_over.is_set():
                seen.add(connection.execute("SELECT count(*) FROM numbers").fetchall()[0][0])

    reader = threading.Thread(target=poll)
    reader.start()
    for number in range(20):
        job.checkpoint([(number, n) for n in range(1000)], [(number, n) for n in range(1000)])
    is_over.set()
    reader.join()
    assert len(seen) > 1 and all(count % 2000 == 0 for count in seen), sorted(seen)


# ---- refusals


def test_a_table_with_another_schema_is_refused_with_both(url: str) -> None:
    query(url, "CREATE TABLE t (id int, value varchar(3), other date NOT NULL, n serial NOT NULL)")
    with pytest.raises(ConnectorRefusedError) as refused:
        PostgresSink(url, "t").check(PAIRS)
    text = str(refused.value)
    assert "column 'id' is integer and cannot store LONG" in text
    assert "column 'value' is character varying(3) and cannot store LONG" in text
    assert "column 'other' needs a value" in text and "'n' needs" not in text
    assert "the table has (id integer, value character varying(3), other date, n integer)" in text
    assert "the records need (id bigint, value bigint)" in text


@pytest.mark.parametrize(
    ("declared", "sql", "fits"),
    [
        ("decimal(10,2)", "numeric(12,4)", True),
        ("decimal(10,2)", "numeric(10,4)", False),
        ("decimal(10,2)", "numeric", True),
        ("int", "numeric(10)", True),
        ("bigint", "numeric(10)", False),
        ("string", "varchar(3)", True),
        ("string", "uuid", True),
        ("timestamp", "timestamp", True),
        ("timestamp_ntz", "timestamptz", False),
        ("array<int>", "json", True),
        ("array<int>", "int[]", False),
        ("double", "real", False),
        ("binary", "text", False),
    ],
)
def test_which_columns_fit(declared: str, sql: str, fits: bool, url: str) -> None:
    query(url, f"CREATE TABLE t (x {sql})")
    sink = PostgresSink(url, "t")
    if fits:
        sink.check(resolve_type(f"x {declared}"))
    else:
        with pytest.raises(ConnectorRefusedError, match="cannot store"):
            sink.check(resolve_type(f"x {declared}"))


def test_a_key_needs_a_unique_index_on_exactly_its_columns(url: str) -> None:
    query(url, "CREATE TABLE t (id bigint, value bigint)")
    query(url, "CREATE UNIQUE INDEX ON t (id, value)")
    query(url, "CREATE UNIQUE INDEX ON t (id) WHERE value > 0")
    with pytest.raises(ConnectorRefusedError, match=r"by key \(id\): it has no primary key or unique index"):
        PostgresSink(url, "t", key="id").check(PAIRS)
    PostgresSink(url, "t", key=["value", "id"]).check(PAIRS)


def test_what_is_wrong_with_a_connection_is_said_without_the_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = url.rpartition("@")[2]
    with pytest.raises(ConnectorRefusedError, match="database .* does not exist.*; create the database"):
        PostgresSink(f"postgresql://postgres:sesame@{place}x", "t").check(PAIRS)
    with pytest.raises(ConnectorRefusedError, match='role "nobody" does not exist') as refused:
        PostgresSink(f"postgresql://nobody:sesame@{place}", "t").check(PAIRS)
    assert "sesame" not in str(refused.value)
    with pytest.raises(ConnectorUnavailableError, match="refused") as away:
        PostgresSink("postgresql://postgres:sesame@127.0.0.1:1/x", "t").check(PAIRS)
    assert "sesame" not in str(away.value) and away.value.retryable


def test_a_wrong_password_is_refused_and_changes_nothing(url: str) -> None:
    user, settings = f"u_{uuid4().hex}", Path(query(url, "SHOW hba_file")[0][0])
    query(url, f"CREATE ROLE {user} LOGIN PASSWORD 'right'")
    query(url, f"GRANT CREATE ON SCHEMA public TO {user}")
    rules = settings.read_text(encoding="utf-8")
    settings.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{rules}", encoding="utf-8")
    query(url, "SELECT pg_reload_conf()")
    try:
        place = f"postgresql://{user}@{url.rpartition('@')[2]}"
        wrong = PostgresSink(place, "t", password=lambda: "sesame")
        with pytest.raises(ConnectorRefusedError, match="password authentication failed.*check the user") as refused:
            wait_until(lambda: wrong.check(PAIRS))  # until the rule is read
        assert "sesame" not in str(refused.value) and not refused.value.retryable
        PostgresSink(place, "t", password=lambda: "right").check(PAIRS)
        assert query(url, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []
    finally:
        settings.write_text(rules, encoding="utf-8")
        query(url, "SELECT pg_reload_conf()")


def test_a_check_changes_nothing(url: str) -> None:
    PostgresSink(url, "t", key="id").check(PAIRS)
    assert query(url, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []
    with pytest.raises(ConnectorRefusedError, match="there is no table 't'"):
        PostgresSink(url, "t", create_table=False).check(PAIRS)


def test_a_row_that_breaks_a_rule_of_the_table_can_be_committed_when_the_table_is_changed(url: str) -> None:
    query(url, "CREATE TABLE t (value varchar(3))")

    class System(SinkSystem):
        record_type = Types.STRING()

        def sink(self) -> Sink:
            return PostgresSink(url, "t")

        def rows(self) -> list[tuple[int, int]]:
            return []

        def leftovers(self) -> Sequence[object]:
            return []

        def record(self, id: int, value: int) -> Any:
            return "x" * value

    job = SinkJob(System()).start()
    with pytest.raises(ConnectorRefusedError, match="too long.*change the table, and the commit will succeed"):
        job.checkpoint([(1, 3), (2, 4)])
    assert query(url, "SELECT * FROM t") == []
    query(url, "ALTER TABLE t ALTER COLUMN value TYPE varchar(4)")
    job.commit(job.completed)
    assert query(url, "SELECT * FROM t") == [("xxx",), ("xxxx",)]
