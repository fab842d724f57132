"""What a sink asks the broker about its topics, at the start of a job and when it first sees a topic."""

from typing import Any

from penstock.connectors.kafka import client
from penstock.connectors.kafka.kafka_records import DEFAULT_MAX_BYTES
from penstock.errors import ConnectorRefusedError

LOOKUP_TIMEOUT_S = 15.0


class TopicLookup:
    """The topics on one broker. Connects when it is asked."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._servers = settings["bootstrap.servers"]

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic; [0] of one that the broker creates when it is first used.

        Raises ConnectorRefusedError if there is no such topic.
        """
        found = client.list_topics(self._settings, LOOKUP_TIMEOUT_S)
        if topic in found:
            return found[topic]
        broker = client.broker_config(client.open_admin(self._settings), LOOKUP_TIMEOUT_S)
        if broker.get("auto.create.topics.enable") == "true":
            return list(range(int(broker.get("num.partitions", 1))))
        raise ConnectorRefusedError(
            f"there is no topic {topic!r} on {self._servers}, and the broker does not create topics by itself; create "
            f"it, or correct its name"
        )

    def require_size(self, topic: str, max_bytes: int) -> None:
        """Raise if a topic refuses records that the sink would accept: they could never be published."""
        config = client.topic_config(client.open_admin(self._settings), topic, LOOKUP_TIMEOUT_S)
        limit = int(config.get("max.message.bytes", max_bytes))
        if limit < max_bytes:
            raise ConnectorRefusedError(
                f"topic {topic!r} on {self._servers} takes records of up to {limit:,} bytes, but the sink sends up to "
                f"{max_bytes:,}; raise 'max.message.bytes' of the topic, or call "
                f"set_property('message.max.bytes', '{limit}')"
            )

    def require_transaction_timeout(self, timeout_ms: int) -> None:
        """Raise if the broker refuses transactions with this timeout."""
        broker = client.broker_config(client.open_admin(self._settings), LOOKUP_TIMEOUT_S)
        limit_ms = int(broker.get("transaction.max.timeout.ms", timeout_ms))
        if limit_ms < timeout_ms:
            raise ConnectorRefusedError(
                f"broker {self._servers} allows transactions of up to {limit_ms} ms, but the sink asks for "
                f"{timeout_ms} ms; call set_property('transaction.timeout.ms', '{limit_ms}')"
            )


def max_record_bytes(settings: dict[str, Any]) -> int:
    """The largest record that the producer takes."""
    return int(settings.get("message.max.bytes", DEFAULT_MAX_BYTES))
