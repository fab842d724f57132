"""Workload W1 from topic to topic: exactly once against at least once, in turns.

    python -m bench.kafka_job [--messages 2000000] [--rounds 2]

Starts a broker and fills a topic of four partitions with small JSON messages. Each job counts and sums them by key,
with a checkpoint every five seconds, and writes one message for each that it reads. The rate is that of the second
half, from the end of the epoch in which half of the messages was read to the end of the job, which has published all.

Nothing fails here, so both guarantees write each message once: the exit code is 1 if a reader of committed messages
does not find as many as were read. The rates have no limit; they are shown side by side.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from bench.programs.epoch_log import read_lines
from penstock.connectors.kafka.client import error_name, open_admin, open_consumer, open_producer, topic_partition
from penstock.services import start_service

GUARANTEES = ("EXACTLY_ONCE", "AT_LEAST_ONCE")
KEYS = 10_000
PARTITIONS = 4
PROGRAM = Path(__file__).with_name("programs") / "w1_kafka.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each job, the medians as JSON and the verdict; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args(arguments)
    rates: dict[str, list[float]] = {name: [] for name in GUARANTEES}
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        broker = start_service("kafka", Path(name) / "broker")
        try:
            make_topics(broker.address, ["events"])
            fill(broker.address, options.messages)
            for number in range(1, options.rounds + 1):
                for guarantee in GUARANTEES:
                    work = Path(name) / f"{guarantee}-{number}"
                    work.mkdir()
                    rate = run_job(broker.address, guarantee, work, options.messages)
                    rates[guarantee].append(rate)
                    print(f"round {number} {guarantee:14} {rate:10,.0f} messages/s", flush=True)
                    written = count_committed(broker.address, work.name)
                    if written != options.messages:
                        wrong.append(f"round {number} {guarantee}: {written:,} messages were written: WRONG")
        finally:
            broker.stop()
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(json.dumps({name: round(rate) for name, rate in medians.items()}))
    print("\n".join([verdict(*(medians[name] for name in GUARANTEES)), *wrong]))
    return 1 if wrong else 0


def verdict(exactly_once: float, at_least_once: float) -> str:
    """Both rates.

    >>> verdict(90_000.0, 100_000.0)
    'exactly once: 90,000 messages/s; at least once: 100,000 messages/s; the first is 90 % of the second'
    """
    rates = f"exactly once: {exactly_once:,.0f} messages/s; at least once: {at_least_once:,.0f} messages/s"
    return f"{rates}; the first is {100 * exactly_once / at_least_once:.0f} % of the second"


def run_job(address: str, guarantee: str, work: Path, messages: int) -> float:
    """Messages per second of the second half."""
    make_topics(address, [work.name])
    log = work / "epochs.jsonl"
    environment = {**os.environ, "PENSTOCK_EPOCH_LOG": str(log), "SPARK_LOCAL_DIRS": str(work / "spark")}
    command = [sys.executable, str(PROGRAM), address, "events", work.name, guarantee, str(work)]
    with open(work / "log", "wb") as said:
        done = subprocess.run(command, env=environment, stdout=said, stderr=said, check=False)
    ended_ms = 1000 * time.time()
    if done.returncode:
        raise SystemExit((work / "log").read_text(encoding="utf-8", errors="replace"))
    seen = 0
    for line in read_lines(log, 0).splitlines():
        epoch = json.loads(line)
        before, seen = seen, seen + epoch["rows"]
        if before < messages / 2 <= seen:
            half, half_ms = seen, epoch["finished_ms"]
    assert seen == messages, f"{seen} of {messages} messages were read"
    if half == messages:
        raise SystemExit(f"one epoch has read the second half of {messages:,} messages: give more --messages")
    ended_ms = min(ended_ms, 1000 * (work / "ended").stat().st_mtime)
    return float((messages - half) / (ended_ms - half_ms) * 1000)


def make_topics(address: str, names: list[str]) -> None:
    """Empty topics."""
    admin = open_admin({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        created.result()


def count_committed(address: str, topic: str) -> int:
    """The messages that a reader of committed ones finds, up to the end that the topic has now."""
    settings = {"bootstrap.servers": address, "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = open_consumer({**settings, "group.id": "count", "enable.auto.commit": False})
    consumer.assign([topic_partition(topic, number, 0) for number in range(PARTITIONS)])
    found, left = 0, set(range(PARTITIONS))
    while left:
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                found += 1
            elif error_name(error) == "_PARTITION_EOF":
                left.discard(message.partition())
    consumer.close()
    return found


def fill(address: str, messages: int) -> None:
    """Small messages, evenly over the partitions."""
    producer = open_producer({"bootstrap.servers": address, "queue.buffering.max.messages": 1_000_000})
    for number in range(messages):
        value = b'{"key":"k%d","value":%d.5}' % (number * 7919 % KEYS, number % 100)
        while True:
            try:
                producer.produce("events", value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    sys.exit(main())
