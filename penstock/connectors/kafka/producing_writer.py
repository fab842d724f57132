"""The writer of a Kafka sink without transactions: records are sent when they are written, and seen at once."""

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.connectors.kafka.kafka_records import KafkaRecordEncoder
from penstock.model.sink import SinkWriter

CLOSE_S = 5.0
"""How long a writer without a guarantee waits when it closes, so that a job that ends normally loses nothing."""


class Sender(Protocol):
    """A producer."""

    def send(self, records: Any) -> None: ...
    def flush(self) -> None: ...
    def close(self, wait_s: float) -> None: ...


class ProducingWriter(SinkWriter):
    """Sends records. With `waits`, a checkpoint covers them only when the broker has stored them (at least once)."""

    def __init__(self, encoder: KafkaRecordEncoder, sender: Sender, *, waits: bool) -> None:
        self._encoder = encoder
        self._sender = sender
        self._waits = waits

    def begin_epoch(self) -> None:
        """Do nothing: there is nothing to undo."""

    def write(self, records: Sequence[Any]) -> None:
        self._sender.send(self._encoder.records(records))

    def roll_back(self) -> None:
        """Do nothing: what was sent stays, and the repeated epoch sends it again."""

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        if self._waits:
            self._sender.flush()
        return []

    def close(self) -> None:
        self._sender.close(0.0 if self._waits else CLOSE_S)
