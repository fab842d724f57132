"""`KeyedStream`: a stream partitioned by key, whose functions have state and timers."""

import operator
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from penstock import compat
from penstock.datastream.collect import CloseableIterator
from penstock.datastream.data_stream import DataStream
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.spark_processors import ProcessorCall, add_processor
from penstock.datastream.vectorised import add_deduplicate, add_running
from penstock.errors import ArgumentError, UsageError
from penstock.graph.aggregates import FieldReduce, RecordReduce, resolve_position
from penstock.graph.batch_types import check_batch_types
from penstock.graph.callables import (
    CallableFilter,
    CallableFlatMap,
    CallableMap,
    CallableReduce,
    as_function,
    describe_given,
)
from penstock.graph.job_graph import KEYED_BATCH
from penstock.graph.keyed_records import Unkeyed, pairs_with_keys
from penstock.graph.published_records import PublishedRecords
from penstock.graph.pyflink_plan import VALUES
from penstock.graph.stream_graph import JvmOp, Node
from penstock.model.batch_functions import BatchProcessFunction
from penstock.model.column_aggregates import ColumnAggregate
from penstock.model.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from penstock.model.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from penstock.model.time import TimeSpan
from penstock.model.ttl import StateTtlConfig
from penstock.model.window_assigners import WindowAssigner

if TYPE_CHECKING:
    from penstock.datastream.environment import StreamExecutionEnvironment
    from penstock.datastream.interval_joined import IntervalJoin
    from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream

REDUCE_STATE = "_reduce"
"""The name of the state in which reduce, sum, min and so on keep the value of a key."""


