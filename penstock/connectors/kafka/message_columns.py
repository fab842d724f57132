"""Messages as Arrow columns: those of the records, and the event time where a source has one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.columns import encode_column
from penstock.codec.row_codec import RowCodec
from penstock.connectors.kafka.kafka_source import METADATA, PARTITION_COLUMN, TIMESTAMP_COLUMN, KafkaSource
from penstock.errors import PenstockError, UnsupportedValueError
from penstock.model.serialization_schemas import ByteArraySchema, SimpleStringSchema

METADATA_OF: dict[str, Callable[[Any], Any]] = {
    "key": lambda message: message.key(),
    "headers": lambda message: message.headers() or [],
    "topic": lambda message: message.topic(),
    "partition": lambda message: message.partition(),
    "offset": lambda message: message.offset(),
    "timestamp": lambda message: message.timestamp()[1],
}

BATCH_ROWS = 10_000
BATCH_BYTES = 16 * 1024 * 1024


class MessageColumns:
    """Turns lists of messages into batches of one source's columns."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._codec = RowCodec(source.deserializer.get_produced_type())
        whole = RowCodec(source.record_type)
        self._fields = list(whole.fields)
        if source.has_event_time:
            self._fields += [(TIMESTAMP_COLUMN, pa.int64()), (PARTITION_COLUMN, pa.string())]
        self.schema = pa.schema(self._fields)
        deserializer = source.deserializer
        is_text = type(deserializer) is SimpleStringSchema and deserializer.charset == "UTF-8"
        self._is_plain = is_text or type(deserializer) is ByteArraySchema
        self._is_text = is_text

    def batches(self, lists: Iterable[Sequence[Any]]) -> Iterator[pa.RecordBatch]:
        """Combine many short lists of messages into a few batches."""
        parts: list[pa.RecordBatch] = []
        rows = size = 0
        for messages in lists:
            part = self.batch(messages)
            parts.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from _merged(parts)
                parts, rows, size = [], 0, 0
        yield from _merged(parts)

    def batch(self, messages: Sequence[Any]) -> pa.RecordBatch:
        """Convert messages to records, in order. Messages without a value and dropped ones make no record."""
        records: Sequence[Any] = ()
        if self._is_plain and self._source.assigner is None:
            values = [message.value() for message in messages]
            if None in values and not self._source.metadata:
                messages = [message for message in messages if message.value() is not None]
                values = [message.value() for message in messages]
            columns = [self._plain_column(values, messages)]
        else:
            messages, records = self._deserialize(messages)
            columns = self._codec.encode(records)
        for name in self._source.metadata:
            columns.append(encode_column([METADATA_OF[name](message) for message in messages], METADATA[name]))
        if self._source.has_event_time:
            columns += self._times(messages, records)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _plain_column(self, given: list[bytes | None], messages: Sequence[Any]) -> pa.Array:
        """Bytes as they are, or text, without making a Python string of each."""
        values = pa.array(given, pa.binary())
        if not self._is_text:
            return values.cast(self._codec.fields[0][1])
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            self._deserialize(messages)  # says which one
            raise

    def _deserialize(self, messages: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The messages that became records, and the records."""
        deserialize = self._source.deserializer.deserialize
        has_metadata = bool(self._source.metadata)
        nothing = (None,) * len(self._codec.fields) if self._codec.is_row else None
        kept, records = [], []
        for message in messages:
            value = message.value()
            try:
                record = deserialize(value) if value is not None else nothing
            except Exception as error:
                raise UnsupportedValueError(f"{place_of(message)} cannot be read: {_text(error)}") from error
            if value is None and not has_metadata:
                continue
            if record is not None or value is None:
                kept.append(message)
                records.append(record)
        return kept, records

    def _times(self, messages: Sequence[Any], records: Sequence[Any]) -> list[pa.Array]:
        times = [message.timestamp()[1] for message in messages]
        if self._source.assigner is not None:
            extract = self._source.assigner.extract_timestamp
            times = [extract(record, time) for record, time in zip(records, times, strict=True)]
        names = [f"{message.topic()}/{message.partition()}" for message in messages[:1]] * len(messages)
        return [pa.array(times, pa.int64()), pa.array(names, pa.string())]


def _merged(parts: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches merged into one, or into several if they are too large; empty without rows."""
    return pa.Table.from_batches(parts).combine_chunks().to_batches() if parts else []


def place_of(message: Any) -> str:
    """Where a message is, for errors."""
    return f"the message at offset {message.offset()} of partition {message.partition()} of topic {message.topic()!r}"


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
