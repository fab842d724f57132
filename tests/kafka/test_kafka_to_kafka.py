"""From a topic through keyed state to a topic, while everything that can die does: an independent reader decides.

The five moments of a checkpoint, as crash points of the protocol: before the pre-commit (C6.after: the input has
ended), after it (C16.before: the rows are durable, the ack is not sent), after the acks (C17.after), before the commit
(C19.after: the checkpoint is complete) and around the commit (C20). At each of them a Python worker, a TaskManager and
the driver are killed; another driver dies while its transaction is open.
"""

import functools
import operator
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.services import RunningService, start_service
from tests.faults.events import Load
from tests.faults.failpoints import read_hits
from tests.faults.halts import Halt, halted_pids, resume
from tests.faults.jobs import ROOT
from tests.faults.outages import WAITS, wait_for
from tests.faults.outcome import compare, read_state
from tests.kafka.kafka_job import KafkaJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
VICTIMS = ("worker", "taskmanager", "driver")
MOMENTS = {
    ("C6.after", "tm"): (4, 8, 12),
    ("C16.before", "tm"): (2, 3, 4),
    ("C17.after", "driver"): (2, 3, 4),
    ("C19.after", "driver"): (2, 3, 4),
    ("C20.before", "driver"): (3, 4, 5),
}
"""Point and role, and at which passages the victims die, in their order."""
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
        die_three_times(job, [Halt(point, role, hit, victim) for hit, victim in zip(hits, VICTIMS, strict=True)])
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
    assert "at least once" in guarantee_report(job)
    # The rows before C17 are at the broker, and the checkpoint that covers them is lost: they come again.
    die_three_times(
        job, [Halt("C17.before", "driver", hit, victim) for hit, victim in zip((2, 3, 4), VICTIMS, strict=True)]
    )
    job.take_larger_epochs(5_000)
    job.finish()
    rows = job.rows()
    seen = Counter(row["id"] for row in rows if row["id"] is not None)
    assert seen.keys() == {number for numbers in job.expected.ids.values() for number in numbers}
    assert max(seen.values()) > 1, "nothing was repeated: the kills came too early"
    once = {(row["id"], row["key"], row["count"]): row for row in rows}
    assert compare(job.expected, read_state(job.place.job_folder), list(once.values())).exact


def die_three_times(job: KafkaJob, halts: list[Halt]) -> None:
    """One driver, in which a worker, a TaskManager and in the end the driver itself are killed."""
    with job.start(",".join(halt.armed for halt in halts)) as driver:
        for halt in halts:
            halt.strike(driver, job.log)
    assert {halt.armed for halt in halts} <= read_hits(job.log)


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


def guarantee_report(job: KafkaJob) -> str:
    """What `penstock info` says of the program, before it has run."""
    command = job.place.command()
    program = command[next(i for i, word in enumerate(command) if word.endswith("program.py")) :]
    run = subprocess.run(
        [*command[:3], "info", *program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return run.stdout


def xor(ids: list[int]) -> int:
    return functools.reduce(operator.xor, ids, 0)
