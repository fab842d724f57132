"""A job that writes to a real PostgreSQL, which goes while a transaction of the job is open.

Another session locks the table against writers, so the transaction of the next commit stays open until the server is
killed.
"""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.services import RunningService
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place
from tests.faults.outages import SHORT_RETRIES, wait_for, wait_out, wait_out_with_restarts
from tests.faults.outcome import compare, read_state
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.timeout(1200)]
LOAD = Load(events=40_000, keys=300, files=20)
COLUMNS = ("id", "key", "amount", "count")


def test_q5_a_server_that_goes_within_a_transaction_and_is_away_for_a_minute_is_waited_for(
    postgres: RunningService, database: str, tmp_path: Path
) -> None:
    place = place_of(tmp_path, database)
    with JobProcess(place) as driver:
        go_within_a_transaction(driver, postgres, database)
        try:
            wait_out(driver)
        finally:
            postgres.resume()
        assert driver.wait(LIMIT_S) == 0, driver.log_tail()
    assert "is committed, after it had to wait" in driver.said() and "has failed" not in driver.said()
    require_exact(place, database)


def test_q5_a_commit_that_fails_for_too_long_ends_the_attempt_and_the_next_one_commits(
    postgres: RunningService, database: str, tmp_path: Path
) -> None:
    place = place_of(tmp_path, database, *SHORT_RETRIES)
    with JobProcess(place) as driver:
        go_within_a_transaction(driver, postgres, database)
        try:
            wait_out_with_restarts(driver)
        finally:
            postgres.resume()
        assert driver.wait(LIMIT_S) == 0, driver.log_tail()
    require_exact(place, database)


def place_of(folder: Path, url: str, *settings: tuple[str, str]) -> Place:
    write_events(LOAD, folder / "events")
    settings = (("penstock.epoch.interval", "200 ms"), *settings)
    return Place(folder / "job", folder / "events", sink=f"postgres={url}=tally", settings=settings)


def go_within_a_transaction(driver: JobProcess, server: RunningService, url: str) -> None:
    """Kill the server while a transaction of the job is open."""
    wait_for(driver, lambda: ask(url, "SELECT to_regclass('tally')") is not None)
    locker = psycopg.connect(url)
    try:
        locker.execute("LOCK TABLE tally IN SHARE MODE")
        waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'tally'::regclass AND NOT granted"
        wait_for(driver, lambda: ask(url, waiting) == 1)
        server.kill()
    finally:
        locker.close()


def ask(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        [value] = connection.execute(query).fetchone() or [None]
        return value


def require_exact(place: Place, url: str) -> None:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT id, key, amount, count FROM tally").fetchall()
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in found]
    verdict = compare(batch_result(place.events), read_state(place.job_folder), rows)
    assert verdict.exact, verdict
