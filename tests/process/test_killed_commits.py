"""Jobs with several sinks, with SQLite and with `to_spark`, whose driver dies in the middle of commits.

A reader polls the database all the time. In one snapshot it reads the marker of the sink and the number of rows: if a
part of a checkpoint was ever visible, one marker would come with two numbers. Of files, each that a reader ever sees
has its final size.
"""

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.services import RunningService
from tests.connectors.sinks import finished
from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import read_hits
from tests.faults.halts import halted_pids, resume
from tests.faults.jobs import JobProcess, Place
from tests.faults.outcome import compare, read_output, read_state
from tests.waiting import LIMIT_S, Stopwatch, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.timeout(1200)]
LOAD = Load(events=40_000, keys=300, files=30)
LARGE = Load(events=200_000, keys=300, files=4)
"""Checkpoints of so many rows that SQLite writes for a moment."""
TRIES = 5
AWAY_S = 60
COLUMNS = ("id", "key", "amount", "count")
Rows = list[dict[str, Any]]


class KilledJob:
    """A job over all its drivers."""

    def __init__(self, folder: Path, sinks: str, load: Load = LOAD) -> None:
        events = folder / "events"
        write_events(load, events)
        self.expected = batch_result(events)
        self.log = folder / "failpoints.log"
        self.place = Place(folder / "job", events, sink=sinks, settings=(("penstock.epoch.interval", "200 ms"),))
        self.place.output.mkdir(parents=True)

    def start(self, armed: str = "") -> JobProcess:
        return JobProcess(self.place, PENSTOCK_FAILPOINT=armed, PENSTOCK_FAILPOINT_LOG=str(self.log))

    def die_at(self, *points: str) -> None:
        """One driver after the other is killed at these points."""
        for point in points:
            with self.start(point) as job:
                assert job.wait(LIMIT_S) == -9, job.log_tail()
            assert point in read_hits(self.log)

    def finish(self) -> None:
        with self.start() as job:
            assert job.wait(LIMIT_S) == 0, job.log_tail()

    def require_exact(self, rows: Rows) -> None:
        verdict = compare(self.expected, read_state(self.place.job_folder), rows)
        assert verdict.exact, verdict


def test_q5_a_driver_killed_between_the_commits_of_files_and_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    job = KilledJob(tmp_path, f"sqlite={path}=tally+file")
    read = SqliteReader(path)
    with polled(read.marker_and_count) as seen, polled_files(job.place.output) as files:
        # Of the commits of a checkpoint the first is that of the table, and those of the files follow.
        job.die_at(*(f"C20.after:kill:role=driver:hit={hit}" for hit in (4, 1, 2)))
        job.finish()
    job.require_exact(read.rows())
    job.require_exact(list(read_output(job.place.output)))
    require_whole(seen)
    assert len(files) > 1, "the reader saw no file come"
    assert files <= set(sizes(job.place.output)), "a part of a file was visible"


def test_q5_a_driver_killed_between_the_commits_of_kafka_and_postgres(
    kafka: RunningService, postgres: RunningService, tmp_path: Path
) -> None:
    from tests.kafka.kafka_job import TRANSACTION_TIMEOUT_MS
    from tests.kafka.topics import new_topic, read_committed

    topic, table = new_topic(kafka.address, "tally"), f"tally_{tmp_path.name.replace('-', '_')}"
    sinks = f"kafka={kafka.address}={topic}=EXACTLY_ONCE={TRANSACTION_TIMEOUT_MS}+postgres={postgres.address}={table}"
    job = KilledJob(tmp_path, sinks)
    read = PostgresReader(postgres.address, table)
    with polled(read.marker_and_count) as seen:
        job.die_at(*(f"C20.after:kill:role=driver:hit={hit}" for hit in (3, 1, 2)))
        job.finish()
    job.require_exact([json.loads(message.value()) for message in read_committed(kafka.address, topic)])
    job.require_exact(read.rows())
    require_whole(seen)


def test_q9_a_disk_that_is_away_for_a_minute_in_the_middle_of_a_commit(tmp_path: Path) -> None:
    job = KilledJob(tmp_path, "file")
    armed = "C20.before:stop:role=driver:hit=3"
    elsewhere = tmp_path / "unplugged"
    with job.start(armed) as driver:
        wait_until(lambda: driver.exit_code is not None or armed in read_hits(job.log), timeout_s=LIMIT_S)
        job.place.output.rename(elsewhere)
        away = Stopwatch()
        resume(*halted_pids(job.log, armed))
        wait_until(lambda: driver.exit_code is not None or "does not exist; mount or restore it" in driver.said())
        wait_until(lambda: away.seconds() > AWAY_S)
        elsewhere.rename(job.place.output)
        assert driver.wait(LIMIT_S) == 0, driver.log_tail()
    job.require_exact(list(read_output(job.place.output)))


