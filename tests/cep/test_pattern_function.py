"""The operator of a pattern: order, lateness, both kinds of time, time limits, side outputs, and what it stores."""

from typing import Any

import pytest

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    SimpleCondition,
    TimedOutPartialMatchHandler,
    WithinType,
)
from penstock.cep.pattern_compiler import compile_pattern
from penstock.cep.pattern_function import PatternFunction, PatternSettings
from penstock.common import Row, Time, Types
from penstock.datastream import OutputTag, RuntimeExecutionMode
from penstock.errors import UserFunctionError
from penstock.testing import Advance, Harness, Watermark
from tests.cep.shapes import Letters

LATE = OutputTag("late")
OVER = OutputTag("over")
STATES = ("cep-tips", "cep-nodes", "cep-events", "cep-event-uses", "cep-next-id", "cep-queue", "cep-queued")
Event = tuple[str, int]
"""A word and a time."""


class Matches(PatternProcessFunction):
    """The words of a match, and its time."""

    def process_match(self, match: Any, ctx: Any) -> Any:
        yield " ".join(event[0] for events in match.values() for event in events), ctx.timestamp()


class MatchesAndTimeouts(Matches, TimedOutPartialMatchHandler):
    def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
        yield OVER, ({name: [event[0] for event in events] for name, events in match.items()}, ctx.timestamp())


def run(pattern: Pattern, function: Any = None, **settings: Any) -> Harness:
    made = PatternFunction(compile_pattern(pattern), function or MatchesAndTimeouts(), PatternSettings(**settings))
    return Harness.keyed(made, key=lambda e: "k", timestamp=lambda e: e[1], side_outputs=[LATE, OVER])


