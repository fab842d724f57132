"""A job that writes to Kafka, killed at every step of its commits: an independent reader sees every output once."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.services import RunningService, start_service
from tests.faults.events import Load
from tests.faults.failpoints import read_hits
from tests.faults.outages import SHORT_RETRIES, wait_for, wait_out, wait_out_with_restarts
from tests.faults.outcome import compare, read_state
from tests.kafka.kafka_job import KafkaJob
from tests.kafka.topics import TransactionWatch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
DRIVER = ("C17", "C18", "C19", "C20", "C21")
SMALL = Load(events=60_000, keys=200, files=60)
LARGE = Load(events=240_000, keys=200, files=8)
"""Checkpoints of so many rows that writing one takes a moment."""


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningService]:
    """A broker that the test may kill."""
    broker = start_service("kafka", tmp_path / "broker", os.getpid())
    yield broker
    broker.stop()


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


def test_q5_a_broker_that_is_away_for_a_minute_in_the_middle_of_a_commit(
    own_broker: RunningService, tmp_path: Path
) -> None:
    job = KafkaJob(tmp_path, own_broker.address, SMALL)
    armed = "C20.before:delay=3000:role=driver:hit=3"
    with job.start(armed) as driver:
        wait_for(driver, lambda: armed in read_hits(job.log))
        own_broker.kill()
        wait_out(driver)
        own_broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()
    job.require_exact()


def test_q5_a_broker_that_is_killed_while_a_transaction_is_open(own_broker: RunningService, tmp_path: Path) -> None:
    job = KafkaJob(tmp_path, own_broker.address, LARGE)
    with job.start() as driver:
        watch = TransactionWatch(own_broker.address, job.topic)
        wait_for(driver, watch.is_open)
        own_broker.kill()
        watch.close()
        own_broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()
    job.require_exact()


def test_q5_a_broker_that_goes_within_a_transaction_and_is_away_for_a_minute_is_waited_for(
    own_broker: RunningService, tmp_path: Path
) -> None:
    job = KafkaJob(tmp_path, own_broker.address, LARGE)
    with job.start() as driver:
        with job.halted_within_a_transaction(driver):
            own_broker.kill()
        wait_out(driver)
        own_broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()
    assert "is committed, after it had to wait" in driver.said() and "has failed" not in driver.said()
    job.require_exact()


def test_q5_a_commit_that_fails_for_too_long_ends_the_attempt_and_the_next_one_commits(
    own_broker: RunningService, tmp_path: Path
) -> None:
    job = KafkaJob(tmp_path, own_broker.address, LARGE)
    job.configure(*SHORT_RETRIES)
    with job.start() as driver:
        with job.halted_within_a_transaction(driver):
            own_broker.kill()
        wait_out_with_restarts(driver)
        own_broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()
    job.require_exact()


def test_q5_a_driver_that_stays_dead_longer_than_its_transaction(kafka: RunningService, tmp_path: Path) -> None:
    job = KafkaJob(tmp_path, kafka.address, LARGE)
    job.die_within_a_transaction()
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
