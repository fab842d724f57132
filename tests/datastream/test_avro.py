"""Rows as Avro records."""

import datetime
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.datastream.formats import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.errors import UnsupportedValueError, UsageError

UTC = datetime.timezone.utc


def schema_of(**fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]})


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
EVERYTHING = schema_of(
    name="string",
    total="long",
    ratio=["null", "double"],
    data="bytes",
    tags={"type": "array", "items": "string"},
    points={"type": "map", "values": POINT},
    last=["null", "Point"],
    price=DECIMAL,
    at={"type": "long", "logicalType": "timestamp-millis"},
    color={"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]},
)


def test_a_row_is_written_and_read() -> None:
    at = datetime.datetime(2024, 1, 2, 3, tzinfo=UTC)
    row = ("ada", 2, None, b"x", ["a", "b"], {"p": (1, 2)}, Row(3, 4), Decimal("1.50"), at, "RED")
    writer = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=EVERYTHING)))
    reader = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=EVERYTHING)))
    found = reader.deserialize(writer.serialize(row))
    assert tuple(found) == row
    assert found.name == "ada" and found.last.x == 3
    assert reader.get_produced_type().get_field_types()[1] == Types.LONG()


def test_the_bytes_are_those_of_the_specification() -> None:
    schema = schema_of(a="long", b="string")
    assert AvroRowSerializationSchema(avro_schema_string=schema).serialize((27, "foo")) == bytes.fromhex("3606666f6f")
    assert AvroRowSerializationSchema(avro_schema_string=schema).serialize({"b": "foo", "a": 27})[0] == 0x36


@pytest.mark.parametrize("wrong", [(1,), (1, 2), ("x", "y"), 7, {"a": 1}, {"a": 1, "b": "x", "c": 2}])
def test_what_does_not_fit_is_named(wrong: Any) -> None:
    with pytest.raises(UnsupportedValueError, match="does not fit the Avro schema"):
        AvroRowSerializationSchema(avro_schema_string=schema_of(a="long", b="string")).serialize(wrong)


def test_bytes_that_end_too_early_are_named() -> None:
    with pytest.raises(UnsupportedValueError, match="a message does not fit the Avro schema"):
        AvroRowDeserializationSchema(avro_schema_string=schema_of(a="string")).deserialize(b"\x10ab")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "give the schema as JSON"),
        ("{", "is not JSON"),
        ('"string"', "must be that of a record"),
        (schema_of(a="strong"), "cannot be used"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(text: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AvroRowSerializationSchema(avro_schema_string=text)


def test_a_union_of_several_types_is_written_but_not_read() -> None:
    schema = schema_of(a=["null", "long", "string"])
    assert AvroRowSerializationSchema(avro_schema_string=schema).serialize(("x",)) == b"\x04\x02x"
    with pytest.raises(UsageError, match="has several types"):
        AvroRowDeserializationSchema(avro_schema_string=schema)
