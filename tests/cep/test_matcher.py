"""Random patterns on random streams: the matcher finds what trying everything finds."""

from collections import Counter
from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from penstock.cep import AfterMatchSkipStrategy, PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.cep.cep import CEP
from penstock.datastream import OutputTag
from penstock.testing import Harness
from tests.cep.brute_force import Assignment, BruteForce
from tests.cep.random_patterns import sequences, skip_strategies, streams
from tests.cep.shapes import Shape, to_pattern

EXAMPLES = settings().max_examples
OVER = OutputTag("over")
Event = tuple[str, int, int]
"""A letter, a number and a time."""


class Report(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Emits the matches; partial matches whose time is over go aside."""

    def process_match(self, match: Any, ctx: Any) -> Any:
        yield match

    def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
        yield OVER, (match, ctx.timestamp())


def harness_of(
    parts: tuple[Shape, ...], skip: AfterMatchSkipStrategy | None = None, window: int | None = None, **settings: Any
) -> Harness:
    pattern = to_pattern(parts, skip)
    if window is not None:
        pattern.within(window)
    function = CEP.function(pattern, Report())
    made = {"key": lambda event: 0, "timestamp": lambda event: event[2], "side_outputs": [OVER], **settings}
    return Harness.keyed(function, **made)


def assigned(match: dict[str, list[Event]]) -> Assignment:
    return tuple(sorted(((name, e[1]) for name, events in match.items() for e in events), key=lambda pair: pair[1]))


def numbered(letters: list[str], times: list[int] | None = None) -> list[Event]:
    return [(letter, number, times[number] if times else number) for number, letter in enumerate(letters)]


@settings(max_examples=EXAMPLES * 3)
@given(sequences(), streams)
def test_every_match_is_found_and_nothing_else(parts: Any, letters: list[str]) -> None:
    expected = [match.events for match in BruteForce(parts, letters).matches()]
    event(f"{min(len(expected), 3)} matches or more")
    harness = harness_of(parts).feed(numbered(letters)).finish()
    assert set(map(assigned, harness.output)) == set(expected)


@settings(max_examples=EXAMPLES * 3)
@given(st.data(), sequences(), streams)
def test_skip_strategies_leave_the_same_matches_in_the_same_order(data: Any, parts: Any, letters: list[str]) -> None:
    skip = data.draw(skip_strategies(parts))
    tries = BruteForce(parts, letters)
    found = Counter((match.start, match.moment, match.order) for match in tries.matches())
    assume(found.total() == len(found))  # otherwise the order of two is open
    harness = harness_of(parts, skip).feed(numbered(letters)).finish()
    assert list(map(assigned, harness.output)) == tries.matches_after_skipping(skip)


@settings(max_examples=EXAMPLES * 3)
@given(sequences(pending=True), streams, st.integers(1, 6), st.data())
def test_time_limits_end_matches_and_complete_negative_ones(
    parts: Any, letters: list[str], window: int, data: Any
) -> None:
    gaps = data.draw(st.lists(st.integers(0, 3), min_size=len(letters), max_size=len(letters)))
    times = [sum(gaps[: index + 1]) for index in range(len(letters))]
    tries = BruteForce(parts, letters, times, window)
    harness = harness_of(parts, window=window).feed(numbered(letters, times)).finish()
    assert set(map(assigned, harness.output)) == {match.events for match in tries.matches()}
    over = {(assigned(match), time) for match, time in harness.side_output(OVER)}
    assert over == tries.timed_out()
