"""Topics of a real broker, read by a consumer that shares nothing with the sink."""

import itertools
import os
import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

READ_LIMIT_S = 120.0
_numbers = itertools.count(1)


def new_topic(servers: str, name: str, partitions: int = 4, **config: str) -> str:
    """A topic of its own for a test, created on the broker."""
    topic = f"{name}-{os.getpid()}-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result()
    return topic


def read_committed(servers: str, topic: str) -> list[Any]:
    """Every committed message up to the end of open transactions, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Any] = []
        waiting = set(partitions)
        deadline_s = time.monotonic() + READ_LIMIT_S
        while waiting:
            assert time.monotonic() < deadline_s, f"partitions {waiting} of {topic} do not end"
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.name() == "_PARTITION_EOF":
                    waiting.discard(message.partition() or 0)
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
    finally:
        consumer.close()


class TransactionWatch:
    """Sees whether a topic has records that a reader of committed records must not see yet."""

    def __init__(self, servers: str, topic: str) -> None:
        levels = ("read_uncommitted", "read_committed")
        settings = {"bootstrap.servers": servers, "group.id": "watch"}
        self._consumers = [Consumer({**settings, "isolation.level": level}) for level in levels]
        found = self._consumers[0].list_topics(topic, timeout=30).topics[topic].partitions
        self._partitions = [TopicPartition(topic, number) for number in found]

    def is_open(self) -> bool:
        """Whether a transaction is open."""
        ends, stable = ([self._end(consumer, place) for place in self._partitions] for consumer in self._consumers)
        return any(end > last for end, last in zip(ends, stable, strict=True))

    def close(self) -> None:
        """Disconnect."""
        for consumer in self._consumers:
            consumer.close()

    def _end(self, consumer: Any, place: TopicPartition) -> int:
        return int(consumer.get_watermark_offsets(place, 30)[1])
