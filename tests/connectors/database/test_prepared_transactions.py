"""A TwoPhaseCommitSink on PREPARE TRANSACTION of a real PostgreSQL, in the conformance suite."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from penstock.datastream import TwoPhaseCommitSink
from penstock.model.sink import Sink
from penstock.testing.conformance_sink import CHECKS, SinkSystem

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class PreparedSink(TwoPhaseCommitSink):
    """Rows and the name of their transaction in tables `numbers` and `committed`."""

    url: str

    def begin(self, name: str) -> Any:
        connection = psycopg.connect(self.url)
        connection.execute("INSERT INTO committed VALUES (%s)", (name,))
        return connection, name

    def write(self, transaction: Any, records: Sequence[Any]) -> None:
        with transaction[0].cursor() as cursor, cursor.copy("COPY numbers (id, value) FROM STDIN") as copy:
            for record in records:
                copy.write_row(record)

    def pre_commit(self, transaction: Any) -> None:
        connection, name = transaction
        connection.execute(f"PREPARE TRANSACTION '{name}'")
        connection.close()

    def commit_transaction(self, name: str) -> None:
        self._run(f"COMMIT PREPARED '{name}'")

    def was_committed(self, name: str) -> bool:
        return bool(self._run("SELECT 1 FROM committed WHERE name = %s", name))

    def abort(self, name: str, transaction: Any | None) -> None:
        if transaction is not None:
            transaction[0].close()
        elif self.pending(name):
            self._run(f"ROLLBACK PREPARED '{name}'")

    def pending(self, prefix: str) -> Iterable[str]:
        rows = self._run("SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s) AND database = current_database()", prefix)  # noqa: E501  # fmt: skip
        return [row[0] for row in rows]

    def _run(self, statement: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []


class Prepared(SinkSystem):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.own = PreparedSink(url)

    def sink(self) -> Sink:
        return self.own

    def rows(self) -> list[tuple[int, int]]:
        return self.own._run("SELECT id, value FROM numbers ORDER BY n")

    def leftovers(self) -> Sequence[object]:
        return list(self.own.pending(""))

    def kill(self, writer: Any) -> None:
        if writer._open is not None:
            writer._open.handle[0].close()


@pytest.fixture
def url(database: str) -> str:
    with psycopg.connect(database) as own:
        own.execute("CREATE TABLE numbers (id bigint, value bigint, n bigserial)")
        own.execute("CREATE TABLE committed (name text PRIMARY KEY)")
    return database


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_q5_conformance(check: Callable[[SinkSystem], None], url: str) -> None:
    check(Prepared(url))
