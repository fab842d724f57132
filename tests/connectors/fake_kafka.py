"""A broker with transactions in memory: what a transactional producer may do, and who is fenced."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kafka.kafka_records import KafkaRecord
from penstock.connectors.kafka.transactions import NO_MARKER
from penstock.errors import ConnectorRefusedError


@dataclass
class FakeTransaction:
    """What one producer has sent and not committed."""

    records: list[KafkaRecord] = field(default_factory=list)
    marker: int | None = None


class FakeBroker:
    """Topics that a reader of committed records sees, markers, and the transaction of each transactional id."""

    def __init__(self) -> None:
        self.visible: list[KafkaRecord] = []
        self.markers: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.open: dict[str, FakeTransaction] = {}
        self.lock = threading.Lock()

    def commit(self, name: str, owner: str) -> None:
        """All at once."""
        transaction = self.open.pop(name)
        self.visible += transaction.records
        if transaction.marker is not None:
            self.markers[owner] = transaction.marker

    def expire(self) -> None:
        """The time limit of every transaction has passed: they are aborted, and their producers fenced."""
        for name in self.open:
            self.epochs[name] += 1
        self.open.clear()


class FakeClient:
    """A TransactionClient. `step` runs each call to the broker; it may fail before or after."""

    def __init__(self, broker: FakeBroker, name: str, owner: str, step: Callable[[Callable[[], Any]], Any]) -> None:
        self._broker = broker
        self._name = name
        self._owner = owner
        self._step = step
        self._epoch = -1

    def start(self) -> None:
        def initialize() -> None:
            with self._broker.lock:
                self._epoch = self._broker.epochs[self._name] = self._broker.epochs.get(self._name, 0) + 1
                self._broker.open.pop(self._name, None)

        self._step(initialize)

    def read_marker(self) -> int:
        return int(self._step(lambda: self._broker.markers.get(self._owner, NO_MARKER)))

    def begin(self) -> None:
        self._change(lambda: self._broker.open.update({self._name: FakeTransaction()}))

    def send(self, records: Iterable[KafkaRecord]) -> None:
        sent = list(records)
        self._change(lambda: self._broker.open[self._name].records.extend(sent))

    def store_marker(self, marker: int) -> None:
        def store() -> None:
            self._broker.open[self._name].marker = marker

        self._change(store)

    def commit(self) -> None:
        self._change(lambda: self._broker.commit(self._name, self._owner))

    def close(self) -> None:
        """A producer that is closed leaves its transaction to the broker."""

    def _change(self, action: Callable[[], None]) -> None:
        def unless_fenced() -> None:
            with self._broker.lock:
                if self._broker.epochs[self._name] != self._epoch:
                    raise ConnectorRefusedError(f"{self._name!r}: Kafka answers _FENCED")
                action()

        self._step(unless_fenced)
