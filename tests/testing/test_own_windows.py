"""Triggers, window assigners and windows of the user, on the harness (features B12)."""

from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import (
    WindowFunction,
)
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    MergingWindowAssigner,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    WindowAssigner,
)
from penstock.testing import CHECKPOINT, CRASH
from tests.testing.test_windows import BACKENDS, Bounds, CountAndSum, windows


class UntilStop(Trigger[Any, TimeWindow]):
    """Fires and purges when a record says so, and at the end of the window; keeps what it has seen in its own state."""

    def __init__(self) -> None:
        self.seen = ReducingStateDescriptor("seen", lambda a, b: a + b, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(self.seen).add(1)
        ctx.register_event_time_timer(window.max_timestamp())
        stops = element[2] == 0 and ctx.get_partitioned_state(self.seen).get() > 1
        return TriggerResult.FIRE_AND_PURGE if stops else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.seen)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Any) -> None:
        ctx.get_partitioned_state(self.seen).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trigger_of_the_user_has_state_of_the_window(backend: str) -> None:
    harness = windows(CountAndSum(), trigger=UntilStop(), backend=backend)
    harness.feed([("a", 1, 0), ("a", 2, 5), CHECKPOINT, CRASH, ("a", 3, 0), ("a", 4, 7), ("a", 11, 0)]).finish()
    assert harness.output == [(3, 5), (1, 7), (1, 0)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_state_of_a_trigger_is_merged_with_its_windows(backend: str) -> None:
    window = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    harness = windows(CountAndSum(), window, trigger=UntilStop(), backend=backend)
    harness.feed([("a", 1, 1), ("a", 9, 2), CHECKPOINT, CRASH, ("a", 5, 4)])
    assert harness.state("seen", "a", namespace=(1, 14)) == 3
    assert harness.feed([("a", 6, 0)]).output == [(4, 7)]


class EvenAndOdd(WindowAssigner[Any, TimeWindow]):
    """Windows of two milliseconds for even numbers, of ten for odd ones."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        size = 10 if element[2] % 2 else 2
        start = TimeWindow.get_window_start_with_offset(timestamp, 0, size)
        return [TimeWindow(start, start + size)]

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def test_a_window_assigner_of_the_user() -> None:
    harness = windows(CountAndSum(), EvenAndOdd(), window_function=Bounds())
    harness.feed([("a", 3, 1), ("a", 3, 2), ("a", 5, 3)]).finish()
    assert harness.output == [("a", 2, 4, (1, 2)), ("a", 0, 10, (2, 4))]


class Label:
    """A window that is no TimeWindow."""

    def __init__(self, name: str) -> None:
        self.name = name

    def max_timestamp(self) -> int:
        return 100

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Label) and self.name == other.name


class LabelSerializer:
    def serialize(self, element: Label, stream: Any) -> None:
        stream.write(element.name.encode())

    def deserialize(self, stream: Any) -> Label:
        return Label(stream.read().decode())


class Labels(MergingWindowAssigner[Any, Label]):
    """Labels with the same first letter are merged."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [Label(element[2])]

    def merge_windows(self, windows: Any, callback: Any) -> None:
        by_letter: dict[str, list[Label]] = {}
        for window in windows:
            by_letter.setdefault(window.name[0], []).append(window)
        for letter, group in by_letter.items():
            if len(group) > 1:
                callback.merge(group, Label(letter + "*"))

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return LabelSerializer()

    def is_event_time(self) -> bool:
        return True


class Names(WindowFunction[Any, Any, Any, Label]):
    def apply(self, key: Any, window: Label, inputs: Any) -> Any:
        yield window.name, [record[2] for record in inputs]


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_of_a_class_of_the_user_are_merged_and_stored(backend: str) -> None:
    harness = windows(Names(), Labels(), backend=backend)
    harness.feed([("k", 1, "ab"), ("k", 1, "b"), CHECKPOINT, ("k", 1, "ac"), CRASH, ("k", 1, "ad")]).finish()
    assert sorted(harness.output) == [("a*", ["ab", "ac", "ad"]), ("b", ["b"])]
