"""Commits the offsets of completed checkpoints to a consumer group, for monitoring; they are never read back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.connectors.kafka import client
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.kafka.partition_offsets import Partition

if TYPE_CHECKING:
    from confluent_kafka import Consumer


class GroupOffsets:
    """The offsets of one source's group. Connects with the first commit."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._consumer: Consumer | None = None

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Set the group's offsets. Raises a ConnectorError if the broker does not take them."""
        if not offsets:
            return
        if self._consumer is None:
            self._consumer = client.open_consumer({**self._source.settings, "enable.auto.commit": "false"})
        consumer = self._consumer
        places = [client.topic_partition(*partition, offset) for partition, offset in offsets.items()]
        what = f"offsets of group {self._source.group_id!r}"
        client.call(what, lambda: consumer.commit(offsets=places, asynchronous=False))

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()
