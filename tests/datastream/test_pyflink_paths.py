"""A program's imports work with `penstock` in place of `pyflink`, module by module and name by name.

`PYFLINK` lists the public names of PyFlink's modules (2.3, and what 1.20 still had). A name that is not here yet is in
`MISSING`, with the reason; whoever adds it removes it there.
"""

import importlib
from typing import Any

import pytest

from penstock.common import Row, Time, Types, typeinfo
from penstock.datastream import async_retry_predicates
from penstock.datastream.state import StateTtlConfig

PYFLINK = {
    "common": """AssignerWithPeriodicWatermarksWrapper CompletableFuture ConfigOption ConfigOptions Configuration
        DeserializationSchema Duration Encoder ExecutionConfig ExecutionMode InputDependencyConstraint Instant JobClient
        JobExecutionResult JobID JobStatus RestartStrategies RestartStrategyConfiguration Row RowKind
        SerializationSchema SimpleStringSchema SqlDialect Time TypeInformation Types TypeSerializer
        WatermarkStrategy""",
    "common.completable_future": "CompletableFuture",
    "common.config_options": "ConfigOption ConfigOptions",
    "common.configuration": "Configuration",
    "common.execution_config": "ExecutionConfig",
    "common.execution_mode": "ExecutionMode",
    "common.input_dependency_constraint": "InputDependencyConstraint",
    "common.io": "InputFormat",
    "common.job_client": "JobClient",
    "common.job_execution_result": "JobExecutionResult",
    "common.job_id": "JobID",
    "common.job_status": "JobStatus",
    "common.restart_strategy": "RestartStrategies RestartStrategyConfiguration",
    "common.serialization": "BulkWriterFactory DeserializationSchema Encoder RowDataBulkWriterFactory "
    "SerializationSchema SimpleStringSchema",
    "common.serializer": "TypeSerializer",
    "common.sql_dialect": "SqlDialect",
    "common.time": "Duration Instant Time",
    "common.typeinfo": "TypeInformation Types",
    "common.types": "Row RowKind",
    "common.watermark_strategy": "AssignerWithPeriodicWatermarksWrapper TimestampAssigner WatermarkStrategy",
    "datastream": """AggregateFunction AllWindowFunction AllWindowedStream AsyncDataStream AsyncFunction
        BroadcastConnectedStream BroadcastProcessFunction BroadcastStream CachedDataStream CheckpointConfig
        CheckpointStorage CheckpointingMode CoFlatMapFunction CoMapFunction CoProcessFunction ConnectedStreams
        CountWindow CustomCheckpointStorage CustomStateBackend DataStream DataStreamSink EmbeddedRocksDBStateBackend
        EventTimeTrigger ExternalizedCheckpointCleanup ExternalizedCheckpointRetention FileSystemCheckpointStorage
        FilterFunction FlatMapFunction FsStateBackend GlobalWindow HashMapStateBackend JobManagerCheckpointStorage
        KeySelector KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction KeyedStream MapFunction
        MemorySize MemoryStateBackend MergingWindowAssigner OutputTag Partitioner PredefinedOptions
        ProcessAllWindowFunction ProcessFunction ProcessWindowFunction ProcessingTimeTrigger ReduceFunction
        RocksDBStateBackend RuntimeContext RuntimeExecutionMode SinkFunction SlotSharingGroup SourceFunction
        StateBackend StreamExecutionEnvironment TimeCharacteristic TimeDomain TimeWindow TimerService Trigger
        TriggerResult Window WindowAssigner WindowFunction WindowedStream""",
    "datastream.async_data_stream": "AsyncDataStream",
    "datastream.checkpoint_config": "CheckpointConfig ExternalizedCheckpointCleanup",
    "datastream.checkpoint_storage": "CheckpointStorage CustomCheckpointStorage FileSystemCheckpointStorage "
    "JobManagerCheckpointStorage",
    "datastream.checkpointing_mode": "CheckpointingMode",
    "datastream.connectors": "DeliveryGuarantee FileSink FileSource NumberSequenceSource Sink Source",
    "datastream.connectors.base": "DeliveryGuarantee Sink Source",
    "datastream.connectors.file_system": "BucketAssigner BulkFormat FileEnumeratorProvider FileSink FileSource "
    "FileSourceBuilder FileSplitAssignerProvider OutputFileConfig RollingPolicy StreamFormat StreamingFileSink",
    "datastream.connectors.jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink",
    "datastream.connectors.kafka": "FlinkKafkaConsumer FlinkKafkaProducer KafkaSink KafkaSource",
    "datastream.connectors.number_seq": "NumberSequenceSource",
    "datastream.data_stream": "AllWindowedStream BroadcastConnectedStream BroadcastStream CachedDataStream "
    "CloseableIterator ConnectedStreams DataStream DataStreamSink KeyedStream WindowedStream",
    "datastream.execution_mode": "RuntimeExecutionMode",
    "datastream.externalized_checkpoint_retention": "ExternalizedCheckpointRetention",
    "datastream.formats.avro": "AvroSchema",
    "datastream.formats.csv": "CsvReaderFormat CsvSchema",
    "datastream.formats.json": "JsonRowDeserializationSchema JsonRowSerializationSchema",
    "datastream.formats.parquet": "ParquetColumnarRowInputFormat",
    "datastream.functions": """AggregateFunction AllWindowFunction AsyncFunction BroadcastProcessFunction
        CoFlatMapFunction CoMapFunction CoProcessFunction FilterFunction FlatMapFunction Function KeySelector
        KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction KeyedStateStore MapFunction
        Partitioner ProcessAllWindowFunction ProcessFunction ProcessWindowFunction ReduceFunction RuntimeContext
        SinkFunction SourceFunction WindowFunction""",
    "datastream.output_tag": "OutputTag",
    "datastream.slot_sharing_group": "MemorySize SlotSharingGroup",
    "datastream.state": """AggregatingState AggregatingStateDescriptor AppendingState BroadcastState ListState
        ListStateDescriptor MapState MapStateDescriptor MergingState OperatorStateStore ReadOnlyBroadcastState
        ReducingState ReducingStateDescriptor State StateDescriptor StateTtlConfig ValueState ValueStateDescriptor""",
    "datastream.state_backend": "CustomStateBackend EmbeddedRocksDBStateBackend FsStateBackend HashMapStateBackend "
    "MemoryStateBackend PredefinedOptions RocksDBStateBackend StateBackend",
    "datastream.stream_execution_environment": "StreamExecutionEnvironment",
    "datastream.time_characteristic": "TimeCharacteristic",
    "datastream.time_domain": "TimeDomain",
    "datastream.timerservice": "TimerService",
    "datastream.window": """ContinuousEventTimeTrigger ContinuousProcessingTimeTrigger CountSlidingWindowAssigner
        CountTrigger CountTumblingWindowAssigner CountWindow CountWindowSerializer DynamicEventTimeSessionWindows
        DynamicProcessingTimeSessionWindows EventTimeSessionWindows EventTimeTrigger GlobalWindow
        GlobalWindowSerializer GlobalWindows MergingWindowAssigner NeverTrigger ProcessingTimeSessionWindows
        ProcessingTimeTrigger PurgingTrigger SessionWindowTimeGapExtractor SlidingEventTimeWindows
        SlidingProcessingTimeWindows TimeWindow TimeWindowSerializer Trigger TriggerResult TumblingEventTimeWindows
        TumblingProcessingTimeWindows Window WindowAssigner""",
    "metrics": "Counter Distribution Meter Metric MetricGroup",
    "metrics.metricbase": "Counter Distribution Meter Metric MetricGroup",
}
MISSING = {
    "it wraps a Java class": """AssignerWithPeriodicWatermarksWrapper
        CustomCheckpointStorage CustomStateBackend FileEnumeratorProvider FileSplitAssignerProvider
        InputFormat RowDataBulkWriterFactory""",
    "DataFrames read and write other systems and formats": """AvroSchema CsvReaderFormat CsvSchema
        FlinkKafkaConsumer FlinkKafkaProducer
        ParquetColumnarRowInputFormat""",
    "PyFlink dropped it in 2.0, and it had no effect on streams": "ExecutionMode TimeCharacteristic",
    "there is no Table API": "SqlDialect",
}
ABSENT = {name for names in MISSING.values() for name in names.split()}
NAMES = [(module, name) for module, names in PYFLINK.items() for name in names.split()]


