"""The interfaces that users' functions implement, and the contexts that they get, as in PyFlink."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.model.metric_group import MetricGroup
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
    """What a function gets in `open`: facts about its subtask, and its state."""

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
        """The index of this subtask, counted from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the job has been restarted."""

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with the number of the subtask (counted from 1) and the parallelism."""
        index, count = self.get_index_of_this_subtask(), self.get_number_of_parallel_subtasks()
        return f"{self.get_task_name()} ({index + 1}/{count})"

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter, or the default if it is not set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Registers counters, gauges, meters and distributions of the function."""


class TimerService(ABC):
    """The current time, and the timers of the current key. Timestamps are milliseconds since 1970."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The processing time, which is constant within an epoch."""

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
        """Remove a processing-time timer of this key, if it exists."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove an event-time timer of this key, if it exists."""


class Function(ABC):  # noqa: B024  (both methods are optional)
    """A user's function. Each subtask calls `open` before its first record and `close` after its last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get state handles and acquire resources."""
        return

    def close(self) -> None:
        """Release resources."""
        return

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: Any) -> Any:
            """The class, so that programs may write the types of its records: `class Double(MapFunction[int, int])`."""
            generic = getattr(super(), "__class_getitem__", None)
            return cls if generic is None else generic(types)


class MapFunction(Function):
    """Turns each record into one record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The result for a record."""


class FlatMapFunction(Function):
    """Turns each record into any number of records."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """The results for a record: an iterable or a generator, or None for no records."""


class FilterFunction(Function):
    """Keeps or drops each record."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether the record is kept."""


class ReduceFunction(Function):
    """Combines two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The combination of two values."""


class KeySelector(Function):
    """Extracts the key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key. It must always be the same for the same record."""


class Partitioner(Function):
    """Chooses the subtask that records of a key go to. `open` is not called."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The subtask, from 0 to `num_partitions` - 1."""


class AggregateFunction(Function):
    """Combines values in an accumulator, which may have another type."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value added."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of the accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """The combination of two accumulators."""


class ProcessFunction(Function):
    """The most general function on a stream without a key."""

    class Context(ABC):
        """The current record's timestamp, and the current time."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The current time. Timers can be registered only on a keyed stream."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event timestamp in milliseconds, or None."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "ProcessFunction.Context") -> Any:
        """The results for a record: an iterable or a generator, or None for no records."""


class KeyedProcessFunction(Function):
    """The most general function on a keyed stream, with state and timers."""

    class Context(ABC):
        """The key and the timestamp of the current record or timer, and the current time."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The current time and timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The timestamp of the record or timer in milliseconds, or None."""

    class OnTimerContext(Context):
        """The key and the timestamp of a timer that fired."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether it fired in event time or in processing time."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Any:
        """The results for a record: an iterable or a generator, or None for no records."""

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Any:
        """The results for a timer that fires: an iterable or a generator, or None for no records."""
        return None
