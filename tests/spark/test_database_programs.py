"""The programs of docs/connectors/postgres.md, with SQLite and with a real PostgreSQL."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.cli.program import run_program
from penstock.control.submission import Submission, submitted
from tests.docs.pages import files_of

ORDERS = [("ada", 2.0), ("ada", 3.0), ("bob", 1.0)]
TOTALS = [("ada", 5.0), ("bob", 1.0)]


def run_example(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    program = folder / name
    program.write_text(files_of("docs/connectors/postgres.md")[name], encoding="utf-8")
    settings = {"penstock.registry.dir": str(folder / "registry")}
    with submitted(Submission(program, overrides=settings)):
        assert run_program(program, ()) == 0


def test_sqlite(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_example("totals_to_sqlite.py", tmp_path, monkeypatch)
    with closing(sqlite3.connect("shop.db")) as connection:
        found: list[list[Any]] = [connection.execute(f"SELECT * FROM {t}").fetchall() for t in ("orders", "totals")]
    assert [sorted(rows) for rows in found] == [ORDERS, TOTALS]


@pytest.mark.e2e
def test_postgres(spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", database)
    run_example("totals_to_postgres.py", tmp_path, monkeypatch)
    with psycopg.connect(database) as connection:
        found = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("orders", "totals")]
    assert [sorted(rows) for rows in found] == [ORDERS, TOTALS]
