"""What a state accepts can be encoded, and reads the same before and after."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.columns import decode_column, encode_column
from penstock.codec.tagged import MAX_DEPTH
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row
from penstock.model.time import Instant
from penstock.model.type_information import TypeInformation
from penstock.model.types import TAGGED, Types, resolve_type
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.value_guard import guard_of

PLUS_TWO = timezone(timedelta(hours=2))
NOON = datetime(2024, 2, 29, 12, tzinfo=PLUS_TWO)
ROW = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LIST(Types.STRING())])

# Declared type, value given, value kept.
ACCEPTED: list[tuple[Any, Any, Any]] = [
    ("double", 5, 5.0),
    ("double", np.float32(0.5), 0.5),
    ("float", 0.1, float(np.float32(0.1))),
    ("bigint", np.int64(3), 3),
    ("bigint", -(2**63), -(2**63)),
    ("tinyint", 127, 127),
    ("boolean", True, True),
    ("string", "aü€😀", "aü€😀"),
    ("string", np.str_("x"), "x"),
    ("binary", bytearray(b"x"), b"x"),
    ("date", date(2024, 2, 29), date(2024, 2, 29)),
    ("timestamp", NOON, NOON.astimezone(timezone.utc)),
    (Types.SQL_TIMESTAMP(), datetime(2024, 2, 29, 10), NOON.astimezone(timezone.utc)),
    ("timestamp_ntz", datetime(1, 1, 1), datetime(1, 1, 1)),
    ("decimal(10,2)", Decimal("1.50"), Decimal("1.50")),
    ("decimal(10,2)", Decimal("1.5"), Decimal("1.50")),
    ("decimal(10,2)", 7, Decimal("7.00")),
    (Types.BIG_INT(), 10**37, 10**37),
    (Types.BIG_DEC(), Decimal("1.50"), Decimal("1.50")),
    (Types.BIG_DEC(), 10**50, Decimal(10**50)),
    (Types.SQL_TIME(), time(1, 2, 3, 4), time(1, 2, 3, 4)),
    (Types.INSTANT(), Instant(1, 2000), Instant(1, 2000)),
    (Types.LIST(Types.DOUBLE()), (1, None), [1.0, None]),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1, "b": None}, {"a": 1.0, "b": None}),
    (Types.TUPLE([Types.LONG(), Types.DOUBLE()]), (1, 2), (1, 2.0)),
    (ROW, (1, ["x"]), Row(a=1, b=["x"])),
    (ROW, Row(b=["x"], a=1), Row(a=1, b=["x"])),
    (ROW, {"a": 1, "b": None}, Row(a=1, b=None)),
    (Types.PICKLED_BYTE_ARRAY(), {1, 2}, {1, 2}),
    (None, {"a": [1, (2.0, None)], "b": {}}, {"a": [1, (2.0, None)], "b": {}}),
    (None, {(1, 2): 3}, {(1, 2): 3}),
    (None, Row(a=1, b=[2]), Row(a=1, b=[2])),
    (None, Row(1, 2), Row(1, 2)),
    (None, NOON, NOON),
    (None, [np.int64(1)], [1]),
    (Types.LIST(None), [1, "x", None, (1,)], [1, "x", None, (1,)]),
]


@pytest.mark.parametrize(("declared", "given_value", "kept"), ACCEPTED, ids=lambda value: str(value)[:30])
def test_values_are_kept_in_their_stored_form(declared: Any, given_value: Any, kept: Any) -> None:
    type_info = resolve_type(declared)
    guard = guard_of(type_info)
    stored = given_value if type(given_value) in guard.plain else guard.store(given_value)
    assert (type(stored), stored) == (type(kept), kept)
    assert guard.store(stored) == stored
    assert decode_column(encode_column([stored], type_info), type_info) == [stored]
    loaded = stored if guard.load is None else guard.load(stored)
    assert (type(loaded), loaded) == (type(stored), stored)


class Point(NamedTuple):
    x: int


def _nested(depth: int) -> list[Any]:
    return [] if depth == 1 else [_nested(depth - 1)]


def _circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED: list[tuple[Any, Any]] = [
    ("double", "1"),
    ("double", True),
    ("bigint", 2**63),
    ("bigint", True),
    ("bigint", 1.0),
    ("tinyint", 128),
    ("string", b"x"),
    ("string", "lone \ud800"),
    ("binary", "x"),
    ("boolean", 1),
    ("date", NOON),
    ("timestamp", datetime(2024, 1, 1)),
    ("timestamp_ntz", NOON),
    ("decimal(4,2)", Decimal("100.00")),
    ("decimal(4,2)", Decimal("NaN")),
    (Types.BIG_INT(), 10**38),
    (Types.LIST(Types.LONG()), [1, "x"]),
    (Types.MAP(Types.STRING(), Types.LONG()), {None: 1}),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": "b"}),
    (Types.TUPLE([Types.LONG()]), (1, 2)),
    (ROW, ("x", [])),
    (None, object()),
    (None, {1, 2}),
    (None, [object()]),
    (None, {"a": object()}),
    (None, Point(1)),
    (None, _nested(MAX_DEPTH + 1)),
    (None, _circular()),
]


@pytest.mark.parametrize(("declared", "value"), REFUSED, ids=lambda value: str(value).partition(" at 0x")[0][:30])
def test_what_does_not_fit_is_refused_when_it_is_written(declared: Any, value: Any) -> None:
    guard = guard_of(resolve_type(declared))
    assert type(value) not in guard.plain
    with pytest.raises(UnsupportedValueError):
        guard.store(value)


def test_the_deepest_value_that_is_kept_can_be_encoded() -> None:
    value = guard_of(TAGGED).store(_nested(MAX_DEPTH))
    assert decode_column(encode_column([value], TAGGED), TAGGED) == [value]


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.builds(lambda a, b: Row(a=a, b=b), inner, inner)
    ),
    max_leaves=10,
)


@given(plain_values)
def test_untyped_values_are_copied_and_encodable(value: Any) -> None:
    guard = guard_of(TAGGED)
    stored = guard.store(value)
    assert stored == value and repr(stored) == repr(value)
    assert repr(decode_column(encode_column([[stored]], TAGGED), TAGGED)) == repr([[value]])
    assert guard.load is not None
    for copy in (guard.load(stored), stored):
        assert not _shared(copy, value)


def _shared(left: Any, right: Any) -> bool:
    """Whether two equal values share something that can be changed."""
    if isinstance(left, list | dict) and left is right:
        return True
    if isinstance(left, list | tuple):
        return any(_shared(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(left, dict) and any(_shared(left[key], right[key]) for key in left)


@pytest.mark.parametrize(
    ("type_info", "keys"),
    [
        (TAGGED, ["a", 1, True, 1.5, None, (1, "x"), [1], b"b", NOON.astimezone(timezone.utc)]),
        (Types.STRING(), ["a", "ü", ""]),
        (Types.LONG(), [0, -1, 2**63 - 1]),
        (Types.DOUBLE(), [0.5, 1e300]),
        (Types.SQL_TIMESTAMP(), [NOON.astimezone(timezone.utc)]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), (1, None)]),
        (Types.ROW_NAMED(["x"], [Types.BOOLEAN()]), [Row(x=True), Row(x=False)]),
    ],
)
def test_map_keys_survive_a_column(type_info: TypeInformation, keys: list[Any]) -> None:
    treatment = map_keys_of(type_info)
    kept = [key if type(key) in treatment.plain else treatment.to_kept(key) for key in keys]
    assert len(set(kept)) == len(keys)
    again = treatment.decode(treatment.encode(kept))
    assert again == kept and set(again) == set(kept)
    shown = again if treatment.to_user is None else list(map(treatment.to_user, again))
    assert [(type(key), key) for key in shown] == [(type(key), key) for key in keys]
