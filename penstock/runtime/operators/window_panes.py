"""The contents of the windows of one operator: added to, evaluated, and removed.

`WindowPanes` handles an element or a timer of one key and window, for every kind of window.
"""

from collections.abc import Callable
from typing import Any

from penstock.graph.window_operation import WindowOperation
from penstock.model.descriptors import StateDescriptor
from penstock.model.state import ListState
from penstock.model.time import MAX_WATERMARK, TimeDomain
from penstock.model.window_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from penstock.model.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.model.window_triggers import CountTrigger, TriggerResult, trigger_states
from penstock.model.windows import TimeWindow, WindowSerializer
from penstock.runtime.operators.record_operators import SINGLE_RECORDS, refuse, require_iterable
from penstock.runtime.operators.window_contexts import (
    FunctionContext,
    NoWindowState,
    TriggerContext,
    WindowClock,
    WindowStates,
    WindowStateStore,
)
from penstock.runtime.operators.window_timers import WindowTimers
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.value_guard import guard_of, is_plain_value


class WindowPanes:
    """What the operator does with one key and window, as its trigger decides."""

    def __init__(
        self, operator: Any, operation: WindowOperation, serializer: WindowSerializer[Any], timers: WindowTimers
    ) -> None:
        backend: KeyedBackend = operator.context.backend()
        clock = WindowClock(operator)
        states = WindowStates(backend, serializer.namespace_type)
        self.contents: Any = states.get(operation.contents)
        for descriptor in trigger_states(operation.trigger):
            states.get(descriptor)
        for descriptor in _assigner_states(operation):
            backend.table(descriptor)
        self._copy = None if operation.combine is None else guard_of(operator.plan.input_type).load
        """None if records cannot be changed, or are kept in lists, which copy them."""
        self.is_event_time = operation.assigner.is_event_time()
        self.serializer = serializer
        self.timers = timers
        self._trigger = operation.trigger
        self._trigger_context = TriggerContext(clock, timers, states, operator.context)
        self._lateness_ms = operation.allowed_lateness_ms
        self._backend = backend
        self._cleanup_timers = timers.event if self.is_event_time else timers.processing
        self._complete_once_fired = _is_count_window(operation)
        window_state = NoWindowState() if operation.merges else WindowStateStore(states)
        context = FunctionContext(clock, window_state, operator.context)
        self._evaluate = evaluation(operation, backend, context, is_list=isinstance(self.contents, ListState))
        self._clear_function = _clearing(operation, context)

    def cleanup_time(self, window: Any) -> int:
        """The time at which a window is removed; MAX_WATERMARK means never."""
        end: int = window.max_timestamp()
        return min(end + self._lateness_ms, MAX_WATERMARK) if self.is_event_time else end

    def add(self, record: Any, timestamp: int, window: Any, place: Any, out: "WindowOutput") -> None:
        """Add a record of the current key to a window whose contents are in the namespace `place`."""
        backend, namespace = self._backend, self.serializer.to_namespace(window)
        backend.set_current_namespace(place)
        self.contents.add(record)
        backend.set_current_namespace(namespace)
        result = self._trigger.on_element(record, timestamp, window, self._trigger_context)
        self._obey(result, window, place, timestamp, out)
        backend.set_current_namespace(namespace)
        cleanup = self.cleanup_time(window)
        if cleanup < MAX_WATERMARK:
            self._cleanup_timers.register(cleanup)
        elif self._complete_once_fired and result is TriggerResult.FIRE:
            self.remove(window, place)

    def copy_of(self, record: Any) -> Callable[[Any], Any] | None:
        """What makes a window's own copy of a record, because a function may change what it combines; None: no need."""
        return None if self._copy is None or is_plain_value(record) else self._copy

    def on_timer(self, timestamp: int, domain: TimeDomain, window: Any, place: Any, out: "WindowOutput") -> bool:
        """Handle a timer of the current key and a window. Returns whether the window is removed."""
        self._backend.set_current_namespace(self.serializer.to_namespace(window))
        is_event = domain is TimeDomain.EVENT_TIME
        call = self._trigger.on_event_time if is_event else self._trigger.on_processing_time
        self._obey(call(timestamp, window, self._trigger_context), window, place, timestamp, out)
        if is_event != self.is_event_time or timestamp != self.cleanup_time(window):
            return False
        self.remove(window, place)
        return True

    def _obey(self, result: TriggerResult, window: Any, place: Any, timestamp: int, out: "WindowOutput") -> None:
        """Apply the trigger's decision."""
        fires, purges = result.value
        if fires:
            self.evaluate(window, place, timestamp, out)
        if purges:
            self._backend.set_current_namespace(place)
            self.contents.clear()

    def evaluate(self, window: Any, place: Any, timestamp: int, out: "WindowOutput") -> None:
        """Emit the result of a window of the current key."""
        backend = self._backend
        backend.set_current_namespace(place)
        contents = self.contents.get()
        if contents is None or (contents == [] and isinstance(self.contents, ListState)):
            return
        backend.set_current_namespace(self.serializer.to_namespace(window))
        out.extend(self._evaluate(window, contents), window.end - 1 if isinstance(window, TimeWindow) else timestamp)

    def emit(self, window: TimeWindow, contents: Any, out: "WindowOutput") -> None:
        """Emit the result of a window of the current key whose contents are not in the state."""
        if contents is not None:
            out.extend(self._evaluate(window, contents), window.end - 1)

    def remove(self, window: Any, place: Any) -> None:
        """Remove a window of the current key."""
        backend = self._backend
        backend.set_current_namespace(place)
        self.contents.clear()
        backend.set_current_namespace(self.serializer.to_namespace(window))
        self._trigger.clear(window, self._trigger_context)
        if self._clear_function is not None:
            self._clear_function(window)

    def remove_untriggered(self, namespace: Any) -> None:
        """Remove the current key's window in the current namespace, for which the trigger has nothing to clear."""
        self.contents.clear()
        self.clear_function(namespace)

    def clear_function(self, namespace: Any) -> None:
        """Let the window function clear its own state of the current key and namespace."""
        if self._clear_function is not None:
            self._clear_function(self.serializer.to_window(namespace))

    def merge_trigger(self, window: Any, namespace: Any, replaced: list[Any]) -> None:
        """Merge the trigger state of windows, and remove their timers."""
        backend, context = self._backend, self._trigger_context
        backend.set_current_namespace(namespace)
        context.merged = (namespace, replaced)
        self._trigger.on_merge(window, context)
        for old in replaced:
            if old != namespace:
                old_window = self.serializer.to_window(old)
                backend.set_current_namespace(old)
                self._trigger.clear(old_window, context)
                self._cleanup_timers.delete(self.cleanup_time(old_window))