def test_q5_a_driver_killed_while_sqlite_writes(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    job = KilledJob(tmp_path, f"sqlite={path}=tally", LARGE)
    journal = path.with_name(f"{path.name}-journal")
    kill_while(job, lambda: journal.exists() and journal.stat().st_size > 0)
    read = SqliteReader(path)
    with polled(read.marker_and_count) as seen:
        job.finish()
    job.require_exact(read.rows())
    require_whole(seen)


def test_q5_a_spark_writer_with_tokens_is_exact_under_kills(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    job = KilledJob(tmp_path, f"spark={path}")
    job.die_at(
        *(f"C20.{place}:kill:role=driver:hit={hit}" for place, hit in (("after", 3), ("before", 2), ("after", 1)))
    )
    armed = "C16.after:kill:role=tm:hit=2"
    with job.start(armed) as driver:
        assert driver.wait(LIMIT_S) == 0, driver.log_tail()
    assert armed in read_hits(job.log)
    job.require_exact(SqliteReader(path).rows())
    with closing(sqlite3.connect(path)) as database:
        calls = Counter(token for (token,) in database.execute("SELECT token FROM calls"))
    assert max(calls.values()) > 1, "no call was repeated: the kills came too early"


def kill_while(job: KilledJob, is_writing: Callable[[], bool]) -> None:
    """Kill a driver that is in the middle of a transaction; the rollback journal that it leaves proves it."""
    for _ in range(TRIES):
        with job.start() as driver:
            wait_until(lambda: driver.exit_code is not None or is_writing(), timeout_s=LIMIT_S, pause_s=0.001)
            driver.kill()
        if is_writing():
            return
    raise AssertionError(f"{TRIES} transactions were committed before the kill")


@contextmanager
def polled(read: Callable[[], tuple[int, int] | None]) -> Iterator[set[tuple[int, int]]]:
    """The markers and numbers of rows that a reader sees while the block runs."""
    seen: set[tuple[int, int]] = set()

    def look() -> None:
        found = read()
        if found is not None:
            seen.add(found)

    with repeated(look):
        yield seen


@contextmanager
def polled_files(folder: Path) -> Iterator[set[tuple[str, int]]]:
    """The names and sizes of the finished files that a reader sees while the block runs."""
    seen: set[tuple[str, int]] = set()
    with repeated(lambda: seen.update(sizes(folder))):
        yield seen


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    return ((path.name, path.stat().st_size) for path in finished(folder))


@contextmanager
def repeated(look: Callable[[], object]) -> Iterator[None]:
    """Look all the time, in a thread."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(0.02):
            look()

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()


def require_whole(seen: set[tuple[int, int]]) -> None:
    """Each marker came with one number of rows, and a higher marker with no fewer rows."""
    markers = [marker for marker, _ in sorted(seen)]
    assert len(markers) > 1, "the reader saw no checkpoint come"
    assert len(set(markers)) == len(markers), f"a part of a checkpoint was visible: {sorted(seen)}"
    counts = [count for _, count in sorted(seen)]
    assert counts == sorted(counts)


class SqliteReader:
    """Reads while the job writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def marker_and_count(self) -> tuple[int, int] | None:
        """In one statement, which is one snapshot; None before the tables are there or while they are locked."""
        if not self._path.exists():
            return None
        try:
            with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as database:
                marker, count = database.execute(STATE).fetchone()
                return marker, count
        except sqlite3.OperationalError:
            return None

    def rows(self) -> Rows:
        """All rows."""
        with closing(sqlite3.connect(self._path)) as database:
            found = database.execute("SELECT id, key, amount, count FROM tally").fetchall()
        return [dict(zip(COLUMNS, row, strict=True)) for row in found]


STATE = "SELECT (SELECT max(marker) FROM penstock_commits), (SELECT count(*) FROM tally)"


class PostgresReader:
    """Reads while the job writes."""

    def __init__(self, url: str, table: str) -> None:
        self._url = url
        self._table = table

    def marker_and_count(self) -> tuple[int, int] | None:
        """In one statement; None before the tables are there."""
        owner = "SELECT max(marker) FROM penstock_commits WHERE owner LIKE '%%/out-2'"
        try:
            with psycopg.connect(self._url) as connection:
                found = connection.execute(f"SELECT ({owner}), (SELECT count(*) FROM {self._table})").fetchone()
        except psycopg.errors.UndefinedTable:
            return None
        return (found[0], found[1]) if found is not None and found[0] is not None else None

    def rows(self) -> Rows:
        """All rows."""
        with psycopg.connect(self._url) as connection:
            found = connection.execute(f"SELECT id, key, amount, count FROM {self._table}").fetchall()
        return [dict(zip(COLUMNS, row, strict=True)) for row in found]
