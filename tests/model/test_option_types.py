"""How values are written, which of them are allowed, and that every text gives its value back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigurationError
from penstock.model.execution import CheckpointingMode
from penstock.model.option_types import (
    INFINITE,
    Attempts,
    Boolean,
    Folders,
    Integer,
    Member,
    Milliseconds,
    Number,
    OptionalText,
    Pairs,
    Ports,
    Size,
    ValueType,
    Word,
    Words,
)
from penstock.model.quantities import parse_duration_ms, parse_size_bytes


@given(st.integers(0, 10**6), st.sampled_from([("ms", 1), (" s", 1000), ("min", 60_000), (" h", 3_600_000), ("", 1)]))
def test_durations_are_milliseconds(number, unit):
    assert parse_duration_ms(f"{number}{unit[0]}") == number * unit[1]


@given(st.integers(0, 10**12))
def test_durations_and_sizes_give_their_value_back(value):
    assert Milliseconds().parse(Milliseconds().format(value)) == value
    assert Size().parse(Size().format(value)) == value


def test_durations_and_sizes_are_shown_in_the_largest_unit_that_fits():
    shown = [Milliseconds().format(value) for value in (0, 250, 5000, 600_000, 7_200_000, 61_000)]
    assert shown == ["0 ms", "250 ms", "5 s", "10 min", "2 h", "61 s"]
    assert [Size().format(value) for value in (0, 1000, 20_480, 5 << 20, 1 << 30)] == [
        "0 b",
        "1000 b",
        "20 kb",
        "5 mb",
        "1 gb",
    ]


def test_durations_and_sizes_in_other_words():
    assert [parse_duration_ms(text) for text in ("5 seconds", "1 day", "2500 us", 7, " 3 S ")] == [
        5_000,
        86_400_000,
        2,
        7,
        3_000,
    ]
    assert [parse_size_bytes(text) for text in ("20kb", "1 GiB", "5", 9, "1 mb")] == [20480, 1 << 30, 5, 9, 1 << 20]
    for wrong in ("fast", "-5s", "5 parsecs", "", "1.5s", True, "5s 3"):
        with pytest.raises(ConfigurationError, match="is not a duration such as '5s'"):
            parse_duration_ms(wrong)
    with pytest.raises(ConfigurationError, match="is not a size"):
        parse_size_bytes("big")


WRONG: list[tuple[ValueType[Any], str, str]] = [
    (Boolean(), "maybe", "'maybe' is not true or false"),
    (Integer(), "two", "'two' is not a number"),
    (Integer(least=1), "0", "give 1 or more, not '0'"),
    (Integer(least=1, too_small="At least one"), "0", "At least one, not '0'"),
    (Integer(0, 5), "6", "give 5 at most, not '6'"),
    (Number(0, 1), "1.5", "give 1 at most, not '1.5'"),
    (Number(0, 1), "nan", "give 0 or more, not 'nan'"),
    (Number(), "x", "'x' is not a number"),
    (Milliseconds(least=10), "9 ms", "give 10 ms or more, not '9 ms'"),
    (Size(most=1 << 20), "2 mb", "give 1 mb at most, not '2 mb'"),
    (Size(most=1 << 20, too_large="Too much"), "2 mb", "Too much, not '2 mb'"),
    (Attempts(), "-1", "give 0 or more, not '-1'"),
    (Attempts(), "many", "'many' is not a number"),
    (Word(("a", "b")), "c", "'c' is not one of a, b"),
    (Words(("a", "b")), "a;c", "'c' is not one of a, b"),
    (Member(CheckpointingMode), "twice", "'twice' is not one of EXACTLY_ONCE, AT_LEAST_ONCE"),
    (Ports(), "70000", "'70000' is not a port or a range of ports such as 50100-50200"),
    (Ports(), "9-8", "'9-8' is not a port or a range of ports such as 50100-50200"),
]


@pytest.mark.parametrize(("kind", "text", "problem"), WRONG)
def test_a_value_that_is_not_allowed_is_quoted(kind: ValueType[Any], text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind.parse(text)
    assert str(caught.value) == problem


RIGHT: list[tuple[ValueType[Any], str, Any, str]] = [
    (Boolean(), "Yes", True, "true or false"),
    (Boolean(), "off", False, "true or false"),
    (Integer(1, 9), " 5 ", 5, "integer, 1 to 9"),
    (Integer(most=9), "-5", -5, "integer, 9 at most"),
    (Number(least=0), "0.5", 0.5, "number, 0 or more"),
    (Attempts(), "inf", INFINITE, "integer, 0 or more, or `infinite`"),
    (Word(("a-b",), {"ab": "a-b"}), "A_B", "a-b", "`a-b`"),
    (Word(("a-b",), {"ab": "a-b"}), "AB", "a-b", "`a-b`"),
    (Words(("A_B", "C")), "a-b; c", ("A_B", "C"), "a list of `A_B`, `C`"),
    (Member(CheckpointingMode), "at-least-once", CheckpointingMode.AT_LEAST_ONCE, "`EXACTLY_ONCE`, `AT_LEAST_ONCE`"),
    (OptionalText(), " ", None, "text"),
    (OptionalText(), "x", "x", "text"),
    (Folders(), "file:///a, /b", ("/a", "/b"), "folders, separated by `,`"),
    (Folders(), "", (), "folders, separated by `,`"),
    (Ports(), "8081-8083", range(8081, 8084), "a port, or a range of ports such as `50100-50200`"),
]


@pytest.mark.parametrize(("kind", "text", "value", "described"), RIGHT)
def test_a_value_is_parsed_described_and_formatted(kind: ValueType[Any], text: str, value: Any, described: str) -> None:
    assert kind.parse(text) == value and kind.describe() == described
    if value is not None:
        assert kind.parse(kind.format(value)) == value


def test_folders_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    assert Folders().parse("here:~/there") == (str(tmp_path / "here"), "/home/ada/there")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_pairs_give_their_names_and_values_back(pairs):
    assert Pairs().parse(Pairs().format(pairs)) == pairs


def test_pairs_are_written_as_flink_writes_maps():
    assert Pairs().parse("unit:km, limit : 5 ,'a,b':'c:d',at:12:30") == {
        "unit": "km",
        "limit": "5",
        "a,b": "c:d",
        "at": "12:30",
    }
    assert Pairs().parse(" ") == {}
    with pytest.raises(ConfigurationError, match="'km' is not of the form name:value"):
        Pairs().parse("km")
