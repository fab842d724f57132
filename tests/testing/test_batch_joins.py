"""Joins and patterns in batch mode give what streaming gives without late records (features W3, W4)."""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.cep import Pattern, PatternProcessFunction
from penstock.cep.cep import CEP
from penstock.datastream import ProcessJoinFunction, RuntimeExecutionMode
from penstock.model.time import MAX_WATERMARK
from penstock.testing import Harness, Second

BATCH = RuntimeExecutionMode.BATCH


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


class Matches(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield match["start"][0], match["end"][0]


def run(function: Any, items: list[Any], **settings: Any) -> list[Any]:
    made = {"timestamp": lambda record: record[1], **settings}
    return sorted(Harness.keyed(function, lambda record: record[0], **made).feed(items).finish().output)


@given(st.integers(0, 10**6))
def test_w3_w4_an_interval_join_finds_the_same_pairs(seed: int) -> None:
    chance = random.Random(seed)
    records = [(chance.choice("abcd"), chance.randrange(50)) for _ in range(40)]
    items = [Second(record) if chance.random() < 0.5 else record for record in records]
    settings = {"between": (-5, 5)}
    assert run(Pairs(), items, **settings, runtime_mode=BATCH) == run(Pairs(), items, **settings)


@given(st.integers(0, 10**6))
def test_w3_w4_a_pattern_finds_the_same_matches(seed: int) -> None:
    chance = random.Random(seed)
    items = [(chance.choice("abcd"), time, chance.choice("xyz")) for time in chance.sample(range(99), 40)]
    pattern: Any = Pattern.begin("start").where(lambda event: event[2] == "x")
    pattern = pattern.followed_by("end").where(lambda event: event[2] == "y")
    function = CEP.function(pattern, Matches())
    assert run(function, items, runtime_mode=BATCH) == run(function, items)


def test_w4_final_values_of_a_reduce_are_joined_by_interval() -> None:
    settings = {"between": (-5, 5), "timestamp": lambda record: MAX_WATERMARK, "runtime_mode": BATCH}
    assert run(Pairs(), [("a", 1), Second(("a", 2)), Second(("b", 3))], **settings) == [(("a", 1), ("a", 2))]
