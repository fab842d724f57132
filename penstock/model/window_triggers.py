"""Triggers: when the contents of a window are evaluated, and when they are dropped.

A trigger object serves all keys and windows of a subtask. What it must remember of a window it keeps in
`TriggerContext.get_partitioned_state`.
"""

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.errors import ArgumentError
from penstock.model.descriptors import ReducingStateDescriptor, StateDescriptor
from penstock.model.state import State
from penstock.model.time import TimeSpan, milliseconds
from penstock.model.type_information import scalar
from penstock.model.windows import TimeWindow, Window

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """What happens to a window. A window without contents is never evaluated."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window is evaluated."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether its contents are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides for each element and timer whether a window is evaluated."""

    class TriggerContext(ABC):
        """The current times, and timers and state of the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """The metric group of the operator."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The current event-time watermark."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Call `on_processing_time` for this window once processing time reaches `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Call `on_event_time` for this window once the watermark reaches `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Remove a processing-time timer of this window, if it exists."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Remove an event-time timer of this window, if it exists."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """State of this key and window."""

    class OnMergeContext(TriggerContext):
        """The context of `on_merge`."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge a state of the windows that were merged into that of the new window."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Called for every element that was added to a window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Called when a processing-time timer of the trigger fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Called when an event-time timer of the trigger fires."""

    def can_merge(self) -> bool:
        """Whether the trigger has an `on_merge` that works, so that it can be used with session windows."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: "Trigger.OnMergeContext") -> None:
        """Called when windows were merged into `window`: register its timers and merge the trigger's state."""

    @abstractmethod
    def clear(self, window: W, ctx: "Trigger.TriggerContext") -> None:
        """Delete timers and state of a window that is removed."""


Context = Trigger.TriggerContext
MergeContext = Trigger.OnMergeContext
CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


class EventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and again for each late element that is allowed."""

    @staticmethod
    def create() -> "EventTimeTrigger[Any]":
        """The trigger."""
        return EventTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Fire if the watermark has passed the window's end; otherwise wait for it."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Fire at the window's end."""
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: TimeWindow, ctx: MergeContext) -> None:
        """Wait for the end of the new window, unless it has passed: then the element that merged them fires it."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Context) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when processing time passes the end of the window."""

    @staticmethod
    def create() -> "ProcessingTimeTrigger[Any]":
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Wait for the window's end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Fire."""
        return FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: TimeWindow, ctx: MergeContext) -> None:
        """Wait for the end of the new window."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Context) -> None:
        """Delete the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class ContinuousEventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires repeatedly while the watermark advances through the window, and at its end."""

    def __init__(self, interval: int) -> None:
        self.interval = _interval_ms(interval, "ContinuousEventTimeTrigger")
        self.state_desc = ReducingStateDescriptor("fire-time", min, scalar("LONG"))

    @staticmethod
    def of(interval: TimeSpan) -> "ContinuousEventTimeTrigger[Any]":
        """A trigger that fires at every multiple of this duration."""
        return ContinuousEventTimeTrigger(_interval_ms(interval, "ContinuousEventTimeTrigger"))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Fire if the watermark has passed the window's end; otherwise wait for the next interval."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if _fire_time(ctx, self.state_desc).get() is None:
            self._wait(timestamp - timestamp % self.interval, window, ctx)
        return CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Fire at the end of an interval and at the window's end."""
        if time == window.max_timestamp():
            return FIRE
        state = _fire_time(ctx, self.state_desc)
        if state.get() != time:
            return CONTINUE
        state.clear()
        self._wait(time, window, ctx)
        return FIRE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: TimeWindow, ctx: MergeContext) -> None:
        """Keep the earliest of the next firings."""
        ctx.merge_partitioned_state(self.state_desc)
        next_time = _fire_time(ctx, self.state_desc).get()
        if next_time is not None:
            ctx.register_event_time_timer(next_time)

    def clear(self, window: TimeWindow, ctx: Context) -> None:
        """Delete the next firing."""
        state = _fire_time(ctx, self.state_desc)
        next_time = state.get()
        if next_time is not None:
            ctx.delete_event_time_timer(next_time)
            state.clear()

    def _wait(self, time: int, window: TimeWindow, ctx: Context) -> None:
        next_time = min(time + self.interval, window.max_timestamp())
        _fire_time(ctx, self.state_desc).add(next_time)
        ctx.register_event_time_timer(next_time)


class ContinuousProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires repeatedly while processing time passes."""

    def __init__(self, interval: int) -> None:
        self.interval = _interval_ms(interval, "ContinuousProcessingTimeTrigger")
        self.state_desc = ReducingStateDescriptor("fire-time", min, scalar("LONG"))

    @staticmethod
    def of(interval: TimeSpan) -> "ContinuousProcessingTimeTrigger[Any]":
        """A trigger that fires at every multiple of this duration."""
        return ContinuousProcessingTimeTrigger(_interval_ms(interval, "ContinuousProcessingTimeTrigger"))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Wait for the next interval."""
        if _fire_time(ctx, self.state_desc).get() is None:
            now = ctx.get_current_processing_time()
            self._wait(now - now % self.interval, window, ctx)
        return CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Fire at the end of an interval."""
        state = _fire_time(ctx, self.state_desc)
        if state.get() != time:
            return CONTINUE
        state.clear()
        if time < window.max_timestamp():  # the end of an event-time window may be long past
            self._wait(time, window, ctx)
        return FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: TimeWindow, ctx: MergeContext) -> None:
        """Keep the earliest of the next firings."""
        ctx.merge_partitioned_state(self.state_desc)
        next_time = _fire_time(ctx, self.state_desc).get()
        if next_time is not None:
            ctx.register_processing_time_timer(next_time)

    def clear(self, window: TimeWindow, ctx: Context) -> None:
        """Delete the next firing."""
        state = _fire_time(ctx, self.state_desc)
        next_time = state.get()
        if next_time is not None:
            ctx.delete_processing_time_timer(next_time)
            state.clear()

    def _wait(self, time: int, window: TimeWindow, ctx: Context) -> None:
        next_time = min(time + self.interval, window.max_timestamp())
        _fire_time(ctx, self.state_desc).add(next_time)
        ctx.register_processing_time_timer(next_time)


class PurgingTrigger(Trigger[T, Window]):
    """Another trigger, with the difference that a window is emptied whenever it fires."""

    def __init__(self, nested_trigger: Trigger[T, Any]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise ArgumentError(f"PurgingTrigger.of() takes a Trigger, not {nested_trigger!r}")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, Any]) -> "PurgingTrigger[T]":
        """A purging form of a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Context) -> TriggerResult:
        """What the nested trigger decides; a firing window is purged."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Context) -> TriggerResult:
        """What the nested trigger decides; a firing window is purged."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Context) -> TriggerResult:
        """What the nested trigger decides; a firing window is purged."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """As the nested trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: MergeContext) -> None:
        """As the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Context) -> None:
        """As the nested trigger."""
        self.nested_trigger.clear(window, ctx)


class CountTrigger(Trigger[T, Window]):
    """Fires when a window has got a number of elements, and again after as many more."""

    def __init__(self, window_size: int) -> None:
        if isinstance(window_size, bool) or not isinstance(window_size, int) or window_size < 1:
            raise ArgumentError(f"CountTrigger.of() takes a number of elements of 1 or more, not {window_size!r}")
        self.window_size = window_size
        self.state_desc = ReducingStateDescriptor("count", _add, scalar("LONG"))

    @staticmethod
    def of(window_size: int) -> "CountTrigger[Any]":
        """A trigger that fires for every so many elements."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Context) -> TriggerResult:
        """Count the element."""
        count: Any = ctx.get_partitioned_state(self.state_desc)
        count.add(1)
        if count.get() < self.window_size:
            return CONTINUE
        count.clear()
        return FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: Window, ctx: MergeContext) -> None:
        """Add up the counts."""
        ctx.merge_partitioned_state(self.state_desc)

    def clear(self, window: Window, ctx: Context) -> None:
        """Delete the count."""
        ctx.get_partitioned_state(self.state_desc).clear()


class NeverTrigger(Trigger[T, Window]):
    """Never fires. It is the default trigger of GlobalWindows."""

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Context) -> TriggerResult:
        """Nothing to do."""
        return CONTINUE

    def on_merge(self, window: Window, ctx: MergeContext) -> None:
        """Nothing to do."""

    def clear(self, window: Window, ctx: Context) -> None:
        """Nothing to do."""


def trigger_states(trigger: Trigger[Any, Any]) -> list[StateDescriptor]:
    """The states of a trigger of this module, known before it is first called."""
    if isinstance(trigger, PurgingTrigger):
        return trigger_states(trigger.nested_trigger)
    if isinstance(trigger, ContinuousEventTimeTrigger | ContinuousProcessingTimeTrigger | CountTrigger):
        return [trigger.state_desc]
    return []


def _fire_time(ctx: Context, descriptor: ReducingStateDescriptor) -> Any:
    """The state that holds when the window fires next."""
    return ctx.get_partitioned_state(descriptor)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


def _add(first: int, second: int) -> int:
    return first + second


def _interval_ms(interval: TimeSpan, what: str) -> int:
    interval_ms = milliseconds(interval)
    if interval_ms < 1:
        raise ArgumentError(f"{what} takes an interval of 1 millisecond or more, not {interval!r}")
    return interval_ms
