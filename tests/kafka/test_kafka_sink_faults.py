"""A job that writes to Kafka, killed at every step of its commits: an independent reader sees every output once."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.services import RunningService, start_service
from tests.faults.events import Expected, Load, batch_result, write_events
from tests.faults.failpoints import read_hits
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, RECOVERY_LIMIT_S
from tests.faults.outcome import compare, read_state
from tests.kafka.topics import new_topic, open_transaction, read_committed
from tests.waiting import Stopwatch, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
DRIVER = ("C17", "C18", "C19", "C20", "C21")
TRANSACTION_TIMEOUT_MS = 5_000
SMALL = Load(events=60_000, keys=200, files=60)
LARGE = Load(events=240_000, keys=200, files=8)
"""Checkpoints of so many rows that writing one takes a moment."""


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningService]:
    """A broker that the test may kill."""
    broker = start_service("kafka", tmp_path / "broker", os.getpid())
    yield broker
    broker.stop()


class KafkaJob:
    """A job from files to a topic, over all its drivers."""

    def __init__(self, folder: Path, servers: str, load: Load, guarantee: str = "EXACTLY_ONCE", **more: str) -> None:
        self.servers = servers
        self.topic = new_topic(servers, "tally")
        events = folder / "events"
        write_events(load, events)
        self.expected: Expected = batch_result(events)
        self.log = folder / "failpoints.log"
        properties = json.dumps({key.replace("_", "."): value for key, value in more.items()})
        sink = f"kafka={servers}={self.topic}={guarantee}={properties}"
        self.place = Place(folder / "job", events, sink=sink)

    def start(self, armed: str = "") -> JobProcess:
        return JobProcess(self.place, PENSTOCK_FAILPOINT=armed, PENSTOCK_FAILPOINT_LOG=str(self.log))

    def die_at(self, armed: str) -> None:
        """Run a driver until it is killed there."""
        with self.start(armed) as job:
            self.await_exit(job)
            assert armed in read_hits(self.log), f"the driver ended before {armed}:\n{job.log_tail()}"

    def finish(self, armed: str = "") -> None:
        """Run a driver to the end of the job."""
        with self.start(armed) as job:
            self.await_exit(job)
            assert job.wait(0) == 0, job.log_tail()

    def await_exit(self, job: JobProcess) -> None:
        wait_until(lambda: job.exit_code is not None, timeout_s=FINISH_LIMIT_S, pause_s=0.2)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(message.value()) for message in read_committed(self.servers, self.topic)]

    def require_exact(self) -> None:
        """Counts, sums, the XOR of ids and the running counts of every key are those of the oracle."""
        verdict = compare(self.expected, read_state(self.place.job_folder), self.rows())
        assert verdict.exact, verdict


def wait_for(job: JobProcess, happened: Callable[[], bool]) -> None:
    def asked() -> bool:
        assert job.exit_code is None, f"the driver ended with {job.exit_code}: {job.log_tail()}"
        return happened()

    wait_until(asked, timeout_s=RECOVERY_LIMIT_S, pause_s=0.01)


@pytest.mark.parametrize("side", ["before", "after"])
def test_q5_every_output_is_seen_once_under_kills_at_every_step_of_a_checkpoint(
    kafka: RunningService, tmp_path: Path, side: str
) -> None:
    job = KafkaJob(tmp_path, kafka.address, SMALL)
    for name in DRIVER:
        job.die_at(f"{name}.{side}:kill:role=driver:hit=2")
    worker = f"C16.{side}:kill:role=tm:hit=2"
    job.finish(worker)
    assert worker in read_hits(job.log)
    job.require_exact()


def test_q5_a_broker_that_is_killed_in_the_middle_of_a_commit_and_comes_back(
    own_broker: RunningService, tmp_path: Path
) -> None:
    job = KafkaJob(tmp_path, own_broker.address, SMALL)
    armed = "C20.before:delay=3000:role=driver:hit=3"
    with job.start(armed) as driver:
        wait_for(driver, lambda: armed in read_hits(job.log))
        own_broker.kill()
        away = Stopwatch()
        wait_until(lambda: away.seconds() > 15)
        own_broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()
    job.require_exact()


def test_q5_a_broker_that_is_killed_while_a_transaction_is_open(own_broker: RunningService, tmp_path: Path) -> None:
    job = KafkaJob(tmp_path, own_broker.address, LARGE)
    with job.start() as driver:
        wait_for(driver, lambda: open_transaction(own_broker.address, job.topic))
        own_broker.kill()
        own_broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()
    job.require_exact()


def test_q5_a_driver_that_stays_dead_longer_than_its_transaction(kafka: RunningService, tmp_path: Path) -> None:
    job = KafkaJob(tmp_path, kafka.address, LARGE, transaction_timeout_ms=str(TRANSACTION_TIMEOUT_MS))
    with job.start() as driver:
        wait_for(driver, lambda: open_transaction(kafka.address, job.topic))
        driver.kill()
    assert open_transaction(kafka.address, job.topic), "it was committed before the kill"
    wait_until(lambda: not open_transaction(kafka.address, job.topic))  # the broker has aborted it
    job.finish()
    job.require_exact()


def test_q7_at_least_once_loses_nothing_and_state_is_exact(kafka: RunningService, tmp_path: Path) -> None:
    job = KafkaJob(tmp_path, kafka.address, SMALL, "AT_LEAST_ONCE")
    job.die_at("C17.before:kill:role=driver:hit=3")
    job.finish("C16.before:kill:role=tm:hit=2")
    rows = job.rows()
    seen = Counter(row["id"] for row in rows if row["id"] is not None)
    assert seen.keys() == {number for ids in job.expected.ids.values() for number in ids}
    assert max(seen.values()) > 1, "nothing was repeated: the kills came too early"
    once = {(row["id"], row["key"], row["count"]): row for row in rows}
    assert compare(job.expected, read_state(job.place.job_folder), list(once.values())).exact
