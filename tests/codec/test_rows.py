from datetime import datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.row_codec import RowCodec
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row, row_class
from penstock.model.types import TAGGED, Types, resolve_type
from tests.codec.strategies import TYPES, values_of


@given(TYPES.flatmap(lambda t: st.tuples(st.just(t), st.lists(values_of(t), max_size=4))))
def test_records_of_any_type_read_back_equal(batch):
    type_info, records = batch
    codec = RowCodec(type_info)
    columns = codec.encode(records)
    assert [column.type for column in columns] == [arrow for _, arrow in codec.fields]
    assert codec.decode_batch(columns) == records


def test_a_row_type_is_one_column_per_field():
    codec = RowCodec(resolve_type("customer string, amount double, at timestamp"))
    assert codec.fields == [
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
    assert codec.ddl == "`customer` string, `amount` double, `at` timestamp"
    (record,) = codec.decode_batch(codec.encode([("ada", 2, datetime(2024, 1, 1, tzinfo=timezone.utc))]))
    assert type(record) is row_class(("customer", "amount", "at"))
    assert (record.customer, record["amount"], record[1]) == ("ada", 2.0, 2.0)


@pytest.mark.parametrize(
    ("type_info", "ddl"),
    [
        (Types.LONG(), "`value` bigint"),
        (TAGGED, "`value` binary"),
        (Types.PICKLED_BYTE_ARRAY(), "`value` binary"),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), "`value` struct<`f0`:string,`f1`:bigint>"),
        (Types.LIST(Types.SQL_TIME()), "`value` array<bigint>"),
    ],
)
def test_any_other_type_is_a_single_column_called_value(type_info, ddl):
    assert RowCodec(type_info).ddl == ddl


def test_an_empty_batch_has_typed_columns():
    codec = RowCodec(resolve_type("a string, b array<int>"))
    columns = codec.encode([])
    assert [column.type for column in columns] == [pa.string(), pa.list_(pa.int32())]
    assert codec.decode_batch(columns) == []


@pytest.mark.parametrize("record", [("a",), ("a", 1.0, 2), "ab", None, 5, {"customer": "a"}])
def test_a_record_of_another_shape_is_refused(record):
    codec = RowCodec(resolve_type("customer string, total double"))
    with pytest.raises(UnsupportedValueError, match="output_type="):
        codec.encode([("a", 1.0), record])


def test_rows_without_names_and_dictionaries_are_records_too():
    codec = RowCodec(resolve_type("customer string, total double"))
    records = [Row("a", 1.0), {"total": 2.0, "customer": "b"}, Row(total=3.0, customer="c"), Row(x="d", y=4.0)]
    assert codec.decode_batch(codec.encode(records)) == [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]


def test_the_wrong_number_of_columns_is_refused():
    with pytest.raises(UnsupportedValueError, match="1 columns"):
        RowCodec(resolve_type("a string, b string")).decode_batch([pa.array(["x"])])
