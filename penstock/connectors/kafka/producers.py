"""Producers on a real broker: transactions with a marker, and sending without them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kafka import client
from penstock.connectors.kafka.kafka_records import KafkaRecord
from penstock.connectors.kafka.marker_topic import MarkerTopic
from penstock.errors import ConnectorError, ConnectorRefusedError, ConnectorUnavailableError

START_TIMEOUT_S = 30.0
COMMIT_TIMEOUT_S = 60.0
ABORT_TIMEOUT_S = 10.0
STEP_S = 1.0
DEFAULTS: dict[str, Any] = {
    "partitioner": "murmur2_random",  # a key goes to the partition that Kafka's Java client chooses
    "linger.ms": 5,
    "message.timeout.ms": 60_000,
    "socket.timeout.ms": 60_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 65_536,
}
WITHIN_TRANSACTION = ("message.timeout.ms", "socket.timeout.ms")
"""Time limits that librdkafka requires to be below that of a transaction."""
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that brokers accept by default (`transaction.max.timeout.ms`)."""


@dataclass(frozen=True)
class ProducerSettings:
    """How to reach the broker, and what to send how."""

    servers: str
    settings: tuple[tuple[str, Any], ...]
    """Settings of librdkafka, including `bootstrap.servers`."""

    def for_producer(self, **forced: Any) -> dict[str, Any]:
        """The settings of a producer. It is idempotent: what it sends again after a lost reply is stored once."""
        dotted = {name.replace("_", "."): value for name, value in forced.items()}
        defaults = dict(DEFAULTS)
        if "transactional.id" in dotted:
            timeout_ms = int(dict(self.settings).get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
            defaults["transaction.timeout.ms"] = timeout_ms
            for name in WITHIN_TRANSACTION:
                defaults[name] = min(defaults[name], timeout_ms)
        return {**defaults, **dict(self.settings), "enable.idempotence": True, **dotted}

    def for_reading(self) -> dict[str, Any]:
        """The settings of a consumer or an administrator."""
        return dict(self.settings)


class RecordSender:
    """An idempotent producer that remembers the first record that the broker refused."""

    def __init__(self, settings: dict[str, Any], servers: str) -> None:
        self._servers = servers
        self._failures = _Failures()
        self.producer: Any = client.open_producer(
            {**settings, "on_delivery": self._failures.add, "delivery.report.only.error": True}
        )

    def send(self, records: Iterable[KafkaRecord]) -> None:
        """Hand records to the producer. Raises if one that was sent before has failed."""
        produce, record = self.producer.produce, None
        try:
            for record in records:
                topic, partition, key, value, headers, timestamp = record
                is_plain = partition is None and headers is None and timestamp is None
                options = {} if is_plain else _options(record)
                while True:
                    try:
                        produce(topic, value, key, **options)
                        break
                    except BufferError:  # the queue is full; a record leaves it after message.timeout.ms at the latest
                        self.producer.poll(STEP_S)
                        self.require_success()
        except client.library_error() as error:
            raise client.translated(error.args[0], str(record)) from None
        self.producer.poll(0)
        self.require_success()

    def flush(self) -> None:
        """Wait until the broker has everything. Ends after `message.timeout.ms` at the latest."""
        while self.producer.flush(STEP_S):
            self.require_success()
        self.require_success()

    def require_success(self) -> None:
        """Raise if a record has failed."""
        if self._failures.found:
            raise self._failures.error(self._servers)

    def close(self, wait_s: float = 0.0) -> None:
        """Disconnect. Records that are not stored after the wait are dropped."""
        try:
            self.producer.flush(wait_s)
            self.producer.purge()
            self.producer.flush(0)
        except client.library_error():
            pass  # it has failed for good, which was raised before, and holds nothing


class KafkaTransactionClient:
    """The transactions of one owner on a broker."""

    def __init__(self, settings: ProducerSettings, transactional_id: str, marker: MarkerTopic, owner: str) -> None:
        self._what = f"transactions of {transactional_id!r} on {settings.servers}"
        self._marker = marker
        self._owner = owner
        self._is_open = False
        self._sender = RecordSender(settings.for_producer(transactional_id=transactional_id), settings.servers)

    def start(self) -> None:
        """Fence older clients. Creates the marker topic if it is missing."""
        self._marker.create_if_missing()
        self._repeat("start", lambda: self._sender.producer.init_transactions(STEP_S), START_TIMEOUT_S)

    def read_marker(self) -> int:
        """The stored marker."""
        return self._marker.read(self._owner)

    def begin(self) -> None:
        """Begin a transaction."""
        client.call(self._what, self._sender.producer.begin_transaction)
        self._is_open = True

    def send(self, records: Iterable[KafkaRecord]) -> None:
        """Send records in the transaction."""
        self._sender.send(records)

    def store_marker(self, marker: int) -> None:
        """Send the marker after all records have arrived.

        As late as possible: an open transaction on the marker topic holds up other jobs that start.
        """
        self._sender.flush()
        self._sender.send([self._marker.record(self._owner, marker)])

    def commit(self) -> None:
        """Commit the transaction."""
        self._sender.flush()
        self._repeat("commit", lambda: self._sender.producer.commit_transaction(STEP_S), COMMIT_TIMEOUT_S)
        self._is_open = False

    def close(self) -> None:
        """Abort an open transaction, so that readers need not wait for its time limit."""
        producer = self._sender.producer
        if self._is_open:
            try:
                client.call(self._what, lambda: producer.abort_transaction(ABORT_TIMEOUT_S))
            except ConnectorError:
                pass  # the broker is away, has fenced this client or is committing: the next `start` resolves it
        self._sender.close()
        self._marker.close()

    def _repeat(self, verb: str, action: Callable[[], None], timeout_s: float) -> None:
        """Repeat a step that the broker has not answered; librdkafka continues where it was."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                client.call(f"{self._what}: {verb}", action)
                return
            except ConnectorUnavailableError:
                if time.monotonic() >= deadline_s:
                    raise


@dataclass
class _Failures:
    """Records that were not stored. If a batch is refused, its largest record is the most likely reason."""

    found: list[tuple[Any, str, bytes | None, int]] = field(default_factory=list)

    def add(self, error: Any, message: Any) -> None:
        """Called by the producer."""
        if error is not None and len(self.found) < 1000:
            size = len(message.key() or b"") + len(message.value() or b"")
            self.found.append((error, message.topic(), message.key(), size))

    def error(self, servers: str) -> ConnectorError:
        """The failure as one error."""
        error, topic, key, size = max(self.found, key=lambda failure: failure[3])
        named = "without a key" if key is None else f"with the key {key[:80]!r}"
        what = f"a record {named} ({size:,} bytes) was not stored in topic {topic!r} on {servers}"
        name = client.error_name(error)
        if name == "MSG_SIZE_TOO_LARGE":
            return ConnectorRefusedError(
                f"{what}: it is larger than the broker or the topic allows; raise 'max.message.bytes' of the topic"
            )
        if name in ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART"):
            return ConnectorRefusedError(f"{what}: there is no such topic or partition; create it")
        return client.translated(error, what)


def _options(record: KafkaRecord) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if record.partition is not None:
        options["partition"] = record.partition
    if record.headers is not None:
        options["headers"] = record.headers
    if record.timestamp is not None:
        options["timestamp"] = record.timestamp
    return options
