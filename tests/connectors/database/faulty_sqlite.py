"""An SQLite file in the conformance suite of sinks, for every sink that writes to one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.model.sink import Sink
from penstock.testing.conformance_sink import SinkSystem


class FaultySqlite(SinkSystem):
    """A sink into the table `numbers` of a file whose every statement and commit fails before and after."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, sink: Sink, *, upserts: bool = False) -> None:
        super().__init__()
        self.path = path
        self.upserts = upserts
        self._sink = sink
        faults, real = self.faults, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, *args: Any) -> Any:
                cursor = self.cursor()
                return faults.call(cursor.execute, *args)

            def commit(self) -> None:
                faults.call(super().commit)

            def cursor(self, *args: Any) -> Any:
                self.cursors = [*getattr(self, "cursors", []), super().cursor(*args)]
                return faults.call(self.cursors.__getitem__, -1)

            def close(self) -> None:
                for cursor in getattr(self, "cursors", []):  # one that the traceback of a fault keeps holds a lock
                    cursor.close()
                super().close()

        self.connect = real
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **named: real(*a, **named, factory=Connection))

    def sink(self) -> Sink:
        return self._sink

    def rows(self) -> list[tuple[int, int]]:
        return self.query("SELECT id, value FROM numbers ORDER BY rowid")

    def leftovers(self) -> Sequence[object]:
        return []

    def clear(self) -> None:
        self.query("DELETE FROM numbers")

    def query(self, statement: str) -> list[Any]:
        with closing(self.connect(self.path, isolation_level=None)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'numbers'").fetchall():
                return []
            return connection.execute(statement).fetchall()
