import datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import Instant, Row, Types
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.errors import UnsupportedValueError, UsageError

UTC = datetime.timezone.utc
NESTED = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())])
VALUES = [
    (Types.STRING(), "é"),
    (Types.BOOLEAN(), True),
    (Types.LONG(), 2**60),
    (Types.DOUBLE(), 0.5),
    (Types.BIG_DEC(), Decimal("1.50")),
    (Types.SQL_DATE(), datetime.date(2024, 1, 2)),
    (Types.SQL_TIME(), datetime.time(12, 30)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 1, 2, 3, tzinfo=UTC)),
    (Types.INSTANT(), Instant.of_epoch_milli(1500)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"k\x03"),
    (Types.LIST(Types.INT()), [1, 2]),
    (Types.LONG(), None),
]


@pytest.mark.parametrize(
    ("kind", "value"),
    [*VALUES, (NESTED, Row(a=1, b=["x"])), (Types.MAP(Types.STRING(), Types.INT()), {"a": 1})],
    ids=str,
)
def test_a_row_is_read_back_from_json(kind: Any, value: Any) -> None:
    row_type = Types.ROW_NAMED(["key", "value"], [Types.STRING(), kind])
    written = JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row("k", value))
    schema = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    assert schema.deserialize(written) == ("k", value) and schema.get_produced_type() == row_type


def test_a_missing_field_and_a_broken_message() -> None:
    build = JsonRowDeserializationSchema.builder
    assert build().type_info("a int, b int").build().deserialize(b'{"b": 1, "c": 2}') == (None, 1)
    with pytest.raises(UnsupportedValueError, match="the field 'a' is missing"):
        build().type_info("a int, b int").fail_on_missing_field().build().deserialize(b'{"b": 1}')
    for message in (b"{", b"[1]", b'{"a": "x"}'):
        with pytest.raises(UnsupportedValueError):
            build().type_info("a int").build().deserialize(message)
        assert build().type_info("a int").ignore_parse_errors().build().deserialize(message) is None


def test_a_schema_needs_a_type_of_rows() -> None:
    with pytest.raises(TypeError, match="Typeinfo should be set"):
        JsonRowSerializationSchema.builder().build()
    with pytest.raises(UsageError, match="not a type of rows"):
        JsonRowDeserializationSchema.builder().type_info(Types.STRING()).build()
    with pytest.raises(TypeError, match="Typeinfo should be set"):
        CsvRowSerializationSchema.Builder(None)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_row_is_read_back_from_csv(kind: Any, value: Any) -> None:
    row_type = Types.ROW_NAMED(["begin", "value", "end"], [Types.STRING(), kind, Types.STRING()])
    writer = CsvRowSerializationSchema.Builder(row_type).set_field_delimiter("|").set_null_literal("null").build()
    reader = CsvRowDeserializationSchema.Builder(row_type).set_field_delimiter("|").set_null_literal("null").build()
    written = writer.serialize(Row("a|b", value, 'say "x"'))
    assert written.endswith(b"\n")
    assert reader.deserialize(written) == ("a|b", value, 'say "x"') and reader.get_produced_type() == row_type


def test_the_form_of_csv_lines() -> None:
    kind = "a string, b array<int>"
    build = CsvRowSerializationSchema.Builder(kind).set_array_element_delimiter("/").set_line_delimiter("\r\n")
    assert build.build().serialize(Row("x", [1, 2])) == b"x,1/2\r\n"
    assert build.set_quote_character("'").build().serialize(Row("x,y", [])) == b"'x,y',\r\n"
    escaped = build.disable_quote_character().set_escape_character("!").build().serialize(Row("x,y", [1]))
    assert escaped == b"x!,y,1\r\n"
    reader = CsvRowDeserializationSchema.Builder(kind).set_array_element_delimiter("/").set_quote_character("'")
    assert reader.set_escape_character("!").build().deserialize(b"'x!'y',1/2") == ("x'y", [1, 2])
    assert reader.set_allow_comments(True).build().deserialize(b"# no row") is None


@pytest.mark.parametrize("line", [b"1,2", b"x", b"1,maybe", b"x,true"])
def test_a_line_that_does_not_fit(line: bytes) -> None:
    build = CsvRowDeserializationSchema.Builder("a int, b boolean")
    with pytest.raises(UnsupportedValueError, match="as CSV"):
        build.build().deserialize(line)
    assert build.set_ignore_parse_errors(True).build().deserialize(line) is None
