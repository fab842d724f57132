"""How fast topics are read into Python: `KafkaSource` against Spark's own connector, in turns, in one session.

    python -m bench.kafka_read [--messages 1000000] [--partitions 4] [--rounds 3]

Starts a broker, fills a topic with small messages, and reads it as a stream in one micro-batch, into Python code
that counts Arrow rows. The first round of each reader warms up and is not counted, nor is the start of a query.
Spark's connector needs four jars, which Maven fetches.

Exit codes: 0 if the median of ours is at least that of Spark's connector, 1 if not.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.cimpl import NewTopic

from bench.figures import limit_line
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.client import open_admin, open_producer
from penstock.connectors.kafka.kafka_source import KafkaOffsetsInitializer, KafkaSource
from penstock.services import cache_folder, start_service
from penstock.services.maven import fetch_jars
from penstock.spark.kafka_stream import KafkaLimits, read_kafka
from penstock.spark.session import make_session

JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
TOPIC = "messages"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each reading, the medians as JSON and the verdict; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    jars = fetch_jars(JARS, cache_folder() / "spark-kafka-4.2.0", transitive=False)
    with tempfile.TemporaryDirectory() as folder:
        broker = start_service("kafka", Path(folder) / "kafka")
        try:
            fill(broker.address, options.messages, options.partitions)
            settings = {"spark.master": "local[2]", "spark.jars": ",".join(map(str, jars))}
            session = make_session({**settings, "spark.sql.shuffle.partitions": "2"})
            speeds = compare(session, broker.address, options.messages, options.rounds)
            session.stop()
        finally:
            broker.stop()
    print(json.dumps({name: round(speed) for name, speed in speeds.items()}))
    print(verdict(speeds["penstock"], speeds["spark"]))
    return 0 if speeds["penstock"] >= speeds["spark"] else 1


def verdict(ours: float, sparks: float) -> str:
    """The medians against each other.

    >>> verdict(610_000.0, 350_000.0)
    "KafkaSource: 610,000 messages/s (limit: at least 350,000, those of Spark's connector): kept"
    """
    return limit_line(
        f"KafkaSource: {ours:,.0f} messages/s",
        f"at least {sparks:,.0f}, those of Spark's connector",
        is_within=ours >= sparks,
    )


def compare(session: Any, address: str, messages: int, rounds: int) -> dict[str, float]:
    """Read with each reader in turn; the medians of messages per second."""
    speeds: dict[str, list[float]] = {"penstock": [], "spark": []}
    for number in range(rounds + 1):
        for name, open_frame in (("penstock", open_ours), ("spark", open_sparks)):
            found, seconds = count(open_frame(session, address))
            assert found == messages, f"{name} read {found} of {messages} messages"
            print(f"round {number} {name}: {messages / seconds:,.0f} messages/s, {seconds:.2f} s", flush=True)
            if number:
                speeds[name].append(messages / seconds)
    return {name: statistics.median(found) for name, found in speeds.items()}


def open_ours(session: Any, address: str) -> Any:
    """Our source."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(address)
        .set_topics(TOPIC)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    return read_kafka(session, source, KafkaLimits(1 << 40), None)


def open_sparks(session: Any, address: str) -> Any:
    """Spark's connector, with the value as text."""
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    reader = session.readStream.format("kafka").options(**options)
    return reader.option("kafka.isolation.level", "read_committed").load().selectExpr("cast(value as string) as value")


def count(frame: Any) -> tuple[int, float]:
    """The rows of a stream, counted in Python, and the seconds of its micro-batches without the start of the query."""
    found, seconds = 0, 0.0

    def count_batch(rows: Any, _: int) -> None:
        nonlocal found, seconds
        start_s = time.monotonic()
        found += sum(row.n for row in rows.mapInArrow(count_rows, "n bigint").collect())
        seconds += time.monotonic() - start_s

    with tempfile.TemporaryDirectory() as folder:
        writer = frame.writeStream.foreachBatch(count_batch).option("checkpointLocation", folder)
        writer.trigger(availableNow=True).start().awaitTermination()
    return found, seconds


def count_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """One row with the number of rows."""
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})


def fill(address: str, messages: int, partitions: int) -> None:
    """Small messages, evenly over the partitions."""
    admin = open_admin({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
    producer = open_producer({"bootstrap.servers": address, "queue.buffering.max.messages": messages + 1})
    for number in range(messages):
        producer.produce(TOPIC, b'{"id": %d, "k": "a"}' % number, partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    sys.exit(main())
