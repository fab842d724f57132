"""A job that writes to a topic, over all its drivers, and what a reader of the topic sees in the end."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.faults.events import Expected, Load, batch_result, write_events
from tests.faults.failpoints import read_hits
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S
from tests.faults.outages import wait_for
from tests.faults.outcome import compare, read_state
from tests.kafka.topics import TransactionWatch, new_topic, read_committed
from tests.waiting import wait_until

TRIES = 5
TRANSACTION_TIMEOUT_MS = 5_000


class KafkaJob:
    """A job from files, or from a topic with the same events, to a topic."""

    def __init__(
        self, folder: Path, servers: str, load: Load, guarantee: str = "EXACTLY_ONCE", *, reads_topic: bool = False
    ) -> None:
        self.servers = servers
        self.topic = new_topic(servers, "tally")
        events = folder / "events"
        write_events(load, events)
        self.expected: Expected = batch_result(events)
        self.log = folder / "failpoints.log"
        sink = f"kafka={servers}={self.topic}={guarantee}={TRANSACTION_TIMEOUT_MS}"
        source = Path(f"kafka={servers}={fill_topic(servers, events)}") if reads_topic else events
        assert not (reads_topic and load.repeated), "events of a topic are not de-duplicated"
        settings = (("penstock.epoch.max-rows", "1500"),) if reads_topic else ()
        self.place = Place(folder / "job", source, sink=sink, settings=settings)

    def take_larger_epochs(self, rows: int, checkpoint_ms: int = 1_000) -> None:
        """What the next drivers read at a time; a checkpoint, and so a transaction, has more rows."""
        settings = (("penstock.epoch.max-rows", str(rows)),)
        self.place = replace(self.place, settings=settings, checkpoint_ms=checkpoint_ms)

    def configure(self, *settings: tuple[str, str]) -> None:
        """Settings of the next drivers."""
        self.place = replace(self.place, settings=(*self.place.settings, *settings))

    def start(self, armed: str = "") -> JobProcess:
        return JobProcess(self.place, PENSTOCK_FAILPOINT=armed, PENSTOCK_FAILPOINT_LOG=str(self.log))

    def die_at(self, armed: str, *others: str) -> None:
        """Run a driver until it is killed there; other processes die at the other points before."""
        with self.start(",".join([armed, *others])) as job:
            self.await_exit(job)
            assert {armed, *others} <= read_hits(self.log), f"the driver ended before {armed}:\n{job.log_tail()}"

    def finish(self, armed: str = "") -> None:
        """Run a driver to the end of the job."""
        with self.start(armed) as job:
            self.await_exit(job)
            assert job.wait(0) == 0, job.log_tail()

    def die_within_a_transaction(self) -> None:
        """Kill a driver while its transaction is open, and wait until the broker has aborted that."""
        watch = TransactionWatch(self.servers, self.topic)
        try:
            for _ in range(TRIES):
                with self.start() as job:
                    wait_for(job, watch.is_open)
                    job.kill()
                if watch.is_open():
                    wait_until(lambda: not watch.is_open())
                    return
            raise AssertionError(f"{TRIES} transactions were committed before the kill")
        finally:
            watch.close()

    @contextmanager
    def halted_within_a_transaction(self, job: JobProcess) -> Iterator[None]:
        """In the block the process of the driver is stopped, and its transaction is open."""
        watch = TransactionWatch(self.servers, self.topic)
        for _ in range(TRIES):
            wait_for(job, watch.is_open)
            os.kill(job.pid, signal.SIGSTOP)
            if watch.is_open():
                break
            os.kill(job.pid, signal.SIGCONT)
        else:
            raise AssertionError(f"{TRIES} transactions were committed before the driver was stopped")
        watch.close()
        try:
            yield
        finally:
            os.kill(job.pid, signal.SIGCONT)

    def await_exit(self, job: JobProcess) -> None:
        wait_until(lambda: job.exit_code is not None, timeout_s=FINISH_LIMIT_S, pause_s=0.2)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(message.value()) for message in read_committed(self.servers, self.topic)]

    def require_exact(self) -> None:
        """Counts, sums, the XOR of ids and the running counts of every key are those of the oracle."""
        verdict = compare(self.expected, read_state(self.place.job_folder), self.rows())
        assert verdict.exact, verdict


def fill_topic(servers: str, events: Path) -> str:
    """A topic with the events of the files, by key."""
    topic = new_topic(servers, "events")
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 50})
    for path in sorted(events.glob("*.json")):
        for line in path.read_text(encoding="utf-8").splitlines():
            while True:
                try:
                    producer.produce(topic, line, json.loads(line)["key"])
                    break
                except BufferError:
                    producer.poll(1)
    assert producer.flush(60) == 0
    return topic