PRESENT = {module: found for module, names in PYFLINK.items() if (found := set(names.split()) - ABSENT)}


@pytest.mark.parametrize("module", PRESENT)
def test_the_names_of_a_pyflink_module_are_in_ours(module: str) -> None:
    ours = importlib.import_module(f"penstock.{module}")
    assert PRESENT[module] <= set(ours.__all__)
    assert not [name for name in PRESENT[module] if not hasattr(ours, name)]


def test_a_missing_name_is_listed_once_with_its_reason_and_is_really_missing() -> None:
    listed = [name for names in MISSING.values() for name in names.split()]
    assert len(listed) == len(ABSENT)
    assert {name for _, name in NAMES} >= ABSENT
    for module, name in NAMES:
        if name in ABSENT:
            assert not exists(module, name), f"{module}.{name} exists now: remove it from MISSING"


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(f"penstock.{module}"), name)
    except ModuleNotFoundError:
        return False


PROGRAM = """
from pyflink.common import Configuration, Row, Types
from pyflink.common.job_status import JobStatus
from pyflink.common.restart_strategy import RestartStrategies
from pyflink.common.serialization import Encoder
from pyflink.common.time import Duration, Time
from pyflink.common.typeinfo import TypeInformation, Types
from pyflink.common.types import Row
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.checkpoint_config import CheckpointConfig, ExternalizedCheckpointCleanup
from pyflink.datastream.checkpointing_mode import CheckpointingMode
from pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from pyflink.datastream.data_stream import DataStream, KeyedStream
from pyflink.datastream.execution_mode import RuntimeExecutionMode
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor, StateTtlConfig
from pyflink.datastream.state_backend import EmbeddedRocksDBStateBackend, RocksDBStateBackend
from pyflink.datastream.timerservice import TimerService

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
env.enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)
env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))
stream = env.from_collection([Row("a", 1)], Types.ROW([Types.STRING(), Types.INT()]))
keyed = stream.key_by(lambda row: row[0])
keyed.map(lambda row: row[1], output_type=Types.INT()).print()
"""


