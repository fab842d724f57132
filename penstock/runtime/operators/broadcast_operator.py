"""Operators on two streams of which one is broadcast: every subtask gets all of its records (features C4)."""

from collections.abc import Callable
from typing import Any

from penstock.errors import UsageError
from penstock.graph.job_graph import OperatorPlan
from penstock.graph.pickling import loads
from penstock.model.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.model.descriptors import MapStateDescriptor, StateDescriptor
from penstock.model.functions import TimerService
from penstock.model.operator_state import BroadcastState, ReadOnlyBroadcastState
from penstock.model.state import State
from penstock.model.time import TimeDomain
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import OperatorContext, OperatorTimers
from penstock.runtime.operators.record_operators import Operator, Output, fire_timers
from penstock.state.operator.operator_handles import ReadOnlyView


class BroadcastStates:
    """The states that the program named in `broadcast(...)`, for one operator in one subtask."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        descriptors: list[MapStateDescriptor] = loads(plan.config["descriptors"])
        store = context.operator_states
        self._states = {descriptor.name: store.get_broadcast_state(descriptor) for descriptor in descriptors}
        self._views = {name: ReadOnlyView(state, name) for name, state in self._states.items()}

    def get(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The state for the broadcast side, which may change it."""
        return self._states[self._known(descriptor)]

    def view(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """The state for the other side, which may only read it."""
        return self._views[self._known(descriptor)]

    def _known(self, descriptor: MapStateDescriptor) -> str:
        if descriptor.name not in self._states:
            raise UsageError(
                "The requested state does not exist. Check for typos in your state descriptor, or specify the state "
                "descriptor in the datastream.broadcast(...) call if you forgot to register it. "
                f"Asked for: {descriptor.name!r}; known: {sorted(self._states)}"
            )
        return descriptor.name


class CurrentTime:
    """The times of the current record or timer; one object per operator, reused for every record."""

    def __init__(self, timers: OperatorTimers) -> None:
        self.timers = timers
        self.timestamp: int | None = None
        self.domain = TimeDomain.EVENT_TIME


KeyedWriting = KeyedBroadcastProcessFunction.Context
Writing = BroadcastProcessFunction.Context


class WritingContext(KeyedWriting, Writing):
    """The context of the broadcast side, which may change the state."""

    def __init__(self, states: BroadcastStates, now: CurrentTime, operator: OperatorContext) -> None:
        self._states = states
        self._now = now
        self._operator = operator

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._states.get(state_descriptor)

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, State], None]) -> None:
        backend = self._operator.backend()
        handle = backend.table(state_descriptor)
        to_user_key = backend.key_codec.to_user_key
        try:
            for key in backend.keys_with(state_descriptor.name):
                backend.keys.key = key
                function(to_user_key(key), handle)
        finally:
            backend.keys.clear()

    def timestamp(self) -> int | None:
        return self._now.timestamp

    def current_processing_time(self) -> int:
        return self._now.timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._now.timers.current_watermark()


class ReadingContext(KeyedBroadcastProcessFunction.OnTimerContext, BroadcastProcessFunction.ReadOnlyContext):
    """The context of the other side and of timers, which may only read the state."""

    def __init__(self, states: BroadcastStates, now: CurrentTime, operator: OperatorContext) -> None:
        self._states = states
        self._now = now
        self._operator = operator

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._states.view(state_descriptor)

    def timer_service(self) -> TimerService:
        return self._now.timers

    def get_current_key(self) -> Any:
        backend = self._operator.backend()
        return backend.key_codec.to_user_key(backend.keys.key)

    def time_domain(self) -> TimeDomain:
        return self._now.domain

    def timestamp(self) -> int | None:
        return self._now.timestamp

    def current_processing_time(self) -> int:
        return self._now.timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._now.timers.current_watermark()


class BroadcastOperator(Operator):
    """A BroadcastProcessFunction or, on a keyed stream, a KeyedBroadcastProcessFunction with state and timers."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        service = OperatorTimers(self, context.backend() if plan.keyed else None)
        self.timers = service if plan.keyed else None
        self._now = CurrentTime(service)
        self._broadcast_positions = frozenset(plan.config["broadcast_inputs"])

    def open(self) -> None:
        states = BroadcastStates(self.plan, self.context)
        self._writing = WritingContext(states, self._now, self.context)
        self._reading = ReadingContext(states, self._now, self.context)
        super().open()

    def process_from(self, position: int, batch: Batch) -> Batch | None:
        if position not in self._broadcast_positions:
            return self.process(batch)
        if self.plan.keyed:
            self.context.current_key().clear()
        out, now = Output(batch.timestamps, "process_broadcast_element"), self._now
        call, context = self.function.process_broadcast_element, self._writing
        timestamps = batch.timestamps or [None] * len(batch)
        for record, now.timestamp in zip(self._each(batch), timestamps, strict=True):
            out.extend(call(record, context))
        return out.batch()

    def process(self, batch: Batch) -> Batch | None:
        out, now = Output(batch.timestamps), self._now
        call, context = self.function.process_element, self._reading
        timestamps = batch.timestamps or [None] * len(batch)
        if not self.plan.keyed:
            for record, now.timestamp in zip(self._each(batch), timestamps, strict=True):
                out.extend(call(record, context))
            return out.batch()
        keys = self.context.current_key()
        for record, keys.key, now.timestamp in zip(self._each(batch), batch.keys or (), timestamps, strict=True):
            out.extend(call(record, context))
        return out.batch()

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        if self.timers is None:
            return None
        self._records = None
        return fire_timers(self.timers.fire(watermark, now_ms), self._on_timer)

    def _on_timer(self, timestamp: int, domain: TimeDomain) -> Any:
        self._now.timestamp, self._now.domain = timestamp, domain
        return self.function.on_timer(timestamp, self._reading)
