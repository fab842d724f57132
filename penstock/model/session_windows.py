"""Session windows: elements with less than a gap between them are in one window."""

from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.errors import ArgumentError, UsageError
from penstock.model.time import TimeSpan
from penstock.model.window_assigners import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
    require_time,
    span_ms,
)
from penstock.model.window_triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from penstock.model.windows import TimeWindow, TimeWindowSerializer, time_window

T = TypeVar("T")
Context = WindowAssigner.WindowAssignerContext
Callback = MergingWindowAssigner.MergeCallback


class EventTimeSessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Sessions in event time with a fixed gap."""

    def __init__(self, session_gap: int) -> None:
        self.session_gap = _gap(session_gap, type(self).__name__)

    @staticmethod
    def with_gap(size: TimeSpan) -> "EventTimeSessionWindows[Any]":
        """Sessions that end when no element has come for this long."""
        return EventTimeSessionWindows(span_ms(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows[Any]":
        """Sessions whose gap each element determines."""
        return DynamicEventTimeSessionWindows(extractor)

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Callback[TimeWindow]) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """A window from the element to the end of its gap."""
        start = require_time(timestamp)
        return [time_window(start, self.session_gap)]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """EventTimeTrigger."""
        return EventTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        """TimeWindowSerializer."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """Yes."""
        return True

    def __repr__(self) -> str:
        return f"EventTimeSessionWindows({self.session_gap})"


class ProcessingTimeSessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Sessions in processing time with a fixed gap."""

    def __init__(self, session_gap: int) -> None:
        self.session_gap = _gap(session_gap, type(self).__name__)

    @staticmethod
    def with_gap(size: TimeSpan) -> "ProcessingTimeSessionWindows[Any]":
        """Sessions that end when no element has come for this long."""
        return ProcessingTimeSessionWindows(span_ms(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicProcessingTimeSessionWindows[Any]":
        """Sessions whose gap each element determines."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Callback[TimeWindow]) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """A window from the element to the end of its gap."""
        start = context.get_current_processing_time()
        return [time_window(start, self.session_gap)]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """ProcessingTimeTrigger."""
        return ProcessingTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        """TimeWindowSerializer."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """No."""
        return False

    def __repr__(self) -> str:
        return f"ProcessingTimeSessionWindows({self.session_gap})"


class DynamicEventTimeSessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Sessions in event time whose gap each element determines."""

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not isinstance(session_window_time_gap_extractor, SessionWindowTimeGapExtractor):
            raise ArgumentError(
                f"with_dynamic_gap() takes a SessionWindowTimeGapExtractor, not {session_window_time_gap_extractor!r}"
            )
        self.extractor = session_window_time_gap_extractor

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows[Any]":
        """Sessions whose gap each element determines."""
        return DynamicEventTimeSessionWindows(extractor)

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Callback[TimeWindow]) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """A window from the element to the end of its gap."""
        start = require_time(timestamp)
        return [time_window(start, gap_of(self.extractor, element))]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """EventTimeTrigger."""
        return EventTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        """TimeWindowSerializer."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """Yes."""
        return True

    def __repr__(self) -> str:
        return f"DynamicEventTimeSessionWindows({type(self.extractor).__name__})"


class DynamicProcessingTimeSessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Sessions in processing time whose gap each element determines."""

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not isinstance(session_window_time_gap_extractor, SessionWindowTimeGapExtractor):
            raise ArgumentError(
                f"with_dynamic_gap() takes a SessionWindowTimeGapExtractor, not {session_window_time_gap_extractor!r}"
            )
        self.extractor = session_window_time_gap_extractor

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicProcessingTimeSessionWindows[Any]":
        """Sessions whose gap each element determines."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Callback[TimeWindow]) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """A window from the element to the end of its gap."""
        start = context.get_current_processing_time()
        return [time_window(start, gap_of(self.extractor, element))]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """ProcessingTimeTrigger."""
        return ProcessingTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        """TimeWindowSerializer."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """No."""
        return False

    def __repr__(self) -> str:
        return f"DynamicProcessingTimeSessionWindows({type(self.extractor).__name__})"


def gap_of(extractor: SessionWindowTimeGapExtractor, element: Any) -> int:
    """The gap that an element determines."""
    gap = extractor.extract(element)
    if gap <= 0:
        raise UsageError(f"Dynamic session time gap must satisfy 0 < gap; the extractor returned {gap!r}")
    return gap


def _gap(gap: int, name: str) -> int:
    if isinstance(gap, bool) or not isinstance(gap, int) or gap <= 0:
        raise ArgumentError(
            f"{name} parameters must satisfy 0 < size: it is {gap!r} milliseconds; write "
            f"{name}.with_gap(Time.seconds(10))"
        )
    return gap
