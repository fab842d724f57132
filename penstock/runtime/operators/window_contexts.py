"""What window assigners, triggers and window functions see of the operator."""

from collections.abc import Sequence
from typing import Any

from penstock.errors import StateAccessError, UsageError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import KeyedStateStore, RuntimeContext
from penstock.model.state import MergingState
from penstock.model.type_information import TypeInformation
from penstock.model.window_assigners import WindowAssigner
from penstock.model.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from penstock.model.window_triggers import Trigger
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.window_timers import WindowTimers
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.namespace_merging import merge_namespaces


class WindowClock:
    """The watermark of the operator and the time of the running epoch."""

    __slots__ = ("_operator",)

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    @property
    def watermark(self) -> int:
        """The current watermark."""
        return int(self._operator.watermark)

    @property
    def now_ms(self) -> int:
        """The current processing time."""
        return int(self._operator.context.subtask.now_ms)


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The context of `assign_windows`."""

    def __init__(self, clock: WindowClock, context: OperatorContext) -> None:
        self._clock = clock
        self._context = context

    def get_current_processing_time(self) -> int:
        return self._clock.now_ms

    def get_runtime_context(self) -> RuntimeContext:
        return self._context


class WindowStates:
    """The handles of states with a window as namespace. A descriptor is looked up once, not for every record."""

    def __init__(self, backend: KeyedBackend, namespace_type: TypeInformation) -> None:
        self._backend = backend
        self._type = namespace_type
        self._handles: dict[str, tuple[StateDescriptor, Any]] = {}
        """By name, with the descriptor that was last used: a function may make a new one for every call."""

    def get(self, descriptor: StateDescriptor) -> Any:
        """The handle of a state, for the current key and namespace."""
        known = self._handles.get(descriptor.name)
        if known is None or known[0] is not descriptor:
            known = self._handles[descriptor.name] = (descriptor, self._backend.table(descriptor, self._type))
        return known[1]


class TriggerContext(Trigger.OnMergeContext):
    """The context of a trigger. The operator sets the current key and namespace before it calls the trigger."""

    def __init__(
        self, clock: WindowClock, timers: WindowTimers, states: WindowStates, context: OperatorContext
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._states = states
        self._context = context
        self.merged: tuple[Any, Sequence[Any]] = (None, ())
        """In `on_merge`: the namespace of the new window and those of the windows that it replaces."""

    def get_current_processing_time(self) -> int:
        return self._clock.now_ms

    def get_current_watermark(self) -> int:
        return self._clock.watermark

    def get_metric_group(self) -> Any:
        context: Any = self._context
        return context.get_metrics_group()

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.processing.register(time)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.event.register(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.processing.delete(time)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.event.delete(time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._states.get(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self._states.get(state_descriptor)
        if not isinstance(state, MergingState):
            raise UsageError(
                f"The given state descriptor does not refer to a mergeable state (MergingState): "
                f"{state_descriptor!r}; use a list, reducing or aggregating state"
            )
        merge_namespaces(self._context.backend(), state, *self.merged)


class WindowStateStore(KeyedStateStore):
    """`window_state()`: state of the current key and window."""

    def __init__(self, states: WindowStates) -> None:
        self._states = states

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        return self._states.get(_expect(state_descriptor, ValueStateDescriptor))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        return self._states.get(_expect(state_descriptor, ListStateDescriptor))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        return self._states.get(_expect(state_descriptor, MapStateDescriptor))

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        return self._states.get(_expect(state_descriptor, ReducingStateDescriptor))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        return self._states.get(_expect(state_descriptor, AggregatingStateDescriptor))


def _expect(descriptor: StateDescriptor, kind: type[StateDescriptor]) -> StateDescriptor:
    if not isinstance(descriptor, kind):
        raise TypeError(f"expected a {kind.__name__}, got a {type(descriptor).__name__}")
    return descriptor


class NoWindowState(KeyedStateStore):
    """`window_state()` of merging windows, which have no such state."""

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        raise _refused()

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        raise _refused()

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        raise _refused()

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        raise _refused()

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        raise _refused()


def _refused() -> StateAccessError:
    return StateAccessError(
        "Per-window state is not allowed when using merging windows. Use context.global_state(), which belongs to the "
        "key"
    )


KeyedContext = ProcessWindowFunction.Context
UnkeyedContext = ProcessAllWindowFunction.Context


class FunctionContext(KeyedContext[Any], UnkeyedContext[Any]):
    """The context of a window function; one object per operator, reused for every window."""

    def __init__(self, clock: WindowClock, window_state: KeyedStateStore, global_state: KeyedStateStore) -> None:
        self._clock = clock
        self._window_state = window_state
        self._global_state = global_state
        self.current: Any = None
        """The window."""

    def window(self) -> Any:
        return self.current

    def current_processing_time(self) -> int:
        return self._clock.now_ms

    def current_watermark(self) -> int:
        return self._clock.watermark

    def window_state(self) -> KeyedStateStore:
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state
