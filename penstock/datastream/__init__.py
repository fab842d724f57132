"""The DataStream API: the environment, streams, and the interfaces of functions."""

from penstock.connectors.two_phase_commit import TwoPhaseCommitSink
from penstock.datastream.async_data_stream import AsyncDataStream
from penstock.datastream.broadcast_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
)
from penstock.datastream.cached_stream import CachedDataStream
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.collect import CloseableIterator
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.current_backends import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from penstock.datastream.data_stream import DataStream
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.environment import StreamExecutionEnvironment
from penstock.datastream.interval_joined import IntervalJoin, IntervalJoined
from penstock.datastream.job_client import JobClient
from penstock.datastream.joined_streams import CoGroupedStreams, JoinedStreams
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.legacy_backends import FsStateBackend, MemoryStateBackend, RocksDBStateBackend
from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream
from penstock.model.async_functions import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from penstock.model.batch_functions import BatchProcessFunction, BatchRuntimeContext, BatchValueState
from penstock.model.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from penstock.model.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.model.execution import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    RuntimeExecutionMode,
)
from penstock.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    TimerService,
)
from penstock.model.join_functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from penstock.model.key_slots import KeySlots
from penstock.model.memory_size import MemorySize
from penstock.model.operator_state import (
    CheckpointedFunction,
    CheckpointListener,
)
from penstock.model.output_tag import OutputTag
from penstock.model.sink_functions import SinkFunction
from penstock.model.slot_sharing_group import SlotSharingGroup
from penstock.model.source_functions import SourceFunction
from penstock.model.time import TimeDomain
from penstock.model.window_assigners import MergingWindowAssigner, WindowAssigner
from penstock.model.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.model.window_triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger, TriggerResult
from penstock.model.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BatchProcessFunction",
    "BatchRuntimeContext",
    "BatchValueState",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "EventTimeTrigger",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "Function",
    "GlobalWindow",
    "HashMapStateBackend",
    "IntervalJoin",
    "IntervalJoined",
    "JobClient",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeySlots",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MemoryStateBackend",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeTrigger",
    "ReduceFunction",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "TwoPhaseCommitSink",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
