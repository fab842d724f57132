"""From a topic through keyed state to a topic, while everything that can die does: an independent reader decides.

At each of the five moments of a checkpoint a Python worker, a TaskManager and the driver are killed; another driver
dies while its transaction is open.
"""

import functools
import operator
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.services import RunningService, start_service
from tests.faults.events import Load
from tests.faults.failpoints import read_hits
from tests.faults.halts import MOMENTS, halted_pids, halts_at, resume, strike_all
from tests.faults.outages import WAITS, wait_for
from tests.faults.outcome import compare, read_state
from tests.kafka.kafka_job import KafkaJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
LOAD = Load(events=200_000, keys=500, files=10, repeated=0.0)
SHORT = Load(events=30_000, keys=200, files=3, repeated=0.0)
AWAY = "C20.before:stop:role=driver:hit=2"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningService]:
    """A broker that the test may kill."""
    broker = start_service("kafka", tmp_path / "broker", os.getpid())
    yield broker
    broker.stop()


def test_q5_from_topic_to_topic_each_of_200000_outputs_is_seen_once(own_broker: RunningService, tmp_path: Path) -> None:
    job = KafkaJob(tmp_path, own_broker.address, LOAD, reads_topic=True)
    for (point, role), hits in MOMENTS.items():
        strike_all(job.start, job.log, halts_at(point, role, hits))
    job.take_larger_epochs(10_000, checkpoint_ms=3_000)
    job.die_within_a_transaction()
    finish_with_broker_restart(job, own_broker)
    rows = job.rows()
    ids = [row["id"] for row in rows if row["id"] is not None]
    wanted = [number for numbers in job.expected.ids.values() for number in numbers]
    assert len(ids) == len(wanted) == LOAD.events and xor(ids) == xor(wanted)
    verdict = compare(job.expected, read_state(job.place.job_folder), rows)
    assert verdict.exact, verdict


def test_q7_from_topic_to_topic_at_least_once_loses_nothing_and_said_so_before(
    kafka: RunningService, tmp_path: Path
) -> None:
    job = KafkaJob(tmp_path, kafka.address, SHORT, "AT_LEAST_ONCE", reads_topic=True)
    assert "at least once" in job.place.guarantee_report()
    # The rows before C17 are at the broker, and the checkpoint that covers them is lost: they come again.
    strike_all(job.start, job.log, halts_at("C17.before", "driver", (2, 3, 4)))
    job.take_larger_epochs(5_000)
    job.finish()
    rows = job.rows()
    seen = Counter(row["id"] for row in rows if row["id"] is not None)
    assert seen.keys() == {number for numbers in job.expected.ids.values() for number in numbers}
    assert max(seen.values()) > 1, "nothing was repeated: the kills came too early"
    once = {(row["id"], row["key"], row["count"]): row for row in rows}
    assert compare(job.expected, read_state(job.place.job_folder), list(once.values())).exact


def finish_with_broker_restart(job: KafkaJob, broker: RunningService) -> None:
    """The broker is killed when a commit begins, and comes back when the job has said that it waits."""
    with job.start(AWAY) as driver:
        wait_for(driver, lambda: AWAY in read_hits(job.log))
        broker.kill()
        resume(*halted_pids(job.log, AWAY))
        wait_for(driver, lambda: WAITS in driver.said())
        broker.resume()
        job.await_exit(driver)
        assert driver.wait(0) == 0, driver.log_tail()


def xor(ids: list[int]) -> int:
    return functools.reduce(operator.xor, ids, 0)
