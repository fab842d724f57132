"""Topics of a real broker for tests: made, filled with and without transactions, and looked into."""

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka.cimpl import NewPartitions, NewTopic

from penstock.connectors.kafka.client import open_admin, open_consumer, open_producer, topic_partition
from penstock.model.ids import new_nonce
from tests.waiting import LIMIT_S, wait_until

FLUSH_S = 60


class Topic:
    """A topic with a name of its own."""

    def __init__(self, address: str, partitions: int = 1, name: str | None = None) -> None:
        self.address = address
        self.name = name or f"t-{new_nonce()}"
        self._admin = open_admin({"bootstrap.servers": address})
        self._admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(LIMIT_S)
        self._await_partitions(partitions)

    def add_partitions(self, total: int) -> None:
        """Let the topic have `total` partitions."""
        self._admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(LIMIT_S)
        self._await_partitions(total)

    def delete_records(self, partition: int, before: int) -> None:
        """As retention does."""
        place = topic_partition(self.name, partition, before)
        self._admin.delete_records([place])[place].result(LIMIT_S)

    def fill(self, messages: Iterable[tuple[int, Any]], *, times: Sequence[int] | None = None) -> None:
        """Produce (partition, value), without a transaction."""
        producer = open_producer({"bootstrap.servers": self.address, "acks": "all"})
        for index, (partition, value) in enumerate(messages):
            stamp: dict[str, Any] = {} if times is None else {"timestamp": times[index]}
            producer.produce(self.name, _bytes(value), key=b"k", partition=partition, **stamp)
            producer.poll(0)
        assert producer.flush(FLUSH_S) == 0

    def transaction(self, messages: Iterable[tuple[int, Any]], end: str, transactional_id: str | None = None) -> Any:
        """Produce in one transaction that ends as `commit`, `abort`, or stays `open`; returns its producer."""
        name = transactional_id or new_nonce()
        settings = {"bootstrap.servers": self.address, "transactional.id": name}
        producer = open_producer({**settings, "transaction.timeout.ms": 900_000})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        for partition, value in messages:
            producer.produce(self.name, _bytes(value), partition=partition)
        assert producer.flush(FLUSH_S) == 0
        if end == "commit":
            producer.commit_transaction(LIMIT_S)
        elif end == "abort":
            producer.abort_transaction(LIMIT_S)
        return producer

    def committed(self, group: str, partitions: int) -> list[int]:
        """The offsets that a group has committed."""
        consumer = open_consumer({"bootstrap.servers": self.address, "group.id": group})
        try:
            places = [topic_partition(self.name, number) for number in range(partitions)]
            return [place.offset for place in consumer.committed(places, timeout=LIMIT_S)]
        finally:
            consumer.close()

    def _await_partitions(self, count: int) -> None:
        def has_leaders() -> bool:
            topic = self._admin.list_topics(timeout=LIMIT_S).topics.get(self.name)
            return topic is not None and sum(p.leader >= 0 for p in topic.partitions.values()) == count

        wait_until(has_leaders)


def _bytes(value: Any) -> Any:
    return value if isinstance(value, bytes) or value is None else str(value).encode()
