"""What a user's function sees: its runtime context with state, its context of each record, its timers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock import failpoint
from penstock.errors import StateAccessError
from penstock.graph.function_checks import handles_timers, no_on_timer
from penstock.graph.job_graph import KEYED_BATCH, OperatorPlan
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import KeyedProcessFunction, RuntimeContext, TimerService
from penstock.model.metric_group import MetricGroup
from penstock.model.time import TimeDomain
from penstock.runtime.operators.keyed_values import KeyedValues
from penstock.runtime.operators.subtask_metrics import SubtaskMetrics
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.operator.operator_states import OperatorStates
from penstock.state.timers import Timers

NOT_KEYED = (
    "This state is only accessible by functions executed on a KeyedStream. "
    "Write `stream.key_by(…)` before the operator {name!r}, or keep the value in the function itself"
)


@dataclass
class SubtaskInfo:
    """Facts about the subtask that its functions and operators can read; the last ones are those of the epoch."""

    stage_name: str
    index: int
    parallelism: int
    max_parallelism: int
    attempt: int
    now_ms: int = 0
    job_parameters: dict[str, str] = field(default_factory=dict)
    ends_time: bool = False
    """Whether the input, or at least event time, ends with the epoch."""
    metrics: SubtaskMetrics = field(default_factory=SubtaskMetrics)
    is_cancelled: Callable[[], bool] = lambda: False
    """Whether the epoch's run was cancelled."""


class OperatorContext(RuntimeContext):
    """The RuntimeContext of one operator in one subtask."""

    def __init__(
        self,
        plan: OperatorPlan,
        subtask: SubtaskInfo,
        backend: KeyedBackend | None,
        operator_states: OperatorStates | None = None,
    ) -> None:
        self.plan = plan
        self.subtask = subtask
        self.operator_states = operator_states or OperatorStates(plan.uid, subtask.index, None)
        self._backend = backend

    def backend(self) -> KeyedBackend:
        """The operator's keyed state; StateAccessError where there is no key."""
        if self._backend is None:
            raise StateAccessError(NOT_KEYED.format(name=self.plan.name))
        return self._backend

    def current_key(self) -> CurrentKey:
        """Holds the key of the current record."""
        return self.backend().keys

    def reduce_state(self, plan: OperatorPlan) -> Any:
        """The value that a reduce, sum, min … keeps per key."""
        return self.backend().table(ValueStateDescriptor(plan.config["state"], plan.output_type))

    def _table(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, kind):
            raise TypeError(f"expected a {kind.__name__}, got an object of type {type(descriptor).__name__}")
        if self.plan.kind == KEYED_BATCH:
            raise StateAccessError(
                f"{descriptor.name!r} is a {descriptor.kind} state, and the BatchProcessFunction of operator "
                f"{self.plan.name!r} has value states only; use a ValueStateDescriptor, or a KeyedProcessFunction"
            )
        return self.backend().table(descriptor)

    def _values_of_keys(self, descriptor: ValueStateDescriptor) -> KeyedValues:
        """The state of a function that processes batches."""
        if descriptor.value_type.kind != "arrow":
            raise StateAccessError(
                f"state {descriptor.name!r} of operator {self.plan.name!r} has no declared type, and the state of a "
                f"BatchProcessFunction needs one; write ValueStateDescriptor({descriptor.name!r}, Types.LONG()), say"
            )
        return KeyedValues(self.backend().bulk_values(descriptor))

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        if self.plan.kind == KEYED_BATCH and isinstance(state_descriptor, ValueStateDescriptor):
            return self._values_of_keys(state_descriptor)
        return self._table(state_descriptor, ValueStateDescriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        return self._table(state_descriptor, ListStateDescriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        return self._table(state_descriptor, MapStateDescriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        return self._table(state_descriptor, ReducingStateDescriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        return self._table(state_descriptor, AggregatingStateDescriptor)

    def get_task_name(self) -> str:
        return self.subtask.stage_name

    def get_number_of_parallel_subtasks(self) -> int:
        return self.subtask.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self.subtask.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self.subtask.index

    def get_attempt_number(self) -> int:
        return self.subtask.attempt - 1  # the job's attempts are counted from 1, functions count restarts

    def get_task_name_with_subtasks(self) -> str:
        place = f"({self.subtask.index + 1}/{self.subtask.parallelism})"
        return f"{self.subtask.stage_name} {place}#{self.get_attempt_number()}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self.subtask.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self.subtask.metrics.group(self.plan.uid)


class OperatorTimers(TimerService):
    """The timer service of one operator. Without keyed state it only knows the time."""

    def __init__(self, clocks: Any, backend: KeyedBackend | None) -> None:
        self._clocks = clocks
        self._backend = backend
        self.fires = handles_timers(clocks.function)
        """Whether the function handles timers."""
        self._timers: dict[TimeDomain, Timers] = {}
        if backend is not None:
            self._timers = {
                domain: Timers(backend, domain) for domain in (TimeDomain.PROCESSING_TIME, TimeDomain.EVENT_TIME)
            }

    def current_processing_time(self) -> int:
        return int(self._clocks.context.subtask.now_ms)

    def current_watermark(self) -> int:
        return int(self._clocks.watermark)

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._to_register(TimeDomain.PROCESSING_TIME).register(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._to_register(TimeDomain.EVENT_TIME).register(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._of(TimeDomain.PROCESSING_TIME).delete(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._of(TimeDomain.EVENT_TIME).delete(timestamp)

    def fire(self, watermark: int, now_ms: int) -> Iterator[tuple[int, TimeDomain]]:
        """Timers that are due, including those registered meanwhile; the current key is set to that of each."""
        assert self._backend is not None
        keys = self._backend.keys
        for domain, limit in ((TimeDomain.PROCESSING_TIME, now_ms), (TimeDomain.EVENT_TIME, watermark)):
            for timestamp, keys.key in self._timers[domain].due(limit):
                failpoint.before("C7")
                yield timestamp, domain
                failpoint.after("C7")

    def next_timestamp(self, domain: TimeDomain) -> int | None:
        """When the next timer of that domain is due."""
        return self._timers[domain].next_timestamp()

    def _to_register(self, domain: TimeDomain) -> Timers:
        timers = self._of(domain)
        if not self.fires:
            raise StateAccessError(no_on_timer(self._clocks.function))
        return timers

    def _of(self, domain: TimeDomain) -> Timers:
        if self._backend is None:
            raise StateAccessError(
                "Register timers is only supported on a keyed stream. Write `stream.key_by(…).process(…)`"
            )
        return self._timers[domain]


class Context(KeyedProcessFunction.OnTimerContext):
    """The context of one record or one timer; one object per operator, reused for every record."""

    def __init__(self, operator: OperatorContext, timers: OperatorTimers) -> None:
        self._operator = operator
        self._timers = timers
        self._timestamp: int | None = None
        self._domain = TimeDomain.EVENT_TIME

    def set_timestamp(self, timestamp: int | None) -> None:
        """Set the event time of the next record."""
        self._timestamp = timestamp

    def for_timer(self, timestamp: int, domain: TimeDomain) -> "Context":
        """This context, set to a timer that fires."""
        self._timestamp, self._domain = timestamp, domain
        return self

    def get_current_key(self) -> Any:
        backend = self._operator.backend()
        return backend.key_codec.to_user_key(backend.keys.key)

    def timer_service(self) -> TimerService:
        return self._timers

    def timestamp(self) -> Any:
        return self._timestamp

    def time_domain(self) -> TimeDomain:
        return self._domain
