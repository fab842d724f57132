"""Messages as columns, without a broker: values, metadata, event time, and messages that are no records."""

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import ByteArraySchema, DeserializationSchema, SimpleStringSchema
from penstock.connectors.kafka import message_columns
from penstock.connectors.kafka.kafka_source import PARTITION_COLUMN, TIMESTAMP_COLUMN, KafkaSource
from penstock.connectors.kafka.message_columns import MessageColumns
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.errors import UnsupportedValueError


@dataclass(frozen=True)
class FakeMessage:
    """What the client's message has."""

    data: bytes | None
    at: int = 0
    name: bytes | None = None

    def value(self) -> bytes | None:
        return self.data

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [("h", b"1")] if self.name else None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self.at


def source(schema: DeserializationSchema, *metadata: str) -> KafkaSource:
    return KafkaSource("b:1", schema, topics=("t",), metadata=metadata)


def rows(of: KafkaSource, *messages: FakeMessage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = MessageColumns(of).batch(messages).to_pylist()
    return found


def test_text_and_bytes_are_taken_as_they_are_and_tombstones_are_left_out() -> None:
    assert rows(source(SimpleStringSchema()), FakeMessage("é".encode()), FakeMessage(None)) == [{"value": "é"}]
    assert rows(source(ByteArraySchema()), FakeMessage(b"\xff")) == [{"value": b"\xff"}]
    assert rows(source(SimpleStringSchema("latin-1")), FakeMessage(b"\xe9")) == [{"value": "é"}]


def test_rows_of_json_are_columns_and_dropped_ones_are_left_out() -> None:
    schema = JsonRowDeserializationSchema.builder().type_info("name string, n bigint").ignore_parse_errors().build()
    assert rows(source(schema), FakeMessage(b'{"name": "a", "n": 2}'), FakeMessage(b"?")) == [{"name": "a", "n": 2}]


def test_with_metadata_a_tombstone_is_a_record() -> None:
    schema = JsonRowDeserializationSchema.builder().type_info("n bigint").build()
    found = rows(
        source(schema, "key", "headers", "topic", "partition", "offset", "timestamp"),
        FakeMessage(b'{"n": 2}', 7, b"k"),
        FakeMessage(None, 8),
    )
    place = {"topic": "t", "partition": 3}
    assert found == [
        {"n": 2, "key": b"k", "headers": [{"key": "h", "value": b"1"}], **place, "offset": 7, "timestamp": 1007},
        {"n": None, "key": None, "headers": [], **place, "offset": 8, "timestamp": 1008},
    ]


@pytest.mark.parametrize(
    "schema", [SimpleStringSchema(), JsonRowDeserializationSchema.builder().type_info("n int").build()]
)
def test_a_message_that_cannot_be_read_is_named(schema: DeserializationSchema) -> None:
    with pytest.raises(UnsupportedValueError, match="offset 5 of partition 3 of topic 't' cannot be read"):
        rows(source(schema), FakeMessage(b'{"n": 1}', 4), FakeMessage(b"\xff", 5))


def test_event_time_is_that_of_the_message_or_of_the_assigner() -> None:
    own = source(SimpleStringSchema()).with_event_time(None)
    assert rows(own, FakeMessage(b"5", 1))[0][TIMESTAMP_COLUMN] == 1001
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda record, at: int(record) + at
    )
    assigned = source(SimpleStringSchema()).with_event_time(strategy.timestamp_assigner)
    row = rows(assigned, FakeMessage(b"5", 1))[0]
    assert (row[TIMESTAMP_COLUMN], row[PARTITION_COLUMN]) == (1006, "t/3")


def test_columns_fit_the_type_of_the_records() -> None:
    of = source(SimpleStringSchema(), "offset")
    assert MessageColumns(of).schema.names == of.record_type.get_field_names()
    assert of.record_type == Types.ROW_NAMED(["value", "offset"], [Types.STRING(), Types.LONG()])


def test_short_lists_become_few_batches_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_columns, "BATCH_ROWS", 4)
    lists = [[FakeMessage(b"%d" % (start + step)) for step in range(3)] for start in range(0, 15, 3)]
    lists.insert(1, [FakeMessage(None)])
    found = list(MessageColumns(source(SimpleStringSchema())).batches(lists))
    assert [batch.num_rows for batch in found] == [6, 6, 3]
    assert [value for batch in found for value in batch.column(0).to_pylist()] == [str(n) for n in range(15)]


def test_large_messages_end_a_batch_early_and_no_rows_make_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_columns, "BATCH_BYTES", 100)
    columns = MessageColumns(source(ByteArraySchema()))
    assert [batch.num_rows for batch in columns.batches([[FakeMessage(b"x" * 200)]] * 3)] == [1, 1, 1]
    assert list(columns.batches([])) == list(columns.batches([[FakeMessage(None)]])) == []
