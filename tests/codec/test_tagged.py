from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import tagged
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row
from penstock.model.time import Instant
from tests.codec.strategies import HASHABLE, PLAIN


def same(left: Any, right: Any) -> bool:
    """Equal, with equal types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, datetime):
        return bool(left == right and left.utcoffset() == right.utcoffset())
    if isinstance(left, float):
        return bool(left.hex() == right.hex())
    return bool(left == right)


@given(PLAIN)
def test_a_value_reads_back_as_it_was(value):
    assert same(tagged.decode(tagged.encode(value)), value)


@given(PLAIN)
def test_key_bytes_read_back_as_an_equal_value(value):
    try:
        data = tagged.encode_key(value)
    except UnsupportedValueError:
        return
    found = tagged.decode(data)
    assert found == value
    assert tagged.encode_key(found) == data


@given(HASHABLE, HASHABLE)
def test_keys_have_equal_bytes_exactly_if_they_are_equal_and_of_one_type(left, right):
    equal = type(left) is type(right) and left == right
    assert (tagged.encode_key(left) == tagged.encode_key(right)) == equal


@given(st.dictionaries(HASHABLE, PLAIN, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_a_dictionary_is_kept_in_values_and_not_in_keys(value, random):
    items = list(value.items())
    random.shuffle(items)
    shuffled = dict(items)
    assert list(tagged.decode(tagged.encode(shuffled))) == list(shuffled)
    try:
        assert tagged.encode_key(shuffled) == tagged.encode_key(value)
    except UnsupportedValueError:
        pass


@given(st.binary(max_size=40))
def test_any_other_bytes_are_an_unsupported_value(data):
    try:
        tagged.decode(data)
    except UnsupportedValueError:
        pass


@given(PLAIN, st.data())
def test_damaged_bytes_never_raise_anything_else(value, data):
    encoded = bytearray(tagged.encode(value))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(encoded)))
    for damaged in (bytes(encoded), bytes(encoded[:cut])):
        try:
            tagged.decode(damaged)
        except UnsupportedValueError:
            pass


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("100"), Decimal("1E+2")),
        (Decimal("0"), Decimal("-0.00")),
        (datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 1, 1, tzinfo=timezone.utc)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((1, {"x": -0.0}), (1, {"x": 0.0})),
    ],
)
def test_equal_keys_that_look_different_have_equal_bytes(left, right):
    assert tagged.encode_key(left) == tagged.encode_key(right)
    assert left == right


def test_one_true_and_one_point_zero_are_three_keys():
    assert len({tagged.encode_key(value) for value in (1, True, 1.0, "1", b"1", Decimal(1))}) == 6


def test_a_row_a_tuple_and_a_list_are_three_keys():
    assert len({tagged.encode_key(value) for value in (Row(1, 2), (1, 2), [1, 2], Row(a=1, b=2), Row(c=1, d=2))}) == 5


@pytest.mark.parametrize("value", [float("nan"), (1, float("nan")), Decimal("NaN"), [{"x": Decimal("sNaN")}]])
def test_nan_is_no_part_of_a_key_but_a_value(value):
    with pytest.raises(UnsupportedValueError, match="NaN"):
        tagged.encode_key(value)
    tagged.decode(tagged.encode(value))


def test_a_point_in_time_that_utc_cannot_show_is_no_key_but_a_value():
    value = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))
    assert tagged.decode(tagged.encode(value)) == value
    with pytest.raises(UnsupportedValueError, match="UTC"):
        tagged.encode_key(value)


def test_a_time_with_a_zone_is_a_value_but_no_key():
    value = time(1, 2, 3, 4, tzinfo=timezone(timedelta(hours=2)))
    assert tagged.decode(tagged.encode(value)) == value
    with pytest.raises(UnsupportedValueError, match="without zone"):
        tagged.encode_key(value)


class Point(NamedTuple):
    x: int


class Colour(IntEnum):
    RED = 1


@dataclass
class Order:
    amount: float


@pytest.mark.parametrize("value", [Point(1), Colour.RED, Order(1.0), {1, 2}, object(), 1j, [Order(2.0)]])
def test_other_types_are_refused_with_the_way_out(value):
    with pytest.raises(UnsupportedValueError, match="output_type="):
        tagged.encode(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [(np.int64(5), 5), (np.float64(2.5), 2.5), (np.float32(0.5), 0.5), (np.bool_(True), True), (np.str_("x"), "x")],
)
def test_numpy_scalars_become_plain_values(value, plain):
    assert same(tagged.decode(tagged.encode(value)), plain)


def test_values_that_are_too_deep_or_contain_themselves_are_refused():
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnsupportedValueError, match="nested"):
        tagged.encode(endless)
    with pytest.raises(UnsupportedValueError, match="nested"):
        tagged.decode(b"[\x01" * 500 + b"N")
    deep: Any = 1
    for _ in range(tagged.MAX_DEPTH):
        deep = [deep]
    assert tagged.decode(tagged.encode(deep)) == deep


def test_a_length_beyond_the_bytes_is_refused_before_memory_is_taken():
    for data in (b"[\xff\xff\xff\xff\x7f", b"{\xff\xff\xff\xff\x7f", b"s\xff\xff\xff\xff\x7fx", b"i\xff\xff\xff\x7f"):
        with pytest.raises(UnsupportedValueError):
            tagged.decode(data)


def test_a_huge_number_is_refused():
    with pytest.raises(UnsupportedValueError, match="integer"):
        tagged.encode(1 << (8 * tagged.MAX_NUMBER_BYTES))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, b"N"),
        (True, b"T"),
        (False, b"F"),
        (0, b"i\x01\x00"),
        (-129, b"i\x02\xff\x7f"),
        (2**63, b"i\x09\x00\x80\x00\x00\x00\x00\x00\x00\x00"),
        (1.5, b"f\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        ("ü", b"s\x02\xc3\xbc"),
        ("\ud800", b"s\x03\xed\xa0\x80"),
        ("x" * 200, b"s\xc8\x01" + b"x" * 200),
        (b"\x00", b"b\x01\x00"),
        (Decimal("1.50"), b"D\x041.50"),
        (date(1970, 1, 1), b"d\x00\x0a\xf9\x3b"),
        (time(0, 0, 1), b"t\x00\x00\x00\x00\x00\x0f\x42\x40"),
        (datetime(1970, 1, 1, 0, 0, 1), b"m\x00\x00\x00\x00\x00\x0f\x42\x40"),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), b"u\x00\x00\x00\x00\x00\x0f\x42\x40"),
        (timedelta(seconds=-1), b"p\xff\xff\xff\xff\xff\xff\xf0\xbd\xc0"),
        (Instant(1, 5), b"I\x00\x00\x00\x05\x01\x01"),
        ((1, "a"), b"(\x02i\x01\x01s\x01a"),
        ([], b"[\x00"),
        ({"a": None}, b"{\x01s\x01aN"),
        (Row(a=1), b"R\x01s\x01a\x01i\x01\x01"),
        (Row(1), b"r\x01i\x01\x01"),
    ],
)
def test_the_bytes_stay_what_they_are(value, data):
    """Changing one of these makes keys and state of earlier snapshots unreadable."""
    assert tagged.encode(value) == data
    assert same(tagged.decode(data), value)