class WindowOutput:
    """What the operator emits, each record with its timestamp."""

    __slots__ = ("records", "timestamps")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int | None] = []

    def append(self, value: Any, timestamp: int) -> None:
        """Add the contents of a window as its result, unless it is empty."""
        if value is not None:
            self.records.append(value)
            self.timestamps.append(timestamp)

    def extend(self, emitted: Any, timestamp: int | None) -> None:
        """Add the results of a window."""
        if emitted is not None:
            if emitted.__class__ in SINGLE_RECORDS:
                refuse(emitted, "the window function")
            try:
                self.records.extend(emitted)
            except TypeError:
                require_iterable(emitted, "the window function")
                raise
            self.timestamps.extend([timestamp] * (len(self.records) - len(self.timestamps)))


Evaluation = Callable[[Any, Any], Any]
"""The results for a window and its contents, of the current key."""


def evaluation(
    operation: WindowOperation, backend: KeyedBackend, context: FunctionContext, *, is_list: bool
) -> Evaluation:
    """How a window that fires is evaluated. A single value becomes a list of one for the user's function."""
    function: Any = operation.function
    keys, to_user_key = backend.keys, backend.key_codec.to_user_key

    def inputs(contents: Any) -> Any:
        return contents if is_list else [contents]

    def in_context(window: Any) -> FunctionContext:
        context.current = window
        return context

    if isinstance(function, WindowFunction):
        return lambda window, contents: function.apply(to_user_key(keys.key), window, inputs(contents))
    if isinstance(function, AllWindowFunction):
        return lambda window, contents: function.apply(window, inputs(contents))
    if isinstance(function, ProcessWindowFunction):
        return lambda window, contents: function.process(to_user_key(keys.key), in_context(window), inputs(contents))
    if isinstance(function, ProcessAllWindowFunction):
        return lambda window, contents: function.process(in_context(window), inputs(contents))
    return lambda window, contents: inputs(contents)


def _clearing(operation: WindowOperation, context: FunctionContext) -> Callable[[Any], None] | None:
    """Calls the function's own `clear`, if it has one."""
    function = operation.function
    inherited = (ProcessWindowFunction.clear, ProcessAllWindowFunction.clear)
    if not operation.with_context or type(function).clear in inherited:
        return None

    def clear(window: Any) -> None:
        context.current = window
        function.clear(context)

    return clear


def _assigner_states(operation: WindowOperation) -> list[StateDescriptor]:
    assigner = operation.assigner
    if isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
        return [assigner.state_desc]
    return []


def _is_count_window(operation: WindowOperation) -> bool:
    """Return whether a window gets no more elements once it has fired."""
    assigner: Any = operation.assigner
    trigger = operation.trigger
    if type(assigner) not in (CountTumblingWindowAssigner, CountSlidingWindowAssigner):
        return False
    return type(trigger) is CountTrigger and trigger.window_size == assigner.window_size