class KeyedStream(DataStream):
    """A stream whose functions have access to the state of each record's key."""

    class AccumulateType(Enum):
        """What `sum`, `min`, `max`, `min_by` and `max_by` do."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(self, environment: "StreamExecutionEnvironment", node: Node, origin: DataStream) -> None:
        super().__init__(environment, node)
        self._origin = origin

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: Any = None) -> DataStream:
        """The results of the function, one for each record. A MapFunction may use keyed state."""
        return self._operator("keyed_map", "Map", as_function(func, MapFunction, CallableMap), output_type)

    def flat_map(self, func: Callable[[Any], Any] | FlatMapFunction, output_type: Any = None) -> DataStream:
        """The records that the function yields for each record. A FlatMapFunction may use keyed state."""
        function = as_function(func, FlatMapFunction, CallableFlatMap)
        return self._operator("keyed_flat_map", "FlatMap", function, output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """The records for which the function returns true. A FilterFunction may use keyed state."""
        function = as_function(func, FilterFunction, CallableFilter)
        return self._operator("keyed_filter", "Filter", function, self.get_type())

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction | BatchProcessFunction, output_type: Any = None
    ) -> DataStream:
        """The records that `func.process_element` yields for each record. It has state and timers.

        A BatchProcessFunction processes the rows of a batch with one call, as Arrow columns.
        """
        if isinstance(func, BatchProcessFunction):
            check_batch_types(self.get_type(), output_type, type(func).__name__)
            return self._operator(KEYED_BATCH, "BATCH PROCESS", func, output_type)
        if not isinstance(func, KeyedProcessFunction):
            raise ArgumentError(
                f"KeyedProcessFunction is required for KeyedStream. The input is {describe_given(func)}; give an "
                f"instance of a subclass of KeyedProcessFunction"
            )
        return self._operator("keyed_process", "KEYED PROCESS", func, output_type)

    def running(self, **aggregates: ColumnAggregate) -> DataStream:
        """For each record the key and the aggregates of all records of its key so far. Computed on columns.

        `orders.key_by("customer").running(total=agg.sum("amount"), n=agg.count())`
        """
        return add_running(self, aggregates)

    def deduplicate(self, ttl: StateTtlConfig | TimeSpan | None = None) -> DataStream:
        """The first record of each key; with a time to live also the first one after it has passed."""
        return add_deduplicate(self, ttl)

    def transform_with_state(
        self,
        processor: Any = None,
        output_type: Any = None,
        output_mode: str = "Append",
        time_mode: str = "None",
        initial_state: Any = None,
        **spark_names: Any,
    ) -> DataStream:
        """Run a StatefulProcessor written for Spark's `transformWithState`, unchanged; returns its rows.

        The time mode is "None", "ProcessingTime" or "EventTime". Spark's names of the parameters are accepted too:
        `statefulProcessor`, `outputStructType` and so on.
        """
        given = {"processor": processor, "output_type": output_type, "output_mode": output_mode}
        given |= {"time_mode": time_mode, "initial_state": initial_state}
        return add_processor(self, ProcessorCall.of("transform_with_state", "rows", given, spark_names))

    def transform_with_state_in_pandas(
        self,
        processor: Any = None,
        output_type: Any = None,
        output_mode: str = "Append",
        time_mode: str = "None",
        initial_state: Any = None,
        **spark_names: Any,
    ) -> DataStream:
        """Run a processor written for `transformWithStateInPandas`, whose rows are pandas DataFrames."""
        given = {"processor": processor, "output_type": output_type, "output_mode": output_mode}
        given |= {"time_mode": time_mode, "initial_state": initial_state}
        return add_processor(self, ProcessorCall.of("transform_with_state_in_pandas", "pandas", given, spark_names))

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """For each record, all records of its key so far, reduced to one record of the same type."""
        return self._reduce("Reduce", as_function(func, ReduceFunction, CallableReduce))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """For each record, the first record of its key with the sum so far in one field."""
        return self._reduce("Sum", FieldReduce(operator.add, self._position(position_to_sum)))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """For each record, the first record of its key with the smallest value so far in one field."""
        return self._reduce("Min", FieldReduce(min, self._position(position_to_min)))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """For each record, the first record of its key with the largest value so far in one field."""
        return self._reduce("Max", FieldReduce(max, self._position(position_to_max)))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """For each record, the record of its key with the smallest value so far in one field; of equals, the first."""
        return self._reduce("Min By", RecordReduce(operator.lt, self._position(position_to_min_by)))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """For each record, the record of its key with the largest value so far in one field; of equals, the first."""
        return self._reduce("Max By", RecordReduce(operator.gt, self._position(position_to_max_by)))

    def as_queryable_state(
        self,
        queryable_state_name: str,
        state_descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None,
    ) -> DataStreamSink:
        """Let queries read the last record of each key under a name, while the job runs.

        With a ReducingStateDescriptor they read all records of the key, reduced to one.
        """
        descriptor = state_descriptor or ValueStateDescriptor(queryable_state_name, self.get_type())
        if not isinstance(descriptor, ValueStateDescriptor | ReducingStateDescriptor):
            raise ArgumentError(
                f"as_queryable_state takes a ValueStateDescriptor or a ReducingStateDescriptor, not {descriptor!r}"
            )
        descriptor.set_queryable(queryable_state_name)
        function = PublishedRecords(descriptor)
        published = self._operator("keyed_process", "Queryable state", function, self.get_type())
        return DataStreamSink(published._node)

    def key_by(
        self,
        key_selector: str | Callable[[Any], Any] | KeySelector,
        key_type: Any = None,
        *more_columns: str,
    ) -> "KeyedStream":
        """The stream partitioned by another key."""
        return self._origin.key_by(key_selector, key_type, *more_columns)

    def union(self, *streams: DataStream) -> DataStream:
        """The records of this stream and of others of the same type, without a key."""
        return self._unkeyed().union(*streams)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program and return each record with its key, as in PyFlink: `Row(f0=key, f1=record)`.

        They come in the order of the stream before `key_by`.
        """
        pairs, pair_type = pairs_with_keys(self._node.payload, self.get_type())
        return self._origin._operator("map", "Key By", pairs, pair_type).execute_and_collect(job_execution_name, limit)

    def interval_join(self, other_stream: "KeyedStream") -> "IntervalJoin":
        """Join this stream with another keyed one: records of the same key with close timestamps. Not in PyFlink."""
        from penstock.datastream.interval_joined import IntervalJoin

        return IntervalJoin(self, other_stream)

    def project(self, *field_indexes: int) -> DataStream:
        """The records reduced to some of their fields, without a key."""
        return self._unkeyed().project(*field_indexes)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> "WindowedStream":
        """The records of each key divided into windows."""
        from penstock.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> "WindowedStream":
        """The records of each key divided into windows of a number of records, one of which starts every `slide`."""
        from penstock.datastream.windowed_stream import WindowedStream, count_windows

        return WindowedStream(self, count_windows(size, slide))

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> "AllWindowedStream":
        """All records of the stream, without a key, divided into windows. One subtask evaluates them."""
        return self._origin.window_all(window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> "AllWindowedStream":
        """All records of the stream, without a key, divided into windows of a number of records."""
        return self._origin.count_window_all(size, slide)

    def shuffle(self) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def rescale(self) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def rebalance(self) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def forward(self) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def global_(self) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def broadcast(self, *broadcast_state_descriptors: Any) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def partition_custom(self, partitioner: Any, key_selector: Any) -> NoReturn:
        """Not supported: the key decides which subtask a record goes to."""
        _fixed_partitioning()

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set parallelism")

    def name(self, name: str) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set name")

    def get_name(self) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        raise UsageError(
            "Get name of KeyedStream is not supported. Call it on the stream that the next operator returns"
        )

    def uid(self, uid: str) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set uid hash")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set max parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set force non-parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Set buffer timeout")

    def start_new_chain(self) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Start new chain")

    def disable_chaining(self) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Disable chaining")

    def slot_sharing_group(self, slot_sharing_group: Any) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Setting slot sharing group")

    def cache(self) -> NoReturn:
        """Not supported: call it on the stream that the next operator returns."""
        _no_operator("Cache")

    def _position(self, position: object) -> int | str:
        return resolve_position(position, self.get_type())

    def _reduce(self, name: str, function: Any) -> DataStream:
        return self._operator("reduce", name, function, self.get_type(), {"state": REDUCE_STATE})

    def _jvm(self, op: JvmOp) -> DataStream:
        raise UsageError(f"{op[0]}() is SQL in the JVM; call it before key_by()")

    def _for_sink(self) -> DataStream:
        return self._unkeyed() if compat.is_installed() else self

    def _values(self) -> DataStream:
        return self._origin

    def _unkeyed(self) -> DataStream:
        """The records for what has no key: in a PyFlink program those of an operator behind the exchange, as there."""
        if not compat.is_installed():
            return self._origin
        return self._operator("map", VALUES, Unkeyed(), self.get_type())


def _fixed_partitioning() -> NoReturn:
    raise UsageError("Cannot override partitioning for KeyedStream. Repartition before key_by(), or after an operator")


def _no_operator(action: str) -> NoReturn:
    raise UsageError(
        f"{action} for KeyedStream is not supported. Call it on the stream that process(), map() or another operator "
        f"returns"
    )
