"""Stored columns as others read them: JSON for untyped values, with nothing lost, and never a pickle opened."""

import pickle
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from penstock.codec import tagged
from penstock.codec.columns import decode_column, encode_column
from penstock.codec.readable import from_readable, readable_type, to_declared, to_readable
from penstock.codec.tagged_json import from_json, to_json
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row
from penstock.model.time import Instant
from penstock.model.type_information import parse_type
from tests.codec.strategies import PLAIN

VALUES: list[Any] = [
    None,
    True,
    1,
    10**30,
    1.0,
    float("inf"),
    "ada",
    "\ud800",
    b"\x00\xff",
    Decimal("1.50"),
    date(2024, 2, 29),
    time(1, 2, 3, 4),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    datetime(2024, 1, 1),
    timedelta(days=-1, microseconds=3),
    Instant(5, 7),
    (1, "a"),
    [1, [2]],
    {"a": 1},
    {1: "a"},
    {"$tuple": 1},
    Row(a=1, b="x"),
    Row(1, 2),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_of_a_value_is_the_value(value: Any) -> None:
    text = to_json(value)
    text.encode()
    back = from_json(text)
    assert tagged.encode(back) == tagged.encode(value)


@given(value=PLAIN)
def test_json_of_any_untyped_value_is_the_value(value: Any) -> None:
    assert tagged.encode(from_json(to_json(value))) == tagged.encode(value)


@pytest.mark.parametrize("text", ["ada", "{", '{"$nothing": 1}', '{"$tuple": [1], "b": 2}', '{"$date": "x"}', "[" * 99])
def test_text_that_is_no_json_of_a_value_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedValueError, match="is not the JSON of a value"):
        from_json(text)


COLUMNS: dict[str, list[Any]] = {
    "TAGGED": [1, None, (1, 2.0), {1: 2}],
    "LIST<TAGGED>": [[1, "a"], None, []],
    "MAP<STRING, TAGGED>": [{"a": 1}, None, {}],
    'ROW<"a" LONG, "b" TAGGED>': [(1, "x"), None],
    "TUPLE<TAGGED, LIST<MAP<TAGGED, LONG>>>": [((1,), [{2: 3}])],
    "LONG": [1, None],
}


@pytest.mark.parametrize("text", COLUMNS)
def test_a_readable_column_is_stored_again_as_it_was(text: str) -> None:
    type_info = parse_type(text)
    stored = encode_column(COLUMNS[text], type_info)
    shown = to_readable(stored, type_info)
    assert shown.type == readable_type(type_info).arrow
    assert to_readable(stored.slice(1), type_info).to_pylist() == shown.to_pylist()[1:]
    assert decode_column(from_readable(shown, type_info, "json"), type_info) == decode_column(stored, type_info)


def test_untyped_values_can_be_read_as_a_declared_type() -> None:
    untyped, wanted = parse_type("TAGGED"), parse_type("LONG")
    column = encode_column([1, None, 3], untyped)
    assert to_declared(column, untyped, wanted).equals(pa.array([1, None, 3], pa.int64()))
    with pytest.raises(UnsupportedValueError):
        to_declared(encode_column(["ada"], untyped), untyped, wanted)


def test_plain_text_becomes_text_and_numbers_become_numbers() -> None:
    untyped = parse_type("TAGGED")
    for column, text, value in [
        (pa.array(["5"]), "plain", "5"),
        (pa.array(["5"]), "json", 5),
        (pa.array([5]), "json", 5),
    ]:
        assert decode_column(from_readable(column, untyped, text), untyped) == [value]


class Planted:
    def __reduce__(self) -> Any:
        return print, ("the pickle ran",)


def test_pickles_stay_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    type_info = parse_type("LIST<PICKLE>")
    planted = pickle.dumps(Planted())
    column = pa.array([[planted]], type_info.arrow)
    assert to_readable(column, type_info).to_pylist() == [[planted]]
    with pytest.raises(UnsupportedValueError, match="pickles"):
        to_declared(column, type_info, parse_type("LIST<LONG>"))
    assert capsys.readouterr().out == ""