def begin(letters: str = "a", skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    return Pattern.begin(letters, skip).where(Letters(letters))


def ab() -> Pattern:
    return begin().followed_by("b").where(Letters("b"))


def test_events_are_taken_in_the_order_of_their_timestamps_when_the_watermark_has_passed() -> None:
    harness = run(ab()).feed([("b1", 20), ("a1", 10), Watermark(15)])
    assert harness.output == []
    harness.feed([("b2", 30), ("a2", 25), Watermark(20)])
    assert harness.output == [("a1 b1", 20)]
    assert harness.feed([Watermark(30)]).output == [("a1 b1", 20), ("a2 b2", 30)]


def test_events_of_one_timestamp_stay_in_the_order_of_arrival_or_of_the_comparator() -> None:
    events: list[Any] = [("b1", 10), ("a1", 10), ("b2", 10)]
    assert run(ab()).feed(events).finish().output == [("a1 b2", 10)]

    def descending(one: Event, other: Event) -> int:
        return (one[0] < other[0]) - (one[0] > other[0])

    function = CEP.function(begin("b").next("a").where(Letters("a")), Matches(), descending)
    harness = Harness.keyed(function, key=lambda e: 0, timestamp=lambda e: e[1]).feed(events).finish()
    assert harness.output == [("b1 a1", 10)]


def test_late_events_go_to_their_side_output_or_are_dropped() -> None:
    events = [("a1", 10), Watermark(10), ("b1", 10), ("b2", 5), ("b3", 11)]
    harness = run(ab(), late_tag=LATE).feed(events).finish()
    assert harness.side_output(LATE) == [("b1", 10), ("b2", 5)] and harness.output == [("a1 b3", 11)]
    assert run(ab()).feed(events).finish().side_output(LATE) == []


def test_a_match_has_to_be_complete_before_its_time_is_over() -> None:
    pattern = ab().within(Time.milliseconds(10))
    harness = run(pattern).feed([("a1", 0), ("b1", 9), ("a2", 20), ("b2", 30), ("a3", 40)])
    assert harness.feed([Watermark(49)]).output == [("a1 b1", 9)]
    assert harness.side_output(OVER) == [({"a": ["a2"]}, 30)]
    assert harness.feed([Watermark(50)]).side_output(OVER)[1:] == [({"a": ["a3"]}, 50)]
    assert run(pattern, Matches()).feed([("a1", 0), ("x", 90)]).finish().output == []


def test_the_smallest_of_several_time_limits_counts() -> None:
    pattern = begin().within(5).followed_by("b").where(Letters("b")).within(100)
    assert run(pattern).feed([("a1", 0), ("b1", 6)]).finish().output == []


def test_a_time_limit_to_the_event_before() -> None:
    pattern = ab().within(5, WithinType.PREVIOUS_AND_CURRENT).followed_by("c").where(Letters("c"))
    harness = run(pattern).feed([("a1", 0), ("b1", 4), ("c1", 90), ("a2", 100), Watermark(104)])
    assert harness.output == [("a1 b1 c1", 90)] and harness.side_output(OVER) == []
    harness.feed([Watermark(105), ("b2", 106)]).finish()
    assert harness.output == [("a1 b1 c1", 90)] and harness.side_output(OVER) == [({"a": ["a2"]}, 105)]


def test_a_time_limit_between_the_events_of_a_repetition() -> None:
    pattern = begin().one_or_more(Time.milliseconds(5)).followed_by("b").where(Letters("b"))
    harness = run(pattern).feed([("a1", 0), ("a2", 4), ("a3", 9), ("b1", 50)]).finish()
    assert sorted(word for word, _ in harness.output) == ["a1 a2 b1", "a1 b1", "a2 b1", "a3 b1"]


def test_the_absence_of_an_event_completes_a_match_when_the_time_is_over() -> None:
    pattern = begin().not_followed_by("b").where(Letters("b")).within(3)
    events: list[Any] = [("a1", 1), ("b1", 2), ("a2", 4), ("c", 5), ("b2", 10), ("a3", 11), ("b3", 13)]
    assert run(pattern).feed(events).finish().output == [("a2", 7)]
    by_gap = begin().not_followed_by("b").where(Letters("b")).within(3, WithinType.PREVIOUS_AND_CURRENT)
    assert run(by_gap).feed(events).finish().output == [("a2", 7)]


def test_absence_with_a_skip_strategy_keeps_the_earliest_match() -> None:
    pattern = (
        begin("a", AfterMatchSkipStrategy.skip_past_last_event())
        .one_or_more()
        .consecutive()
        .greedy()
        .next("c")
        .where(Letters("c"))
        .not_followed_by("b")
        .where(Letters("b"))
        .within(5)
    )
    harness = run(pattern).feed([("a1", 1), ("a2", 2), ("a3", 3), ("c1", 4), ("c2", 10)]).finish()
    assert [word for word, _ in harness.output] == ["a1 a2 a3 c1"]


def test_processing_time_takes_events_as_they_come_and_measures_its_own_time() -> None:
    pattern = ab().within(Time.seconds(1))
    harness = run(pattern, in_processing_time=True).feed([("a1", 50), ("b1", 10)])
    assert [word for word, _ in harness.output] == ["a1 b1"]
    harness.feed([("a2", 0), Advance(999)]).run_empty_epochs(1)
    assert harness.side_output(OVER) == []
    harness.feed([Advance(1)]).run_empty_epochs(1)
    assert [match for match, _ in harness.side_output(OVER)] == [{"a": ["a2"]}]


def test_a_comparator_in_processing_time_orders_the_events_of_an_epoch() -> None:
    def by_name(one: Event, other: Event) -> int:
        return (one[0] > other[0]) - (one[0] < other[0])

    harness = run(ab(), in_processing_time=True, comparator=by_name).feed([("b1", 0), ("a1", 0)])
    assert [word for word, _ in harness.run_empty_epochs(1).output] == ["a1 b1"]


def test_a_skip_strategy_that_has_nothing_to_skip_to_fails_if_it_should() -> None:
    skip = AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    pattern = begin("a", skip).next("b").where(Letters("b")).optional().next("c").where(Letters("c"))
    assert run(pattern).feed([("a", 1), ("b", 2), ("c", 3)]).finish().output == [("a b c", 3)]
    with pytest.raises(UserFunctionError, match=r"could not skip to 'b': the match has events of \['a', 'c'\] only"):
        run(pattern).feed([("a", 1), ("c", 2)]).finish()
    first = AfterMatchSkipStrategy.skip_to_last("a").throw_exception_on_miss()
    with pytest.raises(UserFunctionError, match="its event is the first event of the match"):
        run(begin("a", first)).feed([("a", 1)]).finish()


def test_without_that_a_miss_skips_nothing() -> None:
    skip = AfterMatchSkipStrategy.skip_to_last("b")
    pattern = begin("a", skip).next("b").where(Letters("b")).optional().next("c").where(Letters("c"))
    assert run(pattern).feed([("a", 1), ("c", 2)]).finish().output == [("a c", 2)]


def test_conditions_are_combined() -> None:
    pattern = Pattern.begin("p").where(lambda e: e[1] > 1).where(lambda e: e[1] < 3).or_(lambda e: e[0] == "z")
    assert [w for w, _ in run(pattern).feed([("a", 1), ("b", 2), ("c", 3), ("z", 4)]).finish().output] == ["b", "z"]
    subtype = Pattern.begin("p").subtype(tuple).where(SimpleCondition.of(lambda e: e[0] == "a"))
    assert [w for w, _ in run(subtype).feed([("a", 1), ("b", 2)]).finish().output] == ["a"]


def test_a_condition_sees_the_time_and_the_events_before() -> None:
    def later(event: Event, ctx: Any) -> bool:
        ((first, time),) = ctx.get_events_for_pattern("a")
        assert (first, ctx.get_events_for_pattern("b"), ctx.timestamp()) == ("a1", [], event[1])
        assert ctx.current_processing_time() > 0
        return event[0] == "b" and ctx.timestamp() == time + 2

    function = CEP.function(begin().followed_by("b").where(later), Matches())
    harness = Harness.keyed(function, key=lambda e: 0, timestamp=lambda e: e[1])
    assert harness.feed([("a1", 5), ("x", 6), ("b", 7)]).finish().output == [("a1 b", 7)]


def test_a_simple_condition_is_asked_once_for_an_event(tmp_path: Any) -> None:
    calls = tmp_path / "calls"

    def asked(event: Event) -> bool:
        with calls.open("a") as file:
            file.write(event[0] + "\n")
        return event[0][0] == "b"

    run(begin().followed_by("b").where(asked)).feed([("a1", 1), ("a2", 2), ("a3", 3), ("x", 4), ("b", 5)]).finish()
    assert calls.read_text().split() == ["a2", "a3", "x", "b"]


def test_a_key_without_partial_matches_has_no_state() -> None:
    harness = run(ab()).feed([("a1", 1), ("x", 2), ("b1", 3), ("b2", 4), Watermark(4)])
    assert harness.output and not any(harness.state(name, "k") for name in STATES)


def test_events_are_stored_once_with_the_type_of_the_stream() -> None:
    row = Types.ROW_NAMED(["name", "at"], [Types.STRING(), Types.LONG()])
    function = CEP.function(
        Pattern.begin("p").followed_by_any("q").followed_by("r").where(lambda e: e.name == "r"),
        Names(),
        event_type=row,
    )
    harness = Harness.keyed(function, key=lambda e: "k", timestamp=lambda e: e.at)
    rows = [Row(name=name, at=at) for at, name in enumerate(["x", "y", "z"])]
    harness.feed([*rows, Watermark(2)])
    stored = harness.state("cep-events", "k")
    assert sorted(event.name for event in stored.values()) == ["x", "y", "z"]
    assert len(harness.state("cep-nodes", "k")) == 6  # x, y, z as p; x y, x z and y z as q
    tips = harness.state("cep-tips", "k").values()
    assert sorted({(tip.position, tip.waiting_for) for tip in tips}) == [("p", "q"), ("q", "r")]
    assert len(harness.feed([Row(name="r", at=3)]).finish().output) == 3


class Names(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), [event.name for events in match.values() for event in events]


def test_an_event_without_a_timestamp_fails_with_what_to_do() -> None:
    harness = Harness.keyed(CEP.function(ab(), Matches()), key=lambda e: 0)
    with pytest.raises(UserFunctionError, match=r"no timestamp.*in_processing_time\(\)"):
        harness.feed([("a", 1)])


def test_a_timed_out_match_has_no_main_output() -> None:
    class Wrong(Matches, TimedOutPartialMatchHandler):
        def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
            yield "over"

    with pytest.raises(UserFunctionError, match=r"'over', which is not for a side output; yield \(output_tag, value\)"):
        run(ab().within(5), Wrong()).feed([("a", 1)]).finish()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_what_waits_for_its_time_limit_at_the_end_of_the_input_is_emitted_in_both_modes(mode: Any) -> None:
    alone = begin().not_followed_by("b").where(Letters("b")).within(Time.milliseconds(10))
    made: dict[str, Any] = {
        "key": lambda e: e[0],
        "timestamp": lambda e: e[1],
        "side_outputs": [OVER],
        "runtime_mode": mode,
    }
    events = [("a1", 5), ("a2", 7), ("a1", 50)]
    harness = Harness.keyed(CEP.function(alone, Matches()), **made).feed(events).finish()
    assert sorted(harness.output) == [("a1", 15), ("a1", 60), ("a2", 17)]

    pair = ab().within(Time.milliseconds(10))
    harness = Harness.keyed(CEP.function(pair, MatchesAndTimeouts()), **made).feed(events).finish()
    assert sorted(time for _, time in harness.side_output(OVER)) == [15, 17, 60]
