"""Kafka records as Arrow columns, in which they wait for their checkpoint, and back."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from penstock.connectors.kafka.record_schema import Headers, KafkaRecordSerializationSchema
from penstock.errors import UnsupportedValueError, UsageError

DEFAULT_MAX_BYTES = 1_000_000
"""librdkafka's `message.max.bytes`, a little below the limit that brokers have by default."""
OVERHEAD_BYTES = 96
"""The most that a record takes beside its key, value and headers, as librdkafka counts."""

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
        pa.field("timestamp", pa.int64()),
    ]
)


class KafkaRecord(NamedTuple):
    """What is sent to a broker."""

    topic: str
    partition: int | None
    """None: the client chooses, by the key."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp: int | None
    """Milliseconds; None: the time of sending."""

    @property
    def size_bytes(self) -> int:
        """What it takes in a batch, at most."""
        size = len(self.key or b"") + len(self.value or b"") + OVERHEAD_BYTES
        return size + sum(len(name) * 4 + len(value or b"") + 10 for name, value in self.headers or ())

    def __str__(self) -> str:
        key = "without a key" if self.key is None else f"with the key {self.key[:80]!r}"
        return f"record {key} ({self.size_bytes:,} bytes) for topic {self.topic!r}"


class TopicPartitions(Protocol):
    """What an encoder asks of the broker."""

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises ConnectorRefusedError if there is no such topic."""
        ...


class KafkaRecordEncoder:
    """Turns the records of one subtask into Kafka records. What cannot be sent is refused here, with the record."""

    def __init__(self, schema: KafkaRecordSerializationSchema, topics: TopicPartitions, max_bytes: int) -> None:
        self._schema = schema
        self._topics = topics
        self._max_bytes = max_bytes
        self._partitions: dict[str, list[int]] = {}

    def encode(self, records: Sequence[Any]) -> pa.RecordBatch:
        """The columns."""
        columns = self._columns(records)
        columns[4] = [found and [{"name": name, "value": value} for name, value in found] for found in columns[4]]
        arrays = [pa.array(column, field.type) for field, column in zip(SCHEMA, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def records(self, records: Sequence[Any]) -> Iterator[KafkaRecord]:
        """One for each, in their order."""
        return map(KafkaRecord, *self._columns(records))

    def _columns(self, records: Sequence[Any]) -> list[list[Any]]:
        """The fields of Kafka records, column by column, because that is faster."""
        schema = self._schema
        nothing: list[Any] = [None] * len(records)
        topics = [schema.topic_of(record) for record in records]
        keys = nothing if schema.key is None else [schema.key.serialize(record) for record in records]
        values = [schema.value.serialize(record) for record in records]
        partitions = nothing
        if schema.partitioner is not None or schema.selector is not None:
            rows = zip(records, keys, values, topics, strict=True)
            partitions = [self._partition_of(record, key, value, topic) for record, key, value, topic in rows]
        headers = nothing if schema.headers is None else [header_list(schema.headers(record)) for record in records]
        times = nothing if schema.timestamp is None else [_timestamp(schema.timestamp(record)) for record in records]
        columns: list[list[Any]] = [topics, partitions, keys, values, headers, times]
        self._require_size(columns)
        return columns

    def _require_size(self, columns: list[list[Any]]) -> None:
        _, _, keys, values, headers, _ = columns
        longest = max(map(_length, keys), default=0) + max(map(_length, values), default=0)
        if longest + OVERHEAD_BYTES <= self._max_bytes and not any(headers):
            return
        for record in map(KafkaRecord, *columns):
            if record.size_bytes > self._max_bytes:
                raise UnsupportedValueError(
                    f"a {record} is larger than {self._max_bytes:,} bytes",
                    "write smaller records, or raise the limit with set_property('message.max.bytes', …) and that of "
                    "the topic ('max.message.bytes')",
                )

    def _partition_of(self, record: Any, key: bytes | None, value: bytes | None, topic: str) -> int | None:
        schema = self._schema
        if topic not in self._partitions:
            self._partitions[topic] = self._topics.partitions(topic)
        if schema.partitioner is None:
            return None
        partitions = self._partitions[topic]
        chosen = schema.partitioner(record, key, value, topic, list(partitions))
        if chosen not in partitions:
            raise UsageError(
                f"the partitioner returned {chosen!r} for {record!r}; topic {topic!r} has the partitions "
                f"{partitions[0]} to {partitions[-1]}"
            )
        return int(chosen)


def decode(batch: pa.RecordBatch) -> Iterator[KafkaRecord]:
    """The Kafka records in columns."""
    columns = [
        [None] * len(column) if column.null_count == len(column) else column.to_pylist() for column in batch.columns
    ]
    columns[4] = [found and [(header["name"], header["value"]) for header in found] for found in columns[4]]
    return map(KafkaRecord, *columns)


def header_list(headers: Headers | None) -> list[tuple[str, bytes | None]] | None:
    """Headers as pairs of a name and bytes.

    >>> header_list({"trace": "17"})
    [('trace', b'17')]
    """
    if headers is None:
        return None
    pairs = headers.items() if hasattr(headers, "items") else headers
    found = []
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, bytes | str | None):
            raise UsageError(f"a header is {(name, value)!r}; it must be a name and bytes, text or None")
        found.append((name, value.encode() if isinstance(value, str) else value))
    return found or None


def _timestamp(found: Any) -> int | None:
    if found is None or (isinstance(found, int) and not isinstance(found, bool) and found >= 0):
        return found
    raise UsageError(f"the timestamp provider returned {found!r}; it must return milliseconds since 1970, or None")


def _length(found: bytes | None) -> int:
    return 0 if found is None else len(found)
