import datetime
import struct
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import Instant
from penstock.model.flink_text import flink_text, printed_text
from penstock.model.row import Row, RowKind
from penstock.model.types import TAGGED, Types

PAIR = [Types.STRING(), Types.DOUBLE()]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Types.STRING(), "a b", "a b"),
        (Types.BOOLEAN(), True, "true"),
        (Types.LONG(), 5, "5"),
        (Types.STRING(), None, "null"),
        (Types.TUPLE(PAIR), ("ada", 2.0), "(ada,2.0)"),
        (Types.TUPLE([Types.TUPLE(PAIR), Types.INT()]), (("a", None), 1), "((a,null),1)"),
        (Types.ROW(PAIR), Row("ada", 2.5), "+I[ada, 2.5]"),
        (Types.ROW_NAMED(["a", "b"], PAIR), Row.of_kind(RowKind.DELETE, a="x", b=1.0), "-D[x, 1.0]"),
        (Types.ROW(PAIR), ("ada", 2.5), "+I[ada, 2.5]"),
        (Types.LIST(Types.INT()), [1, 2], "[1, 2]"),
        (Types.MAP(Types.STRING(), Types.BOOLEAN()), {"a": False}, "{a=false}"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.SQL_DATE(), datetime.date(2024, 1, 2), "2024-01-02"),
        (Types.SQL_TIME(), datetime.time(12, 0, 0, 123000), "12:00:00"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, 0, 0, 11000), "2021-01-09 12:00:00.011"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, tzinfo=datetime.timezone.utc), "2021-01-09 00:00:00.0"),
        (Types.INSTANT(), Instant(1, 500_000_000), "1970-01-01T00:00:01.500Z"),
        (Types.INSTANT(), Instant(1, 0), "1970-01-01T00:00:01Z"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a\xff", "[97, -1]"),
        (TAGGED, ("ada", 2.0), "('ada', 2.0)"),
        (Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]), ({"a": 1},), "({'a': 1})"),
    ],
)
def test_the_text_of_a_value(kind: Any, value: Any, text: str) -> None:
    assert flink_text(kind)(value) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Types.ROW(PAIR), Row("ada", 2.5), "+I[ada,2.5]"),
        (Types.ROW([Types.BOOLEAN(), Types.TUPLE(PAIR)]), (True, ("ada", None)), "+I[True,('ada', None)]"),
        (Types.ROW_NAMED(["a", "b"], PAIR), Row.of_kind(RowKind.DELETE, a="x", b=1.0), "-D[x,1.0]"),
        (Types.TUPLE(PAIR), ("ada", 2.0), "(ada,2.0)"),
    ],
)
def test_the_text_that_print_shows(kind: Any, value: Any, text: str) -> None:
    assert printed_text(kind)(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.5, "-0.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-0.00025, "-2.5E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.25, "1.2345678925E8"),
        (1.5e300, "1.5E300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_are_written_as_in_java(number: float, text: str) -> None:
    assert flink_text(Types.DOUBLE())(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (1.5, "1.5"),
        (3.14159, "3.14159"),
        (123456.7, "123456.7"),
        (-2.5e-10, "-2.5E-10"),
        (2.0**24, "1.6777216E7"),
    ],
)
def test_a_number_of_32_bits_has_only_the_digits_that_it_needs(number: float, text: str) -> None:
    (stored,) = struct.unpack("<f", struct.pack("<f", number))
    assert flink_text(Types.FLOAT())(stored) == text
    assert flink_text(Types.FLOAT())(float("-inf")) == "-Infinity"
