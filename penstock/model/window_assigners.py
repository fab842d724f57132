"""Window assigners: the windows that each element belongs to."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from penstock.errors import ArgumentError, UsageError
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.time import MIN_WATERMARK, Duration, Time, TimeSpan, milliseconds
from penstock.model.type_information import scalar
from penstock.model.window_triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from penstock.model.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    time_window,
)

T = TypeVar("T")
W = TypeVar("W")
CW = TypeVar("CW")


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each element to any number of windows."""

    class WindowAssignerContext(ABC):
        """The current time, and the runtime context of the operator."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Facts about the subtask, and state of the current key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: "WindowAssigner.WindowAssignerContext"
    ) -> Collection[W]:
        """The windows of an element."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger that is used if the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> Any:
        """How the windows are stored: a TimeWindowSerializer, for example."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end in event time."""


Context = WindowAssigner.WindowAssignerContext


class MergingWindowAssigner(WindowAssigner[T, W]):
    """A window assigner whose windows are merged, as sessions are."""

    class MergeCallback(ABC, Generic[CW]):
        """Takes the groups of windows that are merged."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[CW], merge_result: CW) -> None:
            """Merge these windows into one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: "MergingWindowAssigner.MergeCallback[W]") -> None:
        """Call `callback.merge` for each group of windows that must be merged."""


class SessionWindowTimeGapExtractor(ABC):
    """Determines the gap of a session from each element."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """How many milliseconds after this element a session ends."""


class TumblingEventTimeWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size, one after the other, in event time."""

    def __init__(self, size: int, offset: int) -> None:
        _check_tumbling(type(self).__name__, size, offset)
        self.size = size
        self.offset = offset

    @staticmethod
    def of(size: TimeSpan, offset: TimeSpan | None = None) -> "TumblingEventTimeWindows[Any]":
        """Windows of a size, whose starts are shifted by an offset."""
        return TumblingEventTimeWindows(span_ms(size), span_ms(offset))

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """The window of the element's timestamp."""
        return _tumbling(require_time(timestamp), self.size, self.offset)

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
        return f"TumblingEventTimeWindows({self.size}, {self.offset})"


class TumblingProcessingTimeWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size, one after the other, in processing time."""

    def __init__(self, size: int, offset: int) -> None:
        _check_tumbling(type(self).__name__, size, offset)
        self.size = size
        self.offset = offset

    @staticmethod
    def of(size: TimeSpan, offset: TimeSpan | None = None) -> "TumblingProcessingTimeWindows[Any]":
        """Windows of a size, whose starts are shifted by an offset."""
        return TumblingProcessingTimeWindows(span_ms(size), span_ms(offset))

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """The window of the current processing time."""
        return _tumbling(context.get_current_processing_time(), self.size, self.offset)

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
        return f"TumblingProcessingTimeWindows({self.size}, {self.offset})"


class SlidingEventTimeWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size that start at every multiple of a slide, in event time."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        _check_sliding(type(self).__name__, size, slide, offset)
        self.size = size
        self.slide = slide
        self.offset = offset

    @staticmethod
    def of(size: TimeSpan, slide: TimeSpan, offset: TimeSpan | None = None) -> "SlidingEventTimeWindows[Any]":
        """Windows of a size that start every `slide`, shifted by an offset."""
        return SlidingEventTimeWindows(span_ms(size), span_ms(slide), span_ms(offset))

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """The windows that contain the element's timestamp, the latest one first."""
        return _sliding(require_time(timestamp), self.size, self.slide, self.offset)

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
        return f"SlidingEventTimeWindows({self.size}, {self.slide}, {self.offset})"


class SlidingProcessingTimeWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size that start at every multiple of a slide, in processing time."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        _check_sliding(type(self).__name__, size, slide, offset)
        self.size = size
        self.slide = slide
        self.offset = offset

    @staticmethod
    def of(size: TimeSpan, slide: TimeSpan, offset: TimeSpan | None = None) -> "SlidingProcessingTimeWindows[Any]":
        """Windows of a size that start every `slide`, shifted by an offset."""
        return SlidingProcessingTimeWindows(span_ms(size), span_ms(slide), span_ms(offset))

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[TimeWindow]:
        """The windows that contain the current processing time, the latest one first."""
        return _sliding(context.get_current_processing_time(), self.size, self.slide, self.offset)

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
        return f"SlidingProcessingTimeWindows({self.size}, {self.slide}, {self.offset})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """One window for all elements of a key. Without a trigger it never fires."""

    @staticmethod
    def create() -> "GlobalWindows[Any]":
        """The assigner."""
        return GlobalWindows()

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[GlobalWindow]:
        """The one window."""
        return [GlobalWindow()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        """NeverTrigger."""
        return NeverTrigger()  # type: ignore[return-value]  # it takes any window

    def get_window_serializer(self) -> GlobalWindowSerializer:
        """GlobalWindowSerializer."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """No."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


class CountTumblingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of a number of elements of a key, one after the other."""

    def __init__(self, window_size: int) -> None:
        self.window_size = _count(window_size, "size")
        self.state_desc = ValueStateDescriptor("tumble-count-assigner", scalar("LONG"))
        self._state: Any = None

    @staticmethod
    def of(window_size: int) -> "CountTumblingWindowAssigner[Any]":
        """Windows of so many elements."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[CountWindow]:
        """The window that is being filled."""
        if self._state is None:
            self._state = context.get_runtime_context().get_state(self.state_desc)
        count = self._state.value() or 0
        self._state.update(count + 1)
        return [CountWindow(count // self.window_size)]

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """CountTrigger."""
        return CountTrigger(self.window_size)  # type: ignore[return-value]  # it takes any window

    def get_window_serializer(self) -> CountWindowSerializer:
        """CountWindowSerializer."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """No."""
        return False

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.window_size})"


class CountSlidingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of a number of elements of a key, one of which starts after every `window_slide` elements."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self.window_size = _count(window_size, "size")
        self.window_slide = _count(window_slide, "slide")
        self.state_desc = ValueStateDescriptor("slide-count-assigner", scalar("LONG"))
        self._state: Any = None

    @staticmethod
    def of(window_size: int, window_slide: int) -> "CountSlidingWindowAssigner[Any]":
        """Windows of so many elements, each so many elements after the last one."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: T, timestamp: int, context: Context) -> list[CountWindow]:
        """The windows that are being filled, the latest one first."""
        if self._state is None:
            self._state = context.get_runtime_context().get_state(self.state_desc)
        count = self._state.value() or 0
        self._state.update(count + 1)
        last = count // self.window_slide
        first = max(0, (count - self.window_size) // self.window_slide + 1)
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """CountTrigger."""
        return CountTrigger(self.window_size)  # type: ignore[return-value]  # it takes any window

    def get_window_serializer(self) -> CountWindowSerializer:
        """CountWindowSerializer."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """No."""
        return False

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.window_size}, {self.window_slide})"


def span_ms(span: TimeSpan | None) -> int:
    """A duration of a window in milliseconds; an offset may be negative."""
    if span is None:
        return 0
    if isinstance(span, Time | Duration):
        return span.to_milliseconds()
    if isinstance(span, timedelta):
        return span // timedelta(milliseconds=1)
    try:
        return milliseconds(span)
    except UsageError:
        raise ArgumentError(f"{span!r} is not a duration of a window; give a Time, such as Time.seconds(10)") from None


def _check_tumbling(name: str, size: int, offset: int) -> None:
    if not (_is_int(size) and _is_int(offset) and size > 0 and abs(offset) < size):
        raise ArgumentError(
            f"{name} parameters must satisfy abs(offset) < size: size is {size!r} and offset {offset!r}, in "
            f"milliseconds; write {name}.of(Time.seconds(10))"
        )


def _check_sliding(name: str, size: int, slide: int, offset: int) -> None:
    if not (_is_int(size) and _is_int(slide) and _is_int(offset) and size > 0 and abs(offset) < slide):
        raise ArgumentError(
            f"{name} parameters must satisfy abs(offset) < slide and size > 0: size is {size!r}, slide {slide!r} and "
            f"offset {offset!r}, in milliseconds; write {name}.of(Time.seconds(10), Time.seconds(5))"
        )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: int, what: str) -> int:
    if not _is_int(value) or value < 1:
        raise ArgumentError(f"the {what} of a count window is {value!r}; give a number of elements of 1 or more")
    return value


def require_time(timestamp: int | None) -> int:
    """The timestamp of a record; an error if it has none."""
    if timestamp is None or timestamp <= MIN_WATERMARK:
        raise UsageError(
            "a record without a timestamp came to an event-time window; did you forget to call "
            "assign_timestamps_and_watermarks(...), or from_dataframe(..., event_time=...)?"
        )
    return timestamp


def _tumbling(time: int, size: int, offset: int) -> list[TimeWindow]:
    start = time - (time - offset) % size
    return [time_window(start, size)]


def _sliding(time: int, size: int, slide: int, offset: int) -> list[TimeWindow]:
    last = time - (time - offset) % slide
    return [time_window(start, size) for start in range(last, time - size, -slide)]
