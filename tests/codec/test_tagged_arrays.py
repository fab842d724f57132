"""Arrays of values as JSON: the same as value by value, whatever is in them."""

import json
import math
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import tagged_arrays
from penstock.codec.json_text import json_array
from penstock.codec.tagged_arrays import decode_array, encode_array
from penstock.codec.tagged_json import from_plain, to_plain
from penstock.common import Row

ATOMS = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(), st.booleans(), st.sampled_from(["null", "\ud800", 2**70])
)
VALUES = st.recursive(
    st.one_of(ATOMS, st.none(), st.dates(), st.binary(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=5,
)
ARRAYS = st.one_of(
    st.lists(VALUES, max_size=5),
    st.lists(st.one_of(ATOMS, st.none()), max_size=5),
    st.lists(st.one_of(st.none(), st.lists(ATOMS, max_size=3).map(tuple)), max_size=5),
    st.lists(st.one_of(st.none(), st.builds(lambda a, b: Row(a=a, b=b), ATOMS, ATOMS)), max_size=5),
)


def one_by_one(values: list[Any]) -> Any:
    return json.loads(json_array(list(map(to_plain, values))))


@given(ARRAYS)
def test_an_array_is_what_its_values_are_one_by_one(values: list[Any]) -> None:
    plain = json.loads(encode_array(values))
    assert plain == one_by_one(values)
    found = decode_array(plain)
    assert found == values == [from_plain(value) for value in plain]
    assert [type(value) for value in found] == [type(value) for value in values]


@pytest.mark.parametrize(
    "values",
    [
        [(1, math.nan), (2, 1.0)],
        [(1, math.inf), None],
        [math.nan, None, 1.0],
        [("null", 1.0), None],
        [(None, 1), (2, 3)],
        [Row(1, 2), Row(a=1, b=2), (1, 2)],
        [Row(a=math.nan)],
        [((1, 2), 3)],
        [(), None],
        [{"$tuple": [1]}, (1,)],
        [Decimal("1.50"), date(2026, 1, 1), b"\0"],
    ],
)
def test_what_json_lacks_is_marked_as_ever(values: list[Any]) -> None:
    text = encode_array(values)
    assert json.loads(text) == one_by_one(values)
    assert repr(decode_array(json.loads(text))) == repr(values)


def test_tuples_and_rows_are_not_converted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagged_arrays, "to_plain", None)
    monkeypatch.setattr(tagged_arrays, "from_plain", None)
    assert encode_array([(1, 2.5), None]) == b'[{"$tuple":[1,2.5]},null]'
    assert encode_array([Row(a=1, b="x")]) == b'[{"$row":[1,"x"],"$names":["a","b"]}]'
    assert encode_array([1, 2.5, None, "x"]) == b'[1,2.5,null,"x"]'
    assert decode_array([{"$tuple": [1, 2.5]}, None]) == [(1, 2.5), None]
