"""Jobs that write to a real PostgreSQL: the driver killed around commits, and a server that goes away in the middle."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock.services import RunningService
from tests.waiting import Stopwatch, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.process]

FILES, ROWS = 12, 500
LIMIT_S = 300
AWAY_S = 60
PROGRAM = """
import os
from penstock.connectors.postgres import PostgresSink
from penstock.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    url = os.environ["DATABASE_URL"]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(500)
    rows = env.from_dataframe(
        env.spark.readStream.schema("id bigint, k bigint").option("maxFilesPerTrigger", 1).json("events/")
    ).uid("events")
    sums = rows.key_by("k").reduce(lambda a, b: (a[0] ^ b[0], a[1])).uid("sums")
    rows.sink_to(PostgresSink(url, "events")).uid("events-table")
    sums.sink_to(PostgresSink(url, "sums", key="k")).uid("sums-table")
    env.execute("to-postgres")
"""


@pytest.fixture
def url(database: str) -> str:
    return database


class DatabaseJob:
    """A driver as a process of its own, on files that are all there before it starts."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "DATABASE_URL": url, "PYTHONUNBUFFERED": "1"}
        (folder / "events").mkdir()
        for number in range(FILES):
            ids = range(number * ROWS, (number + 1) * ROWS)
            text = "\n".join(json.dumps({"id": n, "k": n % 7}) for n in ids)
            (folder / "events" / f"{number:03}.json").write_text(text, encoding="utf-8")
        (folder / "job.py").write_text(PROGRAM, encoding="utf-8")

    def start(self, failpoint: str = "") -> subprocess.Popen[bytes]:
        """The command; its output is appended to `output`."""
        points = {"PENSTOCK_FAILPOINT": failpoint, "PENSTOCK_FAILPOINT_LOG": "hits"} if failpoint else {}
        registry = f"-Dpenstock.registry.dir={self.folder / 'registry'}"
        command = [sys.executable, "-m", "penstock", "run", "--resume", registry, "job.py"]
        with open(self.output, "ab") as output:
            return subprocess.Popen(
                command, cwd=self.folder, env={**self.environment, **points}, stdout=output, stderr=output
            )

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""


def results(url: str) -> tuple[list[int], dict[int, int]]:
    with psycopg.connect(url) as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM events ORDER BY id")]
        return ids, dict(connection.execute("SELECT k, id FROM sums").fetchall())


def await_results(url: str) -> None:
    """The input does not end, so a job with all its output is stopped."""

    def is_complete() -> bool:
        with psycopg.connect(url) as connection:
            if None in connection.execute("SELECT to_regclass('events'), to_regclass('sums')").fetchall()[0]:
                return False
        return results(url) == expected()

    wait_until(is_complete, timeout_s=LIMIT_S)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Suspend the job."""
    process.terminate()
    process.wait(LIMIT_S)


def expected() -> tuple[list[int], dict[int, int]]:
    sums: dict[int, int] = {}
    for number in range(FILES * ROWS):
        sums[number % 7] = sums.get(number % 7, 0) ^ number
    return list(range(FILES * ROWS)), sums


@pytest.mark.parametrize("point", ["C19.after", "C20.before", "C20.after", "C21.before"])
def test_q5_a_driver_killed_around_its_commits_publishes_each_row_once(point: str, tmp_path: Path, url: str) -> None:
    job = DatabaseJob(tmp_path, url)
    process = job.start(f"{point}:kill:role=driver:hit=2")
    try:
        assert process.wait(LIMIT_S) != 0, job.said()
        assert (tmp_path / "hits").read_text(encoding="utf-8")
        process = job.start()
        await_results(url)
    finally:
        stop(process)
    assert results(url) == expected()


def test_a_server_that_is_away_for_a_minute_is_waited_for_and_the_job_says_so(
    tmp_path: Path, url: str, postgres: RunningService
) -> None:
    job = DatabaseJob(tmp_path, url)
    process = job.start("C20.before:delay=3000:role=driver:hit=2")  # time to end the server just before a commit
    try:
        wait_until(lambda: (tmp_path / "hits").exists(), timeout_s=LIMIT_S)
        postgres.kill()
        try:
            away = Stopwatch()
            wait_until(lambda: "output of sink" in job.said() and " waits, because" in job.said(), timeout_s=LIMIT_S)
            wait_until(lambda: away.seconds() > AWAY_S)
        finally:
            postgres.resume()
        await_results(url)
    finally:
        stop(process)
    assert "is committed, after it had to wait" in job.said()
    assert results(url) == expected()
