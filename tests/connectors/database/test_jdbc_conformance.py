"""The conformance suite for JdbcSink, DialectSink and a writer of `to_spark` with tokens, on SQLite that fails."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.connectors.database import DatabaseTable, DialectSink
from penstock.connectors.staged.spark_writer import SparkWriterSink
from penstock.connectors.staged.staged_sink import StagedOutput
from penstock.datastream.connectors.jdbc import JdbcSink
from penstock.model.sink import Sink
from penstock.testing.conformance_sink import CHECKS, SinkSystem
from tests.connectors.database.faulty_sqlite import FaultySqlite
from tests.connectors.database.test_jdbc_names import Own, options

Check = Callable[[SinkSystem], None]
PAIR = Types.ROW([Types.LONG(), Types.LONG()])
INSERT = "INSERT INTO numbers (id, value) VALUES (?, ?)"
UPSERT = f"{INSERT} ON CONFLICT (id) DO UPDATE SET value = excluded.value"
LONG_CHECKS = ("a_crash_within", "a_lost_reply")
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


def cases(first: Any, second: Any) -> list[Any]:
    """Every check in both modes; of the second the long ones are not run every day."""
    return [
        pytest.param(
            check, mode, marks=[pytest.mark.full] if mode is second and check.__name__.startswith(LONG_CHECKS) else []
        )
        for check in CHECKS
        for mode in (first, second)
    ]


@pytest.mark.parametrize(("check", "sql"), cases(INSERT, UPSERT))
def test_q5_q7_the_jdbc_sink(check: Check, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "numbers.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE numbers (id bigint{' PRIMARY KEY' if sql is UPSERT else ''}, value bigint)")
    sink = JdbcSink.sink(sql, PAIR, options(f"jdbc:sqlite:{path}"))
    check(FaultySqlite(path, monkeypatch, sink, upserts=sql is UPSERT))


@pytest.mark.parametrize(("check", "key"), cases((), ("id",)))
def test_q5_q7_a_dialect_of_ones_own(
    check: Check, key: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "numbers.db"
    sink = DialectSink(Own(path), DatabaseTable("numbers", tuple(key)))
    check(FaultySqlite(path, monkeypatch, sink, upserts=bool(key)))


@dataclass(frozen=True)
class TokenWriter:
    """Writes rows and their token in one transaction, and skips rows whose token is stored."""

    path: Path

    def __call__(self, output: StagedOutput) -> None:
        rows = [tuple(row.values()) for batch in output.batches() for row in batch.to_pylist()]
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            token = f"{output.owner}/{output.marker}"
            if database.execute("INSERT OR IGNORE INTO tokens VALUES (?)", (token,)).rowcount:
                for row in rows:
                    database.execute("INSERT INTO numbers VALUES (?, ?)", row)
            database.commit()


class SentWriterSink(SparkWriterSink):
    """With a writer that can be sent, because the suite sends sinks to its processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return SentWriterSink, (self._write,)


@every_check
def test_q5_a_writer_with_tokens(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "numbers.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE numbers (id bigint, value bigint)")
        database.execute("CREATE TABLE tokens (token text PRIMARY KEY)")
    sink: Sink = SentWriterSink(TokenWriter(path))
    check(FaultySqlite(path, monkeypatch, sink))
