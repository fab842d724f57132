"""`DataStream`: a stream of records and its operations.

A call adds a node to the environment's StreamGraph and returns the resulting stream; nothing runs before
`env.execute()`. Names and signatures are PyFlink's; `where`, `with_column`, `select`, `to_spark` and `schema` are
additions.
"""

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, overload

import pyarrow as pa

from penstock.connectors.staged.spark_writer import SparkWriterSink
from penstock.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from penstock.datastream.collect import CloseableIterator
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.node_settings import NodeSettings
from penstock.datastream.partitioning import custom_partition, key_by_columns, key_by_function
from penstock.datastream.record_types import (
    check_same_type,
    record_schema,
    schema_tree,
)
from penstock.datastream.sql_steps import sql_step, sql_text
from penstock.errors import ArgumentError, UsageError
from penstock.graph.callables import (
    CallableFilter,
    CallableFlatMap,
    CallableMap,
    as_function,
    describe_given,
)
from penstock.graph.function_checks import check_function, check_writer
from penstock.graph.projection import project
from penstock.graph.side_output import side_output
from penstock.graph.stream_graph import (
    NO_BUFFERS,
    BroadcastTo,
    CustomPartition,
    JvmOp,
    Node,
    NodeKind,
    OperatorSpec,
    PartitionTo,
    SinkSpec,
)
from penstock.model.batch_functions import BatchProcessFunction
from penstock.model.descriptors import MapStateDescriptor
from penstock.model.execution_config import ExecutionConfig
from penstock.model.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from penstock.model.output_tag import OutputTag
from penstock.model.sink import Sink
from penstock.model.sink_functions import SinkFunction
from penstock.model.types import TypeInformation, record_type
from penstock.model.watermark import WatermarkStrategy
from penstock.model.window_assigners import WindowAssigner

if TYPE_CHECKING:
    from penstock.datastream.cached_stream import CachedDataStream
    from penstock.datastream.environment import StreamExecutionEnvironment
    from penstock.datastream.joined_streams import CoGroupedStreams, JoinedStreams
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream

__all__ = [  # as in PyFlink's module of this name
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]


