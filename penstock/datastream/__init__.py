"""What a program imports: the environment, streams, and the interfaces of its functions."""

from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.collect import CloseableIterator
from penstock.datastream.data_stream import DataStream
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.environment import StreamExecutionEnvironment
from penstock.datastream.job_client import JobClient
from penstock.datastream.keyed_stream import KeyedStream
from penstock.model.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    TimerService,
)
from penstock.model.job import CheckpointingMode, ExternalizedCheckpointRetention, RuntimeExecutionMode
from penstock.model.time import TimeDomain

__all__ = [
    "AggregateFunction",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "DataStream",
    "DataStreamSink",
    "ExternalizedCheckpointRetention",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "JobClient",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimerService",
]
