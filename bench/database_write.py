"""Rows per second of the database sinks, one process: `python -m bench.database_write [ROWS]`.

Rows of three columns are staged as at a checkpoint, then published in one transaction with its marker. The server
of tests writes without fsync; with it, a checkpoint takes one fsync more.

Exit codes: 0 if PostgreSQL takes at least 100,000 new rows/s (the median of three checkpoints), 1 if not, or if a table
does not have each row once.
"""

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg

from bench.figures import limit_line
from penstock.connectors.database.database_sink import DatabaseSink
from penstock.connectors.postgres import PostgresSink
from penstock.connectors.sqlite import SqliteSink
from penstock.model.ids import StageId, SubtaskId, new_job_id
from penstock.model.sink import SinkContext
from penstock.model.snapshot import Committable
from penstock.model.types import resolve_type
from penstock.services import start_service
from penstock.storage.local import LocalStorage

RUNS = 3
LEAST_ROWS_PER_S = 100_000
PORTION = 10_000
COUNTS = "SELECT count(*), count(DISTINCT id) FROM {}"
ROWS = resolve_type("id bigint, name string, amount double")


def stage(
    sink: DatabaseSink, folder: Path, rows: list[tuple[int, str, float]], job_id: str, epoch: int
) -> list[Committable]:
    """One checkpoint up to its pre-commit."""
    context = SinkContext(job_id, 1, "out", SubtaskId(StageId("s1"), 0), ROWS, LocalStorage(folder))
    writer = sink.open(context)
    writer.begin_epoch()
    for start in range(0, len(rows), PORTION):
        writer.write(rows[start : start + PORTION])
    found = [Committable("out", context.subtask, epoch, name, data) for name, data in writer.pre_commit()]
    writer.close()
    return found


def measure(name: str, sink: DatabaseSink, folder: Path, count: int) -> float:
    """Print the rates of some checkpoints with new rows, and of one with the same keys again if there is a key.

    Returns the median of the rates at which new rows were published.
    """
    job_id, rates = new_job_id(), []
    for run in range(1, RUNS + 1 + bool(sink.target.key)):
        begin = (run - 1 if run <= RUNS else 0) * count
        rows = [(number, f"customer {number % 1000}", number * 0.5) for number in range(begin, begin + count)]
        started_s = time.perf_counter()
        staged = stage(sink, folder, rows, job_id, run)
        staged_s = time.perf_counter()
        sink.commit_all(staged)
        ended_s = time.perf_counter()
        rates.append(count / (ended_s - staged_s))
        what = "the same keys" if run > RUNS else "new rows"
        print(
            f"{name:18} run {run}, {what:13} staged {count / (staged_s - started_s):10,.0f} rows/s, "
            f"published {rates[-1]:10,.0f} rows/s",
            flush=True,
        )
    return statistics.median(rates[:RUNS])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both databases and judge PostgreSQL; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=500_000, help="rows of a checkpoint")
    count = parser.parse_args(arguments).rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = start_service("postgres", folder / "postgres")
        try:
            copied = measure("PostgreSQL", PostgresSink(server.address, "rows"), folder / "staged", count)
            measure("PostgreSQL, by key", PostgresSink(server.address, "keyed", key="id"), folder / "staged", count)
            with psycopg.connect(server.address) as database:
                for table in ("rows", "keyed"):
                    require_rows(table, database.execute(COUNTS.format(table)).fetchone(), RUNS * count)
        finally:
            server.stop()
        measure("SQLite", SqliteSink(folder / "rows.db", "rows"), folder / "staged", count)
        with closing(sqlite3.connect(folder / "rows.db")) as file:
            require_rows("rows", file.execute(COUNTS.format("rows")).fetchone(), RUNS * count)
    print(verdict(copied))
    return 0 if copied >= LEAST_ROWS_PER_S else 1


def require_rows(table: str, found: tuple[int, int] | None, count: int) -> None:
    """End the benchmark unless the table has `count` rows and as many different ids.

    >>> require_rows("rows", (5, 5), 5)
    """
    if found != (count, count):
        raise SystemExit(f"table {table!r} has (rows, ids) {found}, not {count} of each")


def verdict(rows_per_s: float) -> str:
    """The rate of PostgreSQL against its limit.

    >>> verdict(350_000.0)
    'PostgreSQL: 350,000 rows/s (limit: at least 100,000 rows/s): kept'
    """
    text, limit = f"PostgreSQL: {rows_per_s:,.0f} rows/s", f"at least {LEAST_ROWS_PER_S:,} rows/s"
    return limit_line(text, limit, is_within=rows_per_s >= LEAST_ROWS_PER_S)


if __name__ == "__main__":
    sys.exit(main())
