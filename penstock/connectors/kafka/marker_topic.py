"""The topic of markers: which checkpoint of a sink was the last one that became visible.

A compacted topic with one partition. The key is the owner, the value the marker. Compaction keeps the last record of
each key, so a marker never expires. Records of open transactions are not read: `read` waits until there are none before
the end that the topic has when it begins.
"""

import time
from typing import Any

from penstock.connectors.kafka import client
from penstock.connectors.kafka.kafka_records import KafkaRecord
from penstock.errors import ConnectorRefusedError, ConnectorUnavailableError

DEFAULT_NAME = "penstock-markers"
PARTITION = 0
NO_MARKER = -1
READ_TIMEOUT_S = 30.0
POLL_S = 0.1
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * 1024 * 1024),  # a segment is compacted when the next one has begun
    "min.cleanable.dirty.ratio": "0.1",
}


class MarkerTopic:
    """The markers on one broker. Not thread-safe."""

    def __init__(self, settings: dict[str, Any], name: str = DEFAULT_NAME) -> None:
        self._settings = settings
        self.name = name
        self._servers = settings["bootstrap.servers"]
        self._admin: Any = None

    def create_if_missing(self) -> None:
        """Create the topic. One that keeps its records only for a time is refused: a marker must not expire."""
        if self._is_there():
            self._require_compaction()
        else:
            client.create_topic(self._administrator(), self.name, CONFIG, READ_TIMEOUT_S)

    def check(self) -> None:
        """Raise if the topic could not be used or created. Changes nothing."""
        if self._is_there():
            self._require_compaction()
        else:
            client.create_topic(self._administrator(), self.name, CONFIG, READ_TIMEOUT_S, only_validate=True)

    def record(self, owner: str, marker: int) -> KafkaRecord:
        """The record that is sent with the rows."""
        return KafkaRecord(self.name, PARTITION, owner.encode(), str(marker).encode(), None, None)

    def read(self, owner: str) -> int:
        """The last committed marker; NO_MARKER if there is none.

        Raises ConnectorUnavailableError if a transaction of another job stays open: a marker may follow it.
        """
        end = client.list_offsets(
            self._administrator(), [(self.name, PARTITION)], "latest", READ_TIMEOUT_S, committed_only=False
        )[0]
        settings = {
            **self._settings,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
        consumer: Any = client.open_consumer(settings)
        try:
            consumer.assign([client.topic_partition(self.name, PARTITION, client.EARLIEST)])
            return self._read_to(consumer, end, owner.encode())
        finally:
            consumer.close()

    def close(self) -> None:
        """Disconnect."""
        self._admin = None

    def _read_to(self, consumer: Any, end: int, key: bytes) -> int:
        marker, position = NO_MARKER, 0
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while position < end:
            if time.monotonic() >= deadline_s:
                raise ConnectorUnavailableError(
                    f"the marker topic {self.name!r} on {self._servers} cannot be read to its end: a transaction of "
                    f"another job is open at offset {position}; it ends when that job continues, at the latest after "
                    f"its transaction.timeout.ms"
                )
            for message in consumer.consume(10_000, POLL_S):
                error = message.error()
                if error is None:
                    position = message.offset() + 1
                    if message.key() == key:
                        marker = int(message.value())
                elif client.error_name(error) == "_PARTITION_EOF":
                    position = message.offset()
                else:
                    raise client.translated(error, f"marker topic {self.name!r} on {self._servers}")
        return marker

    def _is_there(self) -> bool:
        return self.name in client.list_topics(self._settings, READ_TIMEOUT_S)

    def _require_compaction(self) -> None:
        policy = client.topic_config(self._administrator(), self.name, READ_TIMEOUT_S).get("cleanup.policy", "compact")
        if policy != "compact":
            raise ConnectorRefusedError(
                f"the marker topic {self.name!r} on {self._servers} has the cleanup policy {policy!r}, so that markers "
                f"could expire; set its cleanup.policy to 'compact', or choose another one with set_marker_topic(name)"
            )

    def _administrator(self) -> Any:
        if self._admin is None:
            self._admin = client.open_admin(self._settings)
        return self._admin
