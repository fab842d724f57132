import pickle
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.columns import decode_column, encode_column
from penstock.codec.value_copies import copier, is_immutable
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row
from penstock.model.time import Instant
from penstock.model.types import TAGGED, Types, parse_type, resolve_type
from tests.codec.strategies import TYPES, optional

UTC = timezone.utc


def columns() -> st.SearchStrategy[Any]:
    return TYPES.flatmap(lambda t: st.tuples(st.just(t), st.lists(optional(t), max_size=5)))


@given(columns(), st.integers(0, 5))
def test_a_column_of_any_type_reads_back_equal_also_as_a_slice(column, start):
    type_info, values = column
    array = encode_column(values, type_info)
    assert array.type == type_info.arrow
    assert len(array) == len(values)
    array.validate(full=True)
    assert decode_column(array, type_info) == values
    assert decode_column(array.slice(start), type_info) == values[start:]


@given(columns())
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(column):
    type_info, values = column
    copy = copier(type_info)
    assert (copy is None) == is_immutable(type_info)
    for value in values:
        if copy is not None:
            copied = copy(value)
            assert copied == value and type(copied) is type(value)
            assert not _mutable_ids(copied) & _mutable_ids(value)


def _mutable_ids(value: Any) -> set[int]:
    found = {id(value)} if isinstance(value, (list, dict)) else set()
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for item in items:
        found |= _mutable_ids(item)
    return found


def test_timestamps_are_aware_datetimes_in_utc():
    type_info = resolve_type("timestamp")
    value = datetime(2024, 6, 1, 12, 0, 0, 123456, tzinfo=ZoneInfo("Europe/Berlin"))
    (found,) = decode_column(encode_column([value], type_info), type_info)
    assert found == value and found.tzinfo is UTC


@pytest.mark.parametrize(
    ("array", "type_text", "values"),
    [
        (pa.array(["a", None], pa.large_string()), "STRING", ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "STRING", ["a", "b", "a"]),
        (pa.chunked_array([[1], [2, 3]]), "LONG", [1, 2, 3]),
        (pa.array([1, 2], pa.int32()), "LONG", [1, 2]),
        (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "TIMESTAMP", [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.array([5], pa.timestamp("ms")), "TIMESTAMP_NTZ", [datetime(1970, 1, 1, microsecond=5000)]),
        (pa.array([[1]], pa.list_(pa.field("element", pa.int32(), nullable=False))), "LIST<INT>", [[1]]),
        (pa.array([{"a": 1}], pa.struct([pa.field("a", pa.int32(), nullable=False)])), 'ROW<"a" INT>', [Row(a=1)]),
    ],
)
def test_other_forms_of_the_declared_type_are_taken(array, type_text, values):
    assert decode_column(array, parse_type(type_text)) == values


def test_numbers_with_nulls_stay_integers():
    assert decode_column(pa.array([1, None], pa.int64()), Types.LONG()) == [1, None]
    assert decode_column(pa.array([True, None]), Types.BOOLEAN()) == [True, None]


@pytest.mark.parametrize(
    ("value", "type_info"),
    [
        ("x", Types.LONG()),
        (1.0, Types.LONG()),
        (True, Types.LONG()),
        (2**63, Types.LONG()),
        (128, Types.BYTE()),
        (True, Types.DOUBLE()),
        ("1.5", Types.DOUBLE()),
        (2**53 + 1, Types.DOUBLE()),
        (1, Types.BOOLEAN()),
        (1, Types.STRING()),
        (b"x", Types.STRING()),
        ("\ud800", Types.STRING()),
        ("x", parse_type("BINARY")),
        (datetime(2024, 1, 1), Types.SQL_DATE()),
        (5, Types.SQL_DATE()),
        (5, Types.SQL_TIMESTAMP()),
        (datetime(2024, 1, 1), resolve_type("timestamp")),
        (datetime(2024, 1, 1, tzinfo=UTC), resolve_type("timestamp_ntz")),
        (time(1, tzinfo=UTC), Types.SQL_TIME()),
        (Instant(0, 1), Types.INSTANT()),
        (datetime(2024, 1, 1, tzinfo=UTC), Types.INSTANT()),
        (5, parse_type("DURATION")),
        (Decimal("NaN"), Types.BIG_DEC()),
        (Decimal("1.234"), resolve_type("decimal(10,2)")),
        (Decimal("123456789.01"), resolve_type("decimal(10,2)")),
        (0.5, resolve_type("decimal(10,2)")),
        (10**38, Types.BIG_INT()),
        ("abc", Types.LIST(Types.STRING())),
        ([1, "x"], Types.LIST(Types.LONG())),
        ({"a": "x"}, Types.MAP(Types.STRING(), Types.LONG())),
        ({None: 1}, Types.MAP(Types.STRING(), Types.LONG())),
        ([("a", 1)], Types.MAP(Types.STRING(), Types.LONG())),
        ((1,), Types.TUPLE([Types.LONG(), Types.LONG()])),
        ("ab", Types.TUPLE([Types.STRING(), Types.STRING()])),
        ({"a": 1}, Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])),
        (object(), TAGGED),
        (5, Types.ROW([Types.LONG()])),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_type_and_the_way_out(value, type_info):
    with pytest.raises(UnsupportedValueError) as caught:
        encode_column([None, value], type_info)
    assert "output_type=" in str(caught.value)
    assert type(caught.value.args[0]) is str


def test_the_first_value_that_does_not_fit_is_shown():
    with pytest.raises(UnsupportedValueError, match="value 300 of type int does not fit the declared type BYTE"):
        encode_column([1, 300, 400], Types.BYTE())


def test_a_naive_timestamp_is_refused_with_both_ways_out():
    with pytest.raises(UnsupportedValueError, match=r"add tzinfo=timezone.utc, or declare timestamp_ntz"):
        encode_column([datetime(2024, 1, 1)], resolve_type("timestamp"))


def test_a_naive_sql_timestamp_is_taken_as_utc_as_in_pyflink():
    types = [Types.SQL_TIMESTAMP(), Types.ROW([Types.SQL_TIMESTAMP()]), Types.LIST(Types.SQL_TIMESTAMP())]
    naive, aware = datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 12, tzinfo=UTC)
    for type_info, wrap in zip(types, (lambda v: v, lambda v: (v,), lambda v: [v]), strict=True):
        values = [wrap(naive), wrap(aware), wrap(None)]
        assert decode_column(encode_column(values, type_info), type_info) == [wrap(aware), wrap(aware), wrap(None)]