class DataStream(NodeSettings):
    """A stream of records of one type. Environments and other streams create it."""

    def __init__(self, environment: "StreamExecutionEnvironment", node: Node) -> None:
        super().__init__(node)
        self._environment = environment

    def set_max_parallelism(self, max_parallelism: int) -> "DataStream":
        """Set the number of key groups. A job has one such number, so all operators that set it must agree."""
        self._require_operator("set_max_parallelism")
        self._node.max_parallelism = max_parallelism
        return self

    def force_non_parallel(self) -> "DataStream":
        """Run the operator in one subtask, whatever the environment's parallelism is."""
        self.set_parallelism(1)
        self._node.single = True
        return self

    def start_new_chain(self) -> "DataStream":
        """Start a new stage with this operator."""
        self._node.chain_before = False
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> "DataStream":
        """Accepted, without effect: records travel with their epoch. The job prints a line that says so."""
        self._environment._graph.without_effect["set_buffer_timeout()"] = NO_BUFFERS
        return self

    def get_name(self) -> str:
        """The name of the operator that produces this stream."""
        return self._node.name

    def get_type(self) -> TypeInformation:
        """The type of the records."""
        return self._node.output_type

    @property
    def schema(self) -> pa.Schema:
        """The fields of the records as an Arrow schema. Records that are not rows have a single field, `value`."""
        return record_schema(self._node.output_type)

    def print_schema(self) -> None:
        """Print the fields of the records as a tree."""
        print(schema_tree(self._node.output_type), end="")

    def get_execution_environment(self) -> "StreamExecutionEnvironment":
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The environment's execution settings."""
        return self._environment.get_config()

    # Transformations in Python

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: Any = None) -> "DataStream":
        """The results of the function, one for each record."""
        return self._operator("map", "Map", as_function(func, MapFunction, CallableMap), output_type)

    def flat_map(self, func: Callable[[Any], Any] | FlatMapFunction, output_type: Any = None) -> "DataStream":
        """The records that the function yields: any number for each record."""
        return self._operator("flat_map", "FlatMap", as_function(func, FlatMapFunction, CallableFlatMap), output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> "DataStream":
        """The records for which the function returns true."""
        function = as_function(func, FilterFunction, CallableFilter)
        return self._operator("filter", "Filter", function, self.get_type())

    def process(self, func: ProcessFunction, output_type: Any = None) -> "DataStream":
        """The records that `func.process_element` yields: any number for each record."""
        if isinstance(func, KeyedProcessFunction | BatchProcessFunction):
            kind = "KeyedProcessFunction" if isinstance(func, KeyedProcessFunction) else "BatchProcessFunction"
            raise UsageError(f"{type(func).__name__} is a {kind}, which needs a key; call .key_by(...) before .process")
        if not isinstance(func, ProcessFunction):
            raise ArgumentError(
                f"The input must be a ProcessFunction, not {describe_given(func)}; give an instance of a subclass of "
                f"ProcessFunction"
            )
        return self._operator("process", "PROCESS", func, output_type)

    def project(self, *field_indexes: int) -> "DataStream":
        """The records reduced to some of their fields, in the given order."""
        function, output_type = project(self.get_type(), field_indexes)
        return self._operator("map", "Projection", function, output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> "DataStream":
        """The same records with new event timestamps and watermarks."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise ArgumentError(f"The input must be a WatermarkStrategy, not {watermark_strategy!r}")
        config = {
            "out_of_orderness_ms": watermark_strategy.out_of_orderness_ms,
            "idle_after_ms": watermark_strategy.idle_after_ms,
        }
        name = "Timestamps/Watermarks"
        return self._operator("timestamps", name, watermark_strategy, self.get_type(), config)

    # Transformations in the JVM

    def where(self, condition: str) -> "DataStream":
        """The records that meet a SQL condition, evaluated in the JVM."""
        return self._jvm(("where", sql_text(condition, "where")))

    def with_column(self, name: str, expression: str) -> "DataStream":
        """The records with a field added or replaced by a SQL expression, evaluated in the JVM."""
        return self._jvm(("with_column", name, sql_text(expression, "with_column")))

    def select(self, *columns: str) -> "DataStream":
        """The records reduced to columns or SQL expressions, evaluated in the JVM."""
        if not columns:
            raise UsageError(
                'select() needs at least one column, for example select("customer", "amount * 2 as twice")'
            )
        return self._jvm(("select", *(sql_text(column, "select") for column in columns)))

    # Partitioning

    def key_by(
        self,
        key_selector: str | Callable[[Any], Any] | KeySelector,
        key_type: Any = None,
        *more_columns: str,
    ) -> "KeyedStream":
        """The stream partitioned by key. All records of a key share the same state.

        A key is one or more columns, `key_by("a", "b")`, which the JVM hashes, or a function of the record as in
        PyFlink, which costs a pass through Python before the exchange.
        """
        from penstock.datastream.keyed_stream import KeyedStream

        if isinstance(key_selector, str):
            columns = tuple(column for column in (key_selector, key_type, *more_columns) if column is not None)
            key_by = key_by_columns(columns, self.get_type())
        else:
            if more_columns:
                raise UsageError(
                    "key_by() takes column names or one function, not both; for several parts, return a tuple"
                )
            key_by = key_by_function(key_selector, key_type)
        return KeyedStream(self._environment, self._add("key_by", "Key By", key_by, self.get_type()), self)

    def union(self, *streams: "DataStream") -> "DataStream":
        """The records of this stream and of others of the same type, in no particular order."""
        if not streams:
            return self
        inputs = [self._node.id]
        for stream in streams:
            if not isinstance(stream, DataStream) or stream._environment is not self._environment:
                raise UsageError(f"cannot union with {stream!r}; give streams of the same environment")
            check_same_type(self.get_type(), stream.get_type())
            inputs.append(stream._unkeyed()._node.id)
        node = self._environment._graph.add("union", "Union", inputs, None, self.get_type())
        return DataStream(self._environment, node)

    def rebalance(self) -> "DataStream":
        """The same records, distributed evenly over the subtasks of the next operator."""
        return self._partition("Rebalance", PartitionTo("rebalance"))

    def rescale(self) -> "DataStream":
        """The same as `rebalance`."""
        return self._partition("Rescale", PartitionTo("rescale"))

    def shuffle(self) -> "DataStream":
        """The same as `rebalance`: even, but not random, so that a replay distributes records in the same way."""
        return self._partition("Shuffle", PartitionTo("shuffle"))

    def forward(self) -> "DataStream":
        """The same records, each to the same subtask of the next operator, which must have the same parallelism."""
        return self._partition("Forward", PartitionTo("forward"))

    def global_(self) -> "DataStream":
        """The same records, all to the first subtask of the next operator."""
        return self._partition("Global", PartitionTo("global"))

    @overload
    def broadcast(self) -> "DataStream": ...

    @overload
    def broadcast(
        self, descriptor: MapStateDescriptor, /, *broadcast_state_descriptors: MapStateDescriptor
    ) -> BroadcastStream: ...

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> "DataStream | BroadcastStream":
        """The same records, sent to every subtask of the next operator.

        With descriptors of broadcast state, the result is a stream for `connect`.
        """
        node = self._add("partition", "Broadcast", BroadcastTo(), self.get_type())
        if not broadcast_state_descriptors:
            return DataStream(self._environment, node)
        return BroadcastStream(self._environment, node, broadcast_state_descriptors)

    def partition_custom(
        self, partitioner: Callable[[Any, int], int] | Partitioner, key_selector: Callable[[Any], Any] | KeySelector
    ) -> "DataStream":
        """The same records, each to the subtask of the next operator that the partitioner chooses for its key.

        `partitioner(key, num_partitions)` must always return the same for the same arguments.
        """
        config = self._environment.get_checkpoint_config()
        return self._partition("Custom", custom_partition(partitioner, key_selector, config))

    @overload
    def connect(self, ds: "DataStream") -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: "DataStream | BroadcastStream") -> ConnectedStreams | BroadcastConnectedStream:
        """This stream connected with another one, for a function that processes both."""
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if not isinstance(ds, DataStream):
            raise ArgumentError(f"connect() takes a stream, or stream.broadcast(descriptor), not {ds!r}")
        return ConnectedStreams(self, ds)

    def join(self, other_stream: "DataStream") -> "JoinedStreams":
        """Join this stream with another one: pairs of records with the same key in the same window. Not in PyFlink."""
        from penstock.datastream.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: "DataStream") -> "CoGroupedStreams":
        """Group this stream with another one: all records of a key and window together. Not in PyFlink."""
        from penstock.datastream.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> "AllWindowedStream":
        """All records of the stream divided into windows. One subtask evaluates them."""
        from penstock.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> "AllWindowedStream":
        """All records of the stream divided into windows of a number of records. One subtask evaluates them."""
        from penstock.datastream.windowed_stream import AllWindowedStream, count_windows

        return AllWindowedStream(self, count_windows(size, slide))

    def get_side_output(self, output_tag: OutputTag) -> "DataStream":
        """The records that the operator's function yields as `output_tag, value`.

        They leave the operator in its own subtasks: settings for parallelism and chaining are those of the operator.
        """
        spec = side_output(self._environment._graph, self._node, output_tag)
        return DataStream(self._environment, self._add("operator", "Side Output", spec, output_tag.type_info))

    def cache(self) -> "CachedDataStream":
        """The same records, which the first job that uses them keeps for later jobs of the program. Batch mode only."""
        from penstock.datastream.cached_stream import CachedDataStream

        return CachedDataStream(self)

    # Sinks

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every record to the driver's standard output as `subtask> value`, when its epoch commits."""
        return self._sink("Print to Std. Out", SinkSpec("print", sink_identifier))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records to a sink."""
        if not isinstance(sink, Sink):
            hint = (
                "; call .build() on it" if hasattr(sink, "build") else ", such as FileSink.for_bulk_format(...).build()"
            )
            raise ArgumentError(f"sink_to() takes a sink{hint}, not {sink!r}")
        return self._sink("Writer", SinkSpec("sink", sink))

    def add_sink(self, sink_func: SinkFunction | Sink) -> DataStreamSink:
        """Call a SinkFunction for every record, at least once. For a sink with transactions this is `sink_to`."""
        if not isinstance(sink_func, SinkFunction):
            return self.sink_to(sink_func)
        check_function(sink_func, "sink_function")
        spec = OperatorSpec("sink_function", sink_func)
        return DataStreamSink(self._for_sink()._add("operator", "Sink", spec, self.get_type()))

    def to_spark(self, write: Callable[[Any, Any], None], *, exactly_once: bool = False) -> DataStreamSink:
        """Call `write(df, epoch)` in the driver with each epoch's records as a Spark DataFrame, at least once.

        With `exactly_once` the records wait until their checkpoint is complete. After a failure `write` may be called
        again with the same rows and the same `epoch.token`: it must store the token (or `epoch.owner` and
        `epoch.version`) in the same transaction as the rows, and skip rows whose token is stored.
        """
        if not callable(write):
            raise ArgumentError(f"to_spark() takes a function of a DataFrame and an epoch, not {write!r}")
        check_writer(write)
        if not exactly_once:
            return self._sink("Spark", SinkSpec("spark", write))
        from penstock.spark.staged_frames import FrameWriter

        environment = self._environment
        frames = FrameWriter(write, lambda: environment.spark, self.get_type())
        return self._sink("Spark", SinkSpec("sink", SparkWriterSink(frames)))

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program and return this stream's records: an iterator or, with `limit`, a list.

        Close the iterator, or use it in `with`, to end a job whose input does not end.
        """
        node = self._add("sink", "Collect", SinkSpec("collect"), self.get_type())
        node.uid = f"collect-{node.id}"
        handle = self._environment._submit(job_execution_name)
        records = CloseableIterator(handle.collected(node.uid), handle.cancel)
        if limit is None:
            return records
        with records:
            return list(islice(records, limit))

    def _values(self) -> "DataStream":
        """The stream without its key."""
        return self

    def _unkeyed(self) -> "DataStream":
        """The stream for what has no key."""
        return self

    def _for_sink(self) -> "DataStream":
        """The stream for a sink, which gets the records of a key in one subtask."""
        return self

    def _operator(
        self, kind: str, name: str, function: Any, output_type: Any, config: dict[str, Any] | None = None
    ) -> "DataStream":
        check_function(function, kind)
        spec = OperatorSpec(kind, function, config or {})
        return DataStream(self._environment, self._add("operator", name, spec, record_type(output_type)))

    def _partition(self, name: str, payload: PartitionTo | CustomPartition) -> "DataStream":
        return DataStream(self._environment, self._add("partition", name, payload, self.get_type()))

    def _sink(self, name: str, spec: SinkSpec) -> DataStreamSink:
        return DataStreamSink(self._for_sink()._add("sink", name, spec, self.get_type()))

    def _jvm(self, op: JvmOp) -> "DataStream":
        spec, output_type = sql_step(self._node, op)
        return DataStream(self._environment, self._add("jvm", f"{op[0]}({', '.join(op[1:])})", spec, output_type))

    def _add(self, kind: NodeKind, name: str, payload: Any, output_type: TypeInformation) -> Node:
        return self._environment._graph.add(kind, name, [self._node.id], payload, output_type)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream describes a program and cannot be used inside a function that runs in it")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.name!r} of {self._node.output_type.text}>"


def __getattr__(name: str) -> type:
    """Look up names that PyFlink programs import from here. Their modules import this one, so it happens on demand."""
    if name == "KeyedStream":
        from penstock.datastream.keyed_stream import KeyedStream

        return KeyedStream
    if name == "CachedDataStream":
        from penstock.datastream.cached_stream import CachedDataStream

        return CachedDataStream
    if name in ("AllWindowedStream", "WindowedStream"):
        from penstock.datastream import windowed_stream

        return getattr(windowed_stream, name)  # type: ignore[no-any-return]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
