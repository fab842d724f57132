"""Jobs with several sinks, and with `to_spark`, whose driver dies between commits; and a disk that goes away."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from penstock.services import RunningService
from tests.faults.destinations import LocalOutput, PostgresOutput, SqliteOutput, polled, require_whole
from tests.faults.events import Load
from tests.faults.failpoints import read_hits
from tests.faults.halts import halted_pids, resume
from tests.faults.outcome import read_output
from tests.faults.sink_job import SinkJob
from tests.waiting import LIMIT_S, Stopwatch, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.timeout(1200)]
LOAD = Load(events=40_000, keys=300, files=30)
AWAY_S = 60


def test_q5_a_driver_killed_between_the_commits_of_files_and_sqlite(tmp_path: Path) -> None:
    table = SqliteOutput(tmp_path / "tally.db")
    job = SinkJob(tmp_path, f"{table.sink}+file", LOAD)
    files = LocalOutput(job.place.output)
    with polled(table.look) as seen, polled(files.look) as seen_files:
        # Of the commits of a checkpoint the first is that of the table, and those of the files follow.
        job.die_at(*(f"C20.after:kill:role=driver:hit={hit}" for hit in (4, 1, 2)))
        job.finish()
    for output, found in ((table, seen), (files, seen_files)):
        job.require_exact(output.rows())
        require_whole(found)


def test_q5_a_driver_killed_between_the_commits_of_kafka_and_postgres(
    kafka: RunningService, database: str, tmp_path: Path
) -> None:
    from tests.kafka.kafka_job import TRANSACTION_TIMEOUT_MS
    from tests.kafka.topics import new_topic, read_committed

    topic, table = new_topic(kafka.address, "tally"), PostgresOutput(database)
    sinks = f"kafka={kafka.address}={topic}=EXACTLY_ONCE={TRANSACTION_TIMEOUT_MS}+{table.sink}"
    job = SinkJob(tmp_path, sinks, LOAD)
    with polled(table.look) as seen:
        job.die_at(*(f"C20.after:kill:role=driver:hit={hit}" for hit in (3, 1, 2)))
        job.finish()
    job.require_exact([json.loads(message.value()) for message in read_committed(kafka.address, topic)])
    job.require_exact(table.rows())
    require_whole(seen)


def test_q9_a_disk_that_is_away_for_a_minute_in_the_middle_of_a_commit(tmp_path: Path) -> None:
    job = SinkJob(tmp_path, "file", LOAD)
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


def test_q5_a_spark_writer_with_tokens_is_exact_under_kills(tmp_path: Path) -> None:
    path = tmp_path / "tally.db"
    job = SinkJob(tmp_path, f"spark={path}", LOAD)
    job.die_at(
        *(f"C20.{place}:kill:role=driver:hit={hit}" for place, hit in (("after", 3), ("before", 2), ("after", 1)))
    )
    armed = "C16.after:kill:role=tm:hit=2"
    with job.start(armed) as driver:
        assert driver.wait(LIMIT_S) == 0, driver.log_tail()
    assert armed in read_hits(job.log)
    job.require_exact(SqliteOutput(path).rows())
    with closing(sqlite3.connect(path)) as database:
        calls = Counter(token for (token,) in database.execute("SELECT token FROM calls"))
    assert max(calls.values()) > 1, "no call was repeated: the kills came too early"
