"""What windows cost: nothing in an epoch in which none fires, and not more the more windows are open."""

import sys
from collections.abc import Callable
from math import log2
from random import Random
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import ReduceFunction
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from penstock.state.heap.heap_timers import TimerTable
from penstock.testing import CHECKPOINT, Harness, Watermark

KINDS: dict[str, tuple[WindowAssigner[Any, Any], dict[str, Any]]] = {
    "tumbling": (TumblingEventTimeWindows(100, 0), {}),
    "sliding": (SlidingEventTimeWindows(100, 50, 0), {}),
    "session": (EventTimeSessionWindows(100), {}),
    "own trigger": (TumblingEventTimeWindows(100, 0), {"trigger": CountTrigger.of(10**6)}),
    "processing time": (TumblingProcessingTimeWindows(10**9, 0), {}),
    "session in processing time": (ProcessingTimeSessionWindows(10**9), {}),
}


SLACK = 100
"""A thousand windows with one call each would be ten times as many."""


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


def with_open_windows(kind: str, count: int, backend: str) -> Harness:
    """A harness with a window for each of so many keys, none of which is due."""
    assigner, settings = KINDS[kind]
    harness = Harness.keyed(
        Larger(),
        key=lambda record: record[0],
        key_type=Types.LONG(),
        timestamp=lambda record: record[1],
        window=assigner,
        backend=backend,
        **settings,
    )
    harness.feed([*((key, 1_000) for key in range(count)), CHECKPOINT, Watermark(900)])
    return harness.run_empty_epochs(2)  # whatever is made once is made


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions were called, those in C included."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_in_which_no_window_is_due_does_nothing_for_each_of_them(kind: str, backend: str) -> None:
    few, many = (with_open_windows(kind, count, backend) for count in (10, 1_000))
    assert calls_of(lambda: many.run_empty_epochs(3)) < calls_of(lambda: few.run_empty_epochs(3)) + SLACK
    assert not many.output


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_costs_the_same_however_many_windows_are_open(kind: str, backend: str) -> None:
    few, many = (with_open_windows(kind, count, backend) for count in (10, 1_000))
    for harness in (few, many):
        harness.feed([(3, 1_000)])
    assert calls_of(lambda: many.feed([(3, 1_001)])) < calls_of(lambda: few.feed([(3, 1_001)])) + SLACK


class Ordered:
    """The place of a key in the order of timers that are due at one time; counts how often two are compared."""

    compared = 0

    def __init__(self, place: int) -> None:
        self.place = place

    def __lt__(self, other: "Ordered") -> bool:
        Ordered.compared += 1
        return self.place < other.place

    def __eq__(self, other: object) -> bool:
        Ordered.compared += 1
        return isinstance(other, Ordered) and self.place == other.place

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("count", [1_000, 30_000])
def test_a_timer_costs_the_logarithm_of_their_number(count: int) -> None:
    """All are due at the same time, as those of the windows of many keys are."""
    table = TimerTable(Ordered)
    places = list(range(count))
    Random(5).shuffle(places)
    steps = 4 * log2(count)

    def compared(work: Callable[[], Any]) -> int:
        before = Ordered.compared
        work()
        return Ordered.compared - before

    def add_all() -> None:
        for place in places:
            table.add(7, place)

    def delete_most() -> None:
        for place in places[10:]:
            table.discard(7, place)

    assert compared(add_all) <= count * steps
    assert compared(lambda: table.add(6, 0)) <= steps
    assert compared(lambda: table.take_due(5)) == 0  # none is due: it looks at the first one only
    assert compared(lambda: table.take_due(6)) <= steps
    assert compared(delete_most) <= count * steps
    assert compared(table.first) <= 100 * steps  # few deleted ones are left to drop
    assert len(table.take_due(7)) == 10
