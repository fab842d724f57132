"""The interfaces that user functions implement and the contexts they are given, as in PyFlink."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.model.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from penstock.model.time import TimeDomain

if TYPE_CHECKING:
    from penstock.model.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )


class KeyedStateStore(ABC):
    """Gives a function the handles of its keyed state."""

    @abstractmethod
    def get_state(self, state_descriptor: "ValueStateDescriptor") -> ValueState[Any]:
        """The handle of a value state."""

    @abstractmethod
    def get_list_state(self, state_descriptor: "ListStateDescriptor") -> ListState[Any]:
        """The handle of a list state."""

    @abstractmethod
    def get_map_state(self, state_descriptor: "MapStateDescriptor") -> MapState[Any, Any]:
        """The handle of a map state."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: "ReducingStateDescriptor") -> ReducingState[Any]:
        """The handle of a reducing state."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: "AggregatingStateDescriptor") -> AggregatingState[Any, Any]:
        """The handle of an aggregating state."""


class RuntimeContext(KeyedStateStore):
    """What a function learns in `open`: which subtask it is, and its state."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The operator's name."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The operator's parallelism."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """This subtask's number, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the job has been restarted."""

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with subtask number (from 1) and parallelism."""
        index, count = self.get_index_of_this_subtask(), self.get_number_of_parallel_subtasks()
        return f"{self.get_task_name()} ({index + 1}/{count})"

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter."""


class TimerService(ABC):
    """Time, and timers of the current key. Timestamps are milliseconds since 1970."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The epoch's processing time: one value for a whole epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The current event-time watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for this key once processing time reaches the timestamp."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` for this key once the watermark reaches the timestamp."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a processing-time timer of this key; an absent one is fine."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove an event-time timer of this key; an absent one is fine."""


class Function(ABC):  # noqa: B024  (both methods are optional)
    """A user function. `open` runs once per subtask before the first record, `close` after the last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Take state handles and resources."""
        return

    def close(self) -> None:
        """Give resources back."""
        return


class MapFunction(Function):
    """One record in, one out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The record made of `value`."""


class FlatMapFunction(Function):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """An iterable of records, or a generator; None for none."""


class FilterFunction(Function):
    """Keeps some records."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether the record is kept."""


class ReduceFunction(Function):
    """Folds two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The two values combined."""


class KeySelector(Function):
    """Takes the key out of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key; must be the same each time it is asked for the same record."""


class AggregateFunction(Function):
    """Folds values into an accumulator of another type."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value added."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """What the accumulator amounts to."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Two accumulators as one."""


class ProcessFunction(Function):
    """The most general function on a stream without keys."""

    class Context(ABC):
        """What is known about the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time; timers can be registered only on a keyed stream."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event timestamp in milliseconds; None when it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "ProcessFunction.Context") -> Any:
        """Records made of `value`: an iterable or a generator; None for none."""


class KeyedProcessFunction(Function):
    """The most general function on a keyed stream: state and timers."""

    class Context(ABC):
        """What is known about the current record or timer."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time and timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's or timer's timestamp in milliseconds; None when it has none."""

    class OnTimerContext(Context):
        """What is known about a timer that fired."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """The clock by which it fired."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Any:
        """Records made of `value`: an iterable or a generator; None for none."""

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Any:
        """Records made when a timer fires: an iterable or a generator; None for none."""
        return None
