"""Workload W1 from topic to topic: exactly once against at least once, in turns.

    python -m bench.kafka_job [--messages 2000000] [--rounds 2]

Starts a broker and fills a topic of four partitions with small JSON messages. Each job counts and sums them by key,
with a checkpoint every five seconds, and writes one message for each that it reads. The rate is that of the second
half, from the end of the epoch in which half of the messages was read to the end of the job, which has published all.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from bench.programs.epoch_log import read_lines
from penstock.connectors.kafka.client import open_admin, open_producer
from penstock.services import start_service

GUARANTEES = ("EXACTLY_ONCE", "AT_LEAST_ONCE")
KEYS = 10_000
PARTITIONS = 4
PROGRAM = Path(__file__).with_name("programs") / "w1_kafka.py"


def main() -> None:
    """Print one line for each job, and the medians as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in GUARANTEES}
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
        finally:
            broker.stop()
    print(json.dumps({name: round(statistics.median(found)) for name, found in rates.items()}))


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
    ended_ms = min(ended_ms, 1000 * (work / "ended").stat().st_mtime)
    return float((messages - half) / (ended_ms - half_ms) * 1000)


def make_topics(address: str, names: list[str]) -> None:
    """Empty topics."""
    admin = open_admin({"bootstrap.servers": address})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        created.result()


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
    main()
