"""Row B13 and the functions on two connected streams."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import (
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    JoinFunction,
    KeyedCoProcessFunction,
    OutputTag,
    TimeDomain,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ArgumentError, UsageError, UserFunctionError
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, Second, Watermark

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
ASIDE = OutputTag("aside")


class Balance(KeyedCoProcessFunction):
    """Deposits come in on the first stream, withdrawals on the second."""

    def open(self, runtime_context: Any) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def _change(self, ctx: Any, amount: int) -> Iterator[Any]:
        self.balance.update((self.balance.value() or 0) + amount)
        yield ctx.get_current_key(), self.balance.value()

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._change(ctx, value[1])

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._change(ctx, -value["amount"])


def balance(**settings: Any) -> Harness:
    return Harness.keyed(Balance(), key=lambda r: r[0], second_key=lambda r: r["who"], **settings)


def pay(who: str, amount: int) -> Second:
    return Second({"who": who, "amount": amount})


@BACKENDS
def test_b13_both_inputs_share_the_state_of_a_key(backend: str) -> None:
    harness = balance(backend=backend, parallelism=2)
    harness.feed([("ada", 10), CHECKPOINT, pay("ada", 3), pay("bob", 1), CHECKPOINT, ("bob", 5)])
    assert sorted(harness.output) == [("ada", 7), ("ada", 10), ("bob", -1), ("bob", 4)]
    assert harness.state("balance", "ada") == 7


@BACKENDS
def test_b13_a_crash_undoes_and_replays_both_inputs(backend: str) -> None:
    harness = balance(backend=backend, parallelism=3)
    harness.feed([("ada", 10), CHECKPOINT, pay("ada", 3), CRASH, pay("ada", 2), CHECKPOINT, CRASH, ("ada", 1)])
    assert harness.output == [("ada", 10), ("ada", 7), ("ada", 5), ("ada", 6)]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_b13_a_lost_task_is_run_again(lost: int) -> None:
    harness = balance(lost_after=lambda tries: lost if tries == 0 else None)
    harness.feed([*[("ada", 1)] * 5, *[pay("ada", 1)] * 5, CHECKPOINT])
    assert harness.lost_tasks and harness.state("balance", "ada") == 0 and len(harness.output) == 10


def test_b13_the_shared_state_moves_with_its_key_to_another_parallelism() -> None:
    harness = balance(parallelism=3)
    people = [f"p{n}" for n in range(9)]
    harness.feed([*[(who, 10) for who in people], CHECKPOINT])
    for parallelism in (2, 5, 1):
        harness.rescale(parallelism).feed([*[pay(who, 1) for who in people], CHECKPOINT])
    assert [harness.state("balance", who) for who in people] == [7] * 9


def test_timers_of_both_inputs_fire_at_the_lower_watermark_with_their_domain() -> None:
    class Alarm(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

        def process_element2(self, value: Any, ctx: Any) -> None:
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(now + 100)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), ctx.time_domain(), ctx.timestamp() == timestamp

    harness = Harness.keyed(Alarm(), key=lambda r: r[0], timestamp=lambda r: r[1])
    harness.feed([("a", 5), Second(("b", 7)), Watermark(14), CHECKPOINT, CRASH])
    assert harness.output == []
    harness.feed([Watermark(15), Advance(100)])
    assert harness.output == [("a", TimeDomain.EVENT_TIME, True), ("b", TimeDomain.PROCESSING_TIME, True)]


class Sides(CoMapFunction):
    def map1(self, value: int) -> int | None:
        return value * 10 if value else None

    def map2(self, value: str) -> str | None:
        return value or None


def test_a_co_map_function_gets_each_record_by_its_input_and_none_is_dropped() -> None:
    harness = Harness.non_keyed(Sides()).feed([1, 0, Second("b"), Second(""), 2])
    assert harness.output == [10, 20, "b"]


def test_a_co_map_function_on_keyed_streams_has_state() -> None:
    class Count(CoMapFunction):
        def open(self, runtime_context: Any) -> None:
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

        def map1(self, value: str) -> list[Any]:
            self.seen.add(value)
            return list(self.seen.get())

        def map2(self, value: int) -> list[Any]:
            return self.map1(str(value))

    harness = Harness.keyed(Count(), key=lambda r: r[0], second_key=lambda r: "ab"[r])
    assert harness.feed(["ax", "bx", Second(0), Second(1)]).output == [["ax"], ["bx"], ["ax", "0"], ["bx", "1"]]


def test_a_co_flat_map_function_yields_any_number_of_records() -> None:
    class Spread(CoFlatMapFunction):
        def flat_map1(self, value: int) -> Iterator[Any]:
            yield from range(value)

        def flat_map2(self, value: int) -> list[int] | None:
            return None if value < 0 else [value]

    harness = Harness.non_keyed(Spread()).feed([2, 0, Second(-1), Second(7)])
    assert harness.output == [0, 1, 7]
    assert Harness.keyed(Spread(), key=str).feed([2, Second(5)]).output == [0, 1, 5]


def test_a_co_process_function_sees_timestamps_and_has_side_outputs() -> None:
    class Both(CoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value, ctx.timestamp()

        def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield ASIDE, (value, ctx.timestamp())

    harness = Harness.non_keyed(Both(), timestamp=len, second_timestamp=lambda r: 7, side_outputs=[ASIDE])
    harness.feed(["ab", Second("c")])
    assert harness.output == [("ab", 2)] and harness.side_output(ASIDE) == [("c", 7)]


def test_a_function_without_a_key_can_register_no_timer() -> None:
    class Alarm(CoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(1)

        def process_element2(self, value: Any, ctx: Any) -> None: ...

    with pytest.raises(UserFunctionError, match="Register timers is only supported on a keyed stream"):
        Harness.non_keyed(Alarm()).feed([1])


def test_an_error_names_the_method_the_key_and_the_record() -> None:
    class Bad(CoFlatMapFunction):
        def flat_map1(self, value: Any) -> Any:
            return "text"

        def flat_map2(self, value: Any) -> Any:
            return 1 / 0

    with pytest.raises(UserFunctionError, match=r"flat_map1\(\) returned 'text'"):
        Harness.non_keyed(Bad()).feed([1])
    with pytest.raises(UserFunctionError, match="key: 'b'") as caught:
        Harness.keyed(Bad(), key=lambda r: r).feed([Second("b")])
    assert "ZeroDivisionError" in str(caught.value)


def test_a_keyed_function_needs_a_key_in_the_harness_too() -> None:
    with pytest.raises(ArgumentError, match="cannot run on a stream without a key"):
        Harness.non_keyed(Balance())


class Joined(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


class Sizes(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Any:
        yield len(first), len(second)


WINDOWS: dict[str, Any] = {
    "key": lambda order: order[0],
    "second_key": lambda payment: payment["name"],
    "timestamp": lambda order: order[1],
    "second_timestamp": lambda payment: payment["at"],
    "window": TumblingEventTimeWindows.of(Time.milliseconds(10)),
}


def payment(name: str, at: int) -> Second:
    return Second({"name": name, "at": at})


@BACKENDS
def test_functions_of_window_joins_get_the_records_of_both_streams(backend: str) -> None:
    items = [("a", 1), payment("a", 2), CHECKPOINT, payment("b", 3), ("a", 4), CRASH, payment("a", 11), Watermark(9)]
    joined = Harness.keyed(Joined(), parallelism=2, backend=backend, **WINDOWS).feed(items)
    assert sorted(joined.output, key=str) == [(("a", 1), payment("a", 2).value), (("a", 4), payment("a", 2).value)]
    grouped = Harness.keyed(Sizes(), parallelism=2, backend=backend, **WINDOWS).feed(items)
    assert sorted(grouped.output) == [(0, 1), (2, 1)]
    assert sorted(grouped.rescale(3).finish().output) == [(0, 1), (0, 1), (2, 1)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": None}, "Joined gets the records of two streams .* write window="),
        ({"key": None}, "write Harness.keyed"),
        ({"late_data": OutputTag("late")}, "late_data= has no meaning for Joined"),
    ],
)
def test_a_window_join_needs_a_key_and_a_window(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Harness.keyed(Joined(), **{**WINDOWS, **settings})
