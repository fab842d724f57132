"""Rows per second of the Kafka sink by guarantee, and how long after a commit begins a reader sees the rows.

`python -m bench.kafka_write [ROWS]` starts a broker of its own. One process writes 64-byte records with a key to four
partitions. Exactly once: the rows are staged as at a checkpoint, then published by the kept producer.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.common import SimpleStringSchema, Types
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from penstock.model.ids import StageId, SubtaskId, new_job_id
from penstock.model.sink import SinkContext
from penstock.model.snapshot import Committable
from penstock.services import start_service
from penstock.storage.local import LocalStorage

RUNS = 5
SMALL = 1_000
PORTION = 10_000


class FirstWord(SimpleStringSchema):
    """The key of a line."""

    def serialize(self, element: Any) -> bytes:
        return super().serialize(element.split(" ", 1)[0])


def make_sink(servers: str, topic: str, guarantee: DeliveryGuarantee) -> KafkaSink:
    """A sink of lines."""
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(FirstWord())
    built = schema.set_value_serialization_schema(SimpleStringSchema()).build()
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(built)
    return builder.set_delivery_guarantee(guarantee).build()


def write(sink: KafkaSink, folder: Path, rows: list[str], job_id: str, epoch: int) -> list[Committable]:
    """One checkpoint up to its pre-commit."""
    context = SinkContext(job_id, 1, "out", SubtaskId(StageId("s1"), 0), Types.STRING(), LocalStorage(folder))
    writer = sink.open(context)
    writer.begin_epoch()
    for start in range(0, len(rows), PORTION):
        writer.write(rows[start : start + PORTION])
    found = [Committable("out", context.subtask, epoch, name, data) for name, data in writer.pre_commit()]
    writer.close()
    return found


class Reader:
    """Counts committed records."""

    def __init__(self, servers: str, topic: str) -> None:
        settings = {"group.id": f"reader-{topic}", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": servers, "fetch.queue.backoff.ms": 5, **settings})
        self._consumer.subscribe([topic])
        self.count = 0

    def read_to(self, count: int) -> None:
        """Return when so many have come."""
        while self.count < count:
            self.count += sum(message.error() is None for message in self._consumer.consume(10_000, 0.02))

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


def rates(servers: str, folder: Path, count: int) -> None:
    """Print the rates of both guarantees, alternating."""
    rows = [f"key{n % 1000} {'x' * 48} {n:08}" for n in range(count)]
    admin = AdminClient({"bootstrap.servers": servers})
    job_id = new_job_id()
    for run in range(1, RUNS + 1):
        for guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
            topic = f"{guarantee.name.lower()}-{run}"
            admin.create_topics([NewTopic(topic, 4)])[topic].result()
            sink = make_sink(servers, topic, guarantee)
            started_s = time.perf_counter()
            staged = write(sink, folder, rows, job_id, run)
            staged_s = time.perf_counter() - started_s
            sink.commit_all(staged)
            total_s = time.perf_counter() - started_s
            parts = f"staged in {staged_s:.2f} s, published in {total_s - staged_s:.2f} s" if staged else ""
            print(f"run {run} {guarantee.name:14} {count / total_s:10,.0f} rows/s  {parts}", flush=True)


def latencies(servers: str, folder: Path) -> None:
    """Print how long a small checkpoint takes from the start of its commit until a reader has all of it."""
    topic = "latency"
    admin = AdminClient({"bootstrap.servers": servers})  # its requests end with it
    admin.create_topics([NewTopic(topic, 4)])[topic].result()
    sink = make_sink(servers, topic, DeliveryGuarantee.EXACTLY_ONCE)
    reader, job_id, found = Reader(servers, topic), new_job_id(), []
    for run in range(1, 31):
        rows = [f"key{n} {run}" for n in range(SMALL)]
        staged = write(sink, folder, rows, job_id, run)
        started_s = time.perf_counter()
        sink.commit_all(staged)
        committed_ms = 1000 * (time.perf_counter() - started_s)
        reader.read_to(run * SMALL)
        found.append((1000 * (time.perf_counter() - started_s), committed_ms))
    reader.close()
    first, rest = found[0], sorted(found[1:])
    committed_ms = sorted(committed for _, committed in rest)[14]
    print(f"checkpoints of {SMALL} rows: the first is committed after {first[1]:.0f} ms")
    print(
        f"the others: committed after {committed_ms:.0f} ms, seen after {rest[14][0]:.0f} ms (medians of 29), ", end=""
    )
    print(f"{rest[-1][0]:.0f} ms at the most", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        broker = start_service("kafka", Path(temporary) / "broker")
        try:
            latencies(broker.address, Path(temporary) / "staging")
            rates(broker.address, Path(temporary) / "staging", int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
        finally:
            broker.stop()
