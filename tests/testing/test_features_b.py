"""Keyed state and timers as a user's function sees them: rows B1 to B11, A4 and Q1 of the features, on the harness."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, ProcessFunction
from penstock.errors import InvalidKeyError, UserFunctionError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from penstock.model.state import ListState, MapState
from penstock.model.time import TimeDomain
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, ManualClock, MemorySink, Watermark
from penstock.testing.clocks import START_MS

GETTERS = {
    "value": "get_state",
    "list": "get_list_state",
    "map": "get_map_state",
    "reducing": "get_reducing_state",
    "aggregating": "get_aggregating_state",
}


class Use(KeyedProcessFunction):
    """Does what the record says with one state: a record is a key and a function of the state."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor

    def open(self, ctx: RuntimeContext) -> None:
        self.state = getattr(ctx, GETTERS[self.descriptor.kind])(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value[1](self.state)


class Average(AggregateFunction):
    """Keeps (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def key_of(record: Any) -> Any:
    return record[0]


def using(descriptor: StateDescriptor) -> Harness:
    return Harness.keyed(Use(descriptor), key=key_of)


def failure_of(call: Callable[[], Any]) -> str:
    """The text that the user sees."""
    with pytest.raises(UserFunctionError) as caught:
        call()
    return str(caught.value)


class FirstOfEachId(KeyedProcessFunction):
    """Lets the first record of each id pass."""

    def open(self, ctx: RuntimeContext) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if not self.seen.value():
            self.seen.update(True)
            yield value


def test_a4_each_id_is_in_the_output_once_whatever_crashes() -> None:
    ids = list(range(50))
    sink = MemorySink()
    harness = Harness.keyed(FirstOfEachId(), key=lambda i: i, parallelism=2, sink=sink, seed=4)
    harness.feed([*ids[:30], CHECKPOINT, *ids[:20], *ids[30:], CRASH, *ids[20:], CRASH]).finish()
    assert sorted(harness.output) == ids
    assert sorted(sink.rows) == ids
    assert harness.crashes == 2


class CountWords(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterable[tuple[str, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


def test_q1_five_at_the_checkpoint_and_two_more_are_seven_after_a_crash() -> None:
    sink = MemorySink()
    harness = Harness.keyed(CountWords(), key=str, sink=sink)
    harness.feed(["hello"] * 5 + [CHECKPOINT] + ["hello"] * 2)
    assert harness.state("count", "hello") == 7
    harness.crash()
    assert harness.crashes == 1
    assert harness.state("count", "hello") == 7  # not 9: the last two were taken back before they came again
    harness.finish()
    assert sink.rows == harness.output == [("hello", n) for n in range(1, 8)]


def test_q1_without_a_checkpoint_it_starts_from_the_initial_state() -> None:
    harness = Harness.keyed(CountWords(), key=str)
    harness.feed(["hello", "hello", CRASH, "hello"])
    assert harness.state("count", "hello") == 3
    assert harness.output == [("hello", 1), ("hello", 2), ("hello", 3)]


def test_b1_every_access_is_to_the_key_of_the_record() -> None:
    harness = Harness.keyed(CountWords(), key=str, parallelism=3)
    harness.feed(["a", "b", "a", "a", "b", CHECKPOINT, "c", "a", CRASH])
    assert [harness.state("count", key) for key in "abcd"] == [4, 2, 1, None]
    assert sorted(harness.output) == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("b", 2), ("c", 1)]


@pytest.mark.parametrize(
    ("key", "text"), [(None, "Assigned key must not be null!"), (float("nan"), "NaN cannot be a key")]
)
def test_b1_a_key_must_not_be_null(key: Any, text: str) -> None:
    with pytest.raises(InvalidKeyError, match=text):
        Harness.keyed(CountWords(), key=lambda record: key).feed(["a"])


def test_b1_keys_that_look_alike_are_different_keys() -> None:
    harness = using(ValueStateDescriptor("v"))
    for key in (1, True, 1.0, "1"):
        harness.feed([(key, lambda state: (state.value(), state.update("set"))[0])])
    assert harness.output == [None] * 4


def test_b2_value_state() -> None:
    harness = using(ValueStateDescriptor("v", Types.LONG()))
    harness.feed([("a", lambda s: s.value()), ("a", lambda s: s.update(5)), ("a", lambda s: s.value())])
    harness.feed([CHECKPOINT, ("a", lambda s: s.update(6)), CRASH, ("a", lambda s: s.value())])
    assert harness.output == [None, None, 5, None, 6]
    harness.feed([("a", lambda s: s.clear()), ("a", lambda s: s.value()), CHECKPOINT, CRASH])
    assert harness.output[-1] is None and harness.state("v", "a") is None
    harness.feed([("a", lambda s: s.update(7)), ("a", lambda s: s.update(None)), ("a", lambda s: s.value())])
    assert harness.output[-1] is None


def test_b3_list_state() -> None:
    def replace(state: ListState[int]) -> list[int]:
        state.add(1)
        state.add_all([2, 3])
        before = list(state.get())
        state.update([7])
        return before

    harness = using(ListStateDescriptor("l", Types.LONG()))
    harness.feed([("a", lambda s: list(s.get())), ("a", replace), CHECKPOINT, ("a", lambda s: s.add(8)), CRASH])
    assert harness.output[:2] == [[], [1, 2, 3]]
    assert harness.state("l", "a") == [7, 8]
    harness.feed([("a", lambda s: s.clear()), ("a", lambda s: list(s.get()))])
    assert harness.output[-1] == []


def test_b3_a_list_takes_no_null() -> None:
    harness = using(ListStateDescriptor("l", Types.LONG()))
    text = failure_of(lambda: harness.feed([("a", lambda s: s.add(None))]))
    assert "You cannot add null to a ListState." in text


def test_b4_map_state() -> None:
    def fill(state: MapState[str, int]) -> Any:
        state.put("x", 1)
        state["y"] = 2
        state.put_all({"z": 3})
        inside = ("x" in state, state.contains("q"), state.get("y"), state["z"], state.get("q"))
        views = (sorted(state), sorted(state.keys()), sorted(state.values()), sorted(state.items()))
        state.remove("x")
        del state["y"]
        return inside, views

    harness = using(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    harness.feed([("a", lambda s: s.is_empty()), ("a", fill), CHECKPOINT, ("a", lambda s: s.put("w", 4)), CRASH])
    names = ["x", "y", "z"]
    assert harness.output[0] is True
    assert harness.output[1] == (
        (True, False, 2, 3, None),
        (names, names, [1, 2, 3], [("x", 1), ("y", 2), ("z", 3)]),
    )
    assert harness.state("m", "a") == {"z": 3, "w": 4}
    harness.feed([("a", lambda s: s.clear()), ("a", lambda s: s.is_empty())])
    assert harness.output[-1] is True


def test_b4_a_map_is_not_changed_while_it_is_iterated() -> None:
    def change(state: MapState[str, int]) -> None:
        state.put_all({"x": 1, "y": 2})
        for name in state:
            state.put(name + "!", 3)

    harness = using(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    assert "Concurrent modification detected." in failure_of(lambda: harness.feed([("a", change)]))


def test_b5_reducing_state() -> None:
    harness = using(ReducingStateDescriptor("r", lambda x, y: x + y, Types.LONG()))
    harness.feed([("a", lambda s: s.get()), ("a", lambda s: s.add(1)), ("a", lambda s: s.add(3)), CHECKPOINT])
    harness.feed([("a", lambda s: s.add(5)), CRASH, ("a", lambda s: s.get())])
    assert harness.output[0] is None and harness.output[-1] == 9
    harness.feed([("a", lambda s: s.clear()), CHECKPOINT, CRASH, ("a", lambda s: s.get())])
    assert harness.output[-1] is None


def test_b6_aggregating_state_keeps_the_accumulator() -> None:
    descriptor = AggregatingStateDescriptor("g", Average(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    harness = using(descriptor)
    harness.feed([("a", lambda s: s.get()), ("a", lambda s: s.add(2)), ("a", lambda s: s.add(4)), CHECKPOINT, CRASH])
    assert harness.output[0] is None and harness.state("g", "a") == 3.0
    harness.feed([("a", lambda s: s.add(9))])
    assert harness.state("g", "a") == 5.0  # (6, 2) came back, not the result 3.0


class AskTwice(KeyedProcessFunction):
    def __init__(self, first: StateDescriptor, second: StateDescriptor) -> None:
        self.descriptors = (first, second)

    def open(self, ctx: RuntimeContext) -> None:
        self.states = [getattr(ctx, GETTERS[d.kind])(d) for d in self.descriptors]

    def process_element(self, value: Any, ctx: Any) -> Iterable[bool]:
        yield self.states[0] is self.states[1]


def test_b7_the_same_name_and_type_is_the_same_state() -> None:
    twice = AskTwice(ValueStateDescriptor("c", Types.LONG()), ValueStateDescriptor("c", Types.LONG()))
    assert Harness.keyed(twice, key=str).feed(["a"]).output == [True]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            MapStateDescriptor("c", Types.LONG(), Types.LONG()),
            "The state name 'c' is already in use and not a map state.",
        ),
        (ListStateDescriptor("c", Types.LONG()), "The state name 'c' is already in use and not a list state."),
        (ValueStateDescriptor("c", Types.STRING()), "State name corrupted: c."),
    ],
)
def test_b7_one_name_with_two_types_is_an_error(other: StateDescriptor, text: str) -> None:
    function = AskTwice(ValueStateDescriptor("c", Types.LONG()), other)
    assert text in failure_of(lambda: Harness.keyed(function, key=str))


class MapWithState(MapFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


def test_b8_keyed_state_needs_a_keyed_stream() -> None:
    text = failure_of(lambda: Harness.non_keyed(MapWithState()))
    assert "This state is only accessible by functions executed on a KeyedStream." in text
    assert "in operator 'function'" in text


class FlatMapWithState(FlatMapFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.inner = MapWithState()
        self.inner.open(ctx)

    def flat_map(self, value: Any) -> Any:
        yield self.inner.map(value)


class FilterWithState(FilterFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.inner = MapWithState()
        self.inner.open(ctx)

    def filter(self, value: Any) -> bool:
        return bool(self.inner.map(value))


class ReduceWithState(ReduceFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.inner = MapWithState()
        self.inner.open(ctx)

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.inner.map(value2)[0]


class ProcessWithState(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.inner = MapWithState()
        self.inner.open(ctx)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.inner.map(value)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (MapWithState(), 4),
        (FlatMapWithState(), 4),
        (FilterWithState(), 4),
        (ReduceWithState(), 3),
        (ProcessWithState(), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Function) else "",
)
def test_b9_handles_taken_in_open_work_in_every_function(function: Function, calls: int) -> None:
    harness = Harness.keyed(function, key=str)
    harness.feed(["a", "a", CHECKPOINT, "a", CRASH, "a"])
    assert harness.state("count", "a") == calls
    assert len(harness.output) == 4


LIFE: list[str] = []
"""What the function of the next test did; it is in this process, and outlives its copies."""


def note(event: str) -> None:
    LIFE.append(event)


class Life(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        note(f"open {ctx.get_index_of_this_subtask()}")

    def process_element(self, value: Any, ctx: Any) -> None:
        note("record")

    def close(self) -> None:
        note("close")


def test_b9_open_is_once_per_subtask_before_the_data_and_close_at_the_end() -> None:
    LIFE.clear()
    harness = Harness.keyed(Life(), key=str, parallelism=2)
    harness.feed(["a", "b", CHECKPOINT, "a"]).finish()
    assert LIFE == ["open 0", "open 1", "record", "record", "record", "close", "close"]


class Alarm(KeyedProcessFunction):
    """A record (key, domain, times…) registers timers; those that fire say what they see."""

    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        _, domain, *times = value
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        for time in times:
            if domain == "event":
                timers.register_event_time_timer(time)
            elif domain == "processing":
                timers.register_processing_time_timer(START_MS + time)
            else:
                timers.delete_event_time_timer(time)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        since = timestamp if ctx.time_domain() is TimeDomain.EVENT_TIME else timestamp - START_MS
        yield ctx.get_current_key(), since, self.count.value()


def alarms(**settings: Any) -> Harness:
    return Harness.keyed(Alarm(), key=key_of, **settings)


def test_b10_one_timer_for_each_key_and_time() -> None:
    harness = alarms().feed([("a", "event", 10, 10), ("a", "event", 10), ("b", "event", 10), Watermark(9)])
    assert harness.output == []
    harness.feed([Watermark(10)])
    assert harness.output == [("a", 10, 2), ("b", 10, 1)]
    assert harness.feed([Watermark(99)]).output == [("a", 10, 2), ("b", 10, 1)]


def test_b10_timers_fire_in_the_order_of_time_and_key_with_the_state_of_their_key() -> None:
    records = [("b", "event", 30, 20), ("a", "event", 30), ("c", "event", 10), ("b", "processing", 5)]
    harness = alarms().feed([*records, Watermark(30)])
    assert harness.output == [("c", 10, 1), ("b", 20, 2), ("a", 30, 1), ("b", 30, 2)]
    harness.feed([Advance(4)])
    assert len(harness.output) == 4
    harness.feed([Advance(1)])
    assert harness.output[4:] == [("b", 5, 2)]


def test_b10_a_deleted_timer_does_not_fire() -> None:
    harness = alarms().feed([("a", "event", 10, 20), ("a", "delete", 10), ("b", "delete", 20), Watermark(50)])
    assert harness.output == [("a", 20, 2)]


def test_b10_pending_timers_survive_a_crash_and_fire_once() -> None:
    sink = MemorySink()
    harness = alarms(sink=sink).feed(
        [("a", "event", 10), ("a", "processing", 7), CHECKPOINT, ("b", "event", 11), CRASH]
    )
    harness.feed([Watermark(15), CRASH, Advance(7), CRASH, CHECKPOINT, CRASH]).finish()
    assert sorted(sink.rows) == [("a", 7, 2), ("a", 10, 2), ("b", 11, 1)]
    assert sorted(harness.output) == sorted(sink.rows)


def test_b10_an_overdue_processing_timer_fires_at_once_after_a_restore() -> None:
    clock = ManualClock()
    first = alarms(clock=clock).feed([("a", "processing", 1000), CHECKPOINT])
    clock.advance(5000)
    second = alarms(clock=clock, storage=first.storage)
    assert second.feed([]).output == [("a", 1000, 1)]  # no record and no control item was needed
    assert second.crash().output == [("a", 1000, 1)]


class TimerWithoutKey(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)


def test_b11_timers_need_a_keyed_stream() -> None:
    text = failure_of(lambda: Harness.non_keyed(TimerWithoutKey()).feed(["a"]))
    assert "Register timers is only supported on a keyed stream." in text
    assert "key_by" in text