@pytest.mark.parametrize("text", ["1.50", "1.5", "0.00", "-0", "1E+3", "1E-30", "9" * 60, "0." + "1" * 60])
def test_a_big_decimal_keeps_its_own_scale(text):
    found = decode_column(encode_column([Decimal(text), None], Types.BIG_DEC()), Types.BIG_DEC())
    assert str(found[0]) == text and found[1] is None


def test_a_column_of_big_decimals_takes_integers_and_numbers_only():
    assert decode_column(encode_column([7, 10**50], Types.BIG_DEC()), Types.BIG_DEC()) == [Decimal(7), Decimal(10**50)]
    for value in (True, 1.5, "1.5", Decimal("Infinity")):
        with pytest.raises(UnsupportedValueError):
            encode_column([value], Types.BIG_DEC())
    with pytest.raises(UnsupportedValueError, match="a text that is not a number"):
        decode_column(pa.array(["a lot"]), Types.BIG_DEC())


def test_sql_timestamp_and_timestamp_are_one_type():
    assert Types.SQL_TIMESTAMP() == resolve_type("timestamp") == parse_type(Types.SQL_TIMESTAMP().text)
    assert pickle.loads(pickle.dumps(Types.SQL_TIMESTAMP())).naive_is_utc


def test_numpy_numbers_fit_typed_columns():
    values = [np.int32(1), np.int64(2)]
    assert decode_column(encode_column(values, Types.LONG()), Types.LONG()) == [1, 2]
    floats = [np.float32(0.5), np.float64(2.5), 1]
    assert decode_column(encode_column(floats, Types.DOUBLE()), Types.DOUBLE()) == [0.5, 2.5, 1.0]


def test_a_year_outside_python_is_an_unsupported_value():
    far_timestamp = pa.array([2**62], pa.int64()).view(pa.timestamp("us", "UTC"))
    far_day = pa.array([2**30], pa.int32()).view(pa.date32())
    for type_info, array in ((Types.SQL_TIMESTAMP(), far_timestamp), (Types.SQL_DATE(), far_day)):
        with pytest.raises(UnsupportedValueError, match="year outside 1 to 9999"):
            decode_column(array, type_info)


def test_a_column_of_another_type_is_an_unsupported_value():
    with pytest.raises(UnsupportedValueError, match="not of the declared type LONG"):
        decode_column(pa.array(["x"]), Types.LONG())


def test_rows_are_matched_by_name_when_they_have_the_same_fields_in_another_order():
    type_info = resolve_type("a string, b bigint")
    values = [Row(b=1, a="x"), Row(a="y", b=2), ("z", 3), {"b": 4, "a": "w"}, ["v", 5]]
    found = decode_column(encode_column(values, type_info), type_info)
    assert found == [("x", 1), ("y", 2), ("z", 3), ("w", 4), ("v", 5)]
    assert all(row.a == row[0] for row in found)


def test_pickled_values_may_be_any_object_and_are_copied():
    type_info = Types.PICKLED_BYTE_ARRAY()
    value = {1, 2, 3}
    assert decode_column(encode_column([value, None], type_info), type_info) == [value, None]
    copy = copier(type_info)
    assert copy is not None and copy(value) == value and copy(value) is not value
    with pytest.raises(UnsupportedValueError, match="cannot be pickled"):
        encode_column([_Unpicklable()], type_info)


class _Unpicklable:
    def __reduce__(self) -> Any:
        raise RuntimeError("never")


def test_dates_durations_and_times_read_back_as_python_values():
    cases = [
        (Types.SQL_DATE(), date(2024, 2, 29)),
        (Types.SQL_TIME(), time(23, 59, 59, 999999)),
        (parse_type("DURATION"), timedelta(days=-3, microseconds=7)),
        (Types.INSTANT(), Instant.of_epoch_micro(-1)),
        (Types.BIG_INT(), -(10**37)),
    ]
    for type_info, value in cases:
        (found, none) = decode_column(encode_column([value, None], type_info), type_info)
        assert found == value and type(found) is type(value) and none is None