def test_a_program_runs_with_its_imports_renamed() -> None:
    namespace: dict[str, object] = {}
    exec(PROGRAM.replace("pyflink", "penstock"), namespace)
    data_stream, keyed_stream = namespace["DataStream"], namespace["KeyedStream"]
    assert isinstance(data_stream, type) and isinstance(keyed_stream, type)
    assert isinstance(namespace["stream"], data_stream) and isinstance(namespace["keyed"], keyed_stream)


def test_types_are_instances_of_pyflinks_classes() -> None:
    make_row: Any = typeinfo.RowTypeInfo
    make_map: Any = typeinfo.MapTypeInfo
    row = make_row([Types.INT(), Types.STRING()], ["a", "b"])
    assert row == Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    assert isinstance(row, typeinfo.RowTypeInfo) and not isinstance(row, typeinfo.TupleTypeInfo)
    assert isinstance(Types.INT(), typeinfo.BasicTypeInfo)
    assert isinstance(Types.PICKLED_BYTE_ARRAY(), typeinfo.PickledBytesTypeInfo)
    assert make_map(Types.INT(), Types.INT()) == Types.MAP(Types.INT(), Types.INT())
    assert isinstance(Types.PRIMITIVE_ARRAY(Types.INT()), typeinfo.PrimitiveArrayTypeInfo)


def test_predicates_of_retries() -> None:
    assert async_retry_predicates.empty_result_predicate([]) and not async_retry_predicates.empty_result_predicate([0])
    assert async_retry_predicates.has_exception_predicate(OSError())
    assert async_retry_predicates.exception_type_predicate(TimeoutError(), OSError)
    assert not async_retry_predicates.exception_type_predicate(ValueError(), OSError)


def test_durations_and_times_to_live_read_as_in_pyflink() -> None:
    assert str(Time.seconds(5)) == "5000 ms"
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert str(config) == (
        "StateTtlConfig<update_type=UpdateType.OnCreateAndWrite, state_visibility=StateVisibility.NeverReturnExpired,"
        "ttl_time_characteristic =TtlTimeCharacteristic.ProcessingTime,ttl=1000 ms>"
    )


def test_a_row_of_names_makes_rows_with_the_first_names() -> None:
    named = Row("name", "age")
    assert repr(named("ada", 3)) == "Row(name='ada', age=3)"
    assert repr(named("ada")) == "Row(name='ada')"
    with pytest.raises(ValueError, match="expected 2 values but got"):
        named("ada", 3, 4)
