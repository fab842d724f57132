"""Side outputs: what a function yields as `tag, value` is in the stream of the tag, and not among the other records."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cep import CEP, Pattern, PatternProcessFunction
from penstock.common import Row, Time, Types
from penstock.datastream import (
    AllWindowFunction,
    BroadcastProcessFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import UsageError
from penstock.testing import CHECKPOINT, CRASH, Broadcast, Harness, MemorySink, Watermark

ODD = OutputTag("odd", Types.LONG())
OTHER = OutputTag("other")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Parity(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value if value % 2 == 0 else (ODD, value)


class Numbered(KeyedProcessFunction):
    """Numbers the records of a key; every second one goes aside, and so does the end of the key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(100)
        yield (value, count) if count % 2 else (OTHER, (value, count))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield OTHER, f"end of {ctx.get_current_key()}"


def test_tagged_records_go_to_their_side_output_and_others_do_not() -> None:
    harness = Harness.non_keyed(Parity(), side_outputs=[ODD]).feed(range(7))
    assert harness.output == [0, 2, 4, 6]
    assert harness.side_output(ODD) == [1, 3, 5]


def test_records_of_a_tag_that_nobody_reads_are_dropped() -> None:
    harness = Harness.non_keyed(Parity()).feed(range(4))
    assert harness.output == [0, 2]
    with pytest.raises(UsageError, match=r"nothing reads OutputTag\('odd'"):
        harness.side_output(ODD)


def test_a_keyed_function_tags_records_and_timers_and_a_crash_repeats_none() -> None:
    harness = Harness.keyed(Numbered(), key=str, side_outputs=[OTHER], parallelism=2, timestamp=lambda r: 1)
    harness.feed(["a", "a", CHECKPOINT, "a", "b", CRASH, "a", CHECKPOINT, Watermark(100), CRASH])
    assert sorted(harness.output) == [("a", 1), ("a", 3), ("b", 1)]
    assert sorted(harness.side_output(OTHER), key=str) == [("a", 2), ("a", 4), "end of a", "end of b"]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_task_that_is_lost_and_retried_gives_the_same_side_output(lost: int) -> None:
    harness = Harness.keyed(
        Numbered(), key=str, side_outputs=[OTHER], lost_after=lambda tries: lost if tries == 0 else None
    )
    harness.feed([*"aaaaaaaab", CHECKPOINT])
    assert harness.lost_tasks
    assert harness.side_output(OTHER) == [("a", 2), ("a", 4), ("a", 6), ("a", 8)]


def test_the_side_output_of_a_rescaled_function_goes_on() -> None:
    harness = Harness.keyed(Numbered(), key=str, side_outputs=[OTHER], parallelism=3)
    harness.feed([*"abc", CHECKPOINT]).rescale(2).feed([*"abc", CHECKPOINT]).rescale(1).feed("abc")
    assert sorted(harness.side_output(OTHER)) == [("a", 2), ("b", 2), ("c", 2)]


def test_tagged_records_are_not_in_the_sink_of_the_others() -> None:
    sink = MemorySink()
    Harness.non_keyed(Parity(), sink=sink, side_outputs=[ODD]).feed(range(5)).finish()
    assert sink.rows == [0, 2, 4]


def test_both_sides_of_a_broadcast_function_have_side_outputs() -> None:
    class Both(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield OTHER, ("record", value)

        def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield OTHER, ("rule", value)

    harness = Harness.non_keyed(Both(), broadcast=(RULES,), side_outputs=[OTHER]).feed([Broadcast(1), 2])
    assert harness.side_output(OTHER) == [("rule", 1), ("record", 2)] and harness.output == []


def test_a_keyed_broadcast_function_has_side_outputs_also_in_on_timer() -> None:
    class Both(KeyedBroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            ctx.timer_service().register_event_time_timer(10)
            yield value

        def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield OTHER, ("rule", value)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield OTHER, ("timer", ctx.get_current_key())

    harness = Harness.keyed(Both(), key=str, broadcast=(RULES,), side_outputs=[OTHER])
    harness.feed([Broadcast(1), "a", Watermark(10)])
    assert harness.side_output(OTHER) == [("rule", 1), ("timer", "a")] and harness.output == ["a"]


def test_map_and_flat_map_have_side_outputs_as_in_pyflink() -> None:
    class Aside(MapFunction):
        def map(self, value: Any) -> Any:
            return (ODD, value) if value % 2 else value

    class Twice(FlatMapFunction):
        def flat_map(self, value: Any) -> Any:
            return [value, (ODD, value)]

    assert Harness.non_keyed(Aside(), side_outputs=[ODD]).feed([1, 2]).side_output(ODD) == [1]
    assert Harness.keyed(Twice(), key=str, side_outputs=[ODD]).feed([1, 2]).side_output(ODD) == [1, 2]


def test_pairs_that_begin_with_anything_else_are_records() -> None:
    class Pairs(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield "odd", value
            yield Row("odd", value)

    assert Harness.non_keyed(Pairs()).feed([1]).output == [("odd", 1), Row("odd", 1)]


class OfWindow(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield from tagged(elements)


class OfAllWindow(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Any) -> Iterator[Any]:
        yield from tagged(elements)


class AppliedToWindow(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        yield from tagged(inputs)


class AppliedToAllWindow(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Any) -> Iterator[Any]:
        yield from tagged(inputs)


class OfMatch(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield from tagged(match["any"])


NUMBERS = OutputTag("numbers", Types.LONG())
ANY = Pattern.begin("any").where(lambda number: number > 0)
IN_WINDOWS = {"window": TumblingEventTimeWindows.of(Time.milliseconds(10))}


def tagged(elements: Any) -> Iterator[Any]:
    for element in elements:
        yield NUMBERS, element
        yield element + 100


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (lambda **more: Harness.keyed(OfWindow(), key=str, **more), IN_WINDOWS),
        (lambda **more: Harness.keyed(AppliedToWindow(), key=str, **more), IN_WINDOWS),
        (lambda **more: Harness.non_keyed(OfAllWindow(), **more), IN_WINDOWS),
        (lambda **more: Harness.non_keyed(AppliedToAllWindow(), **more), IN_WINDOWS),
        (lambda **more: Harness.keyed(CEP.function(ANY, OfMatch()), key=str, **more), {}),
    ],
    ids=["process", "apply", "process all", "apply all", "match"],
)
def test_functions_of_windows_and_matches_have_side_outputs(make: Any, settings: Any) -> None:
    harness = make(timestamp=lambda number: number, side_outputs=[NUMBERS], **settings)
    harness.feed([1, CHECKPOINT, 2, CRASH, 12]).finish()
    assert sorted(harness.output) == [101, 102, 112] and sorted(harness.side_output(NUMBERS)) == [1, 2, 12]
