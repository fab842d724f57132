"""Which sources are packed, and why others are not."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.read_path import local_path, packed_edge, plan_read_paths, reading_lines
from penstock.connectors.source_connectors import FileSource, StreamFormat
from penstock.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph

DDL = "customer string, amount double, at timestamp"
Use = Callable[[DataStream], Any]


def keyed(stream: DataStream) -> None:
    stream.key_by("customer").reduce(lambda first, second: second).print()


def planned(
    source: Any,
    use: Use = keyed,
    settings: dict[str, str] | None = None,
    spark: dict[str, str] | None = None,
    mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING,
) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment()
    use(env.from_source(source, WatermarkStrategy.no_watermarks(), "orders"))
    graph = build_job_graph(env._graph, GraphSettings(parallelism=2, mode=mode))
    return plan_read_paths(graph, Configuration.from_dict(settings or {}), (spark or {}).get)


def reason(*arguments: Any, **more: Any) -> str:
    graph = planned(*arguments, **more)
    assert not any(edge.packed for stage in graph.stages for edge in stage.inputs)
    assert not graph.sources[0].packed
    return graph.sources[0].reading


def parquet(path: str = "/in", ddl: str = DDL) -> FileSource:
    return FileSource.of(path, "parquet", ddl)


def test_a_folder_of_files_that_is_read_once_is_packed_at_every_parallelism() -> None:
    source = parquet().monitor_continuously(Duration.of_seconds(1))
    graph = planned(source)
    for found in (graph, graph.at_parallelism(3) if graph.at_parallelism else graph):
        edge, stage = packed_edge(found, found.sources[0])
        assert edge.packed and edge.partitioning == "key" and stage.inputs == (edge,)
    assert reading_lines(graph) == ["source 'orders': packed"]


@pytest.mark.parametrize(
    ("path", "local"),
    [("/in", "/in"), ("/a b/c#d/", "/a b/c#d"), ("file:///in", "/in"), ("file:/a//b/./c/../", "/a/b")],
)
def test_a_local_path_is_packed(path: str, local: str) -> None:
    source = parquet(path)
    assert planned(source).sources[0].packed and local_path(source) == local


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.map(lambda row: row.amount).print(),
        lambda stream: stream.key_by(lambda row: row.customer).reduce(lambda a, b: b).print(),
        lambda stream: stream.rebalance().map(lambda row: row.amount).print(),
        lambda stream: stream.broadcast().map(lambda row: row.amount).print(),
        lambda stream: (stream.map(lambda row: 1).print(), stream.map(lambda row: 2).print()),
    ],
)
def test_any_way_to_one_stage_is_packed(use: Use) -> None:
    assert planned(parquet(), use).sources[0].packed


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FileSource.of("/in", "text"), "files of the format text"),
        (FileSource.of("/in", "csv", "a float"), "column 'a' of type FLOAT in csv files"),
        (FileSource.of("/in", "csv", "a date"), "column 'a' of type DATE in csv files"),
        (parquet("/in/*.parquet"), "its path is a pattern"),
        (parquet("s3://bucket/in"), "its path is not in the local file system"),
        (parquet("file://host/in"), "its path is not in the local file system"),
        (parquet("file:///in%20put"), "its path is not in the local file system"),
        (parquet().partitioned_by("customer"), "some of its columns are in the names of folders"),
        (parquet(ddl="a string, customer decimal(10,2)"), "column 'customer' of type DECIMAL"),
        (parquet(ddl="customer string, a array<int>"), "column 'a' of type"),
        (parquet(ddl="customer string, Customer string"), "differ only in case"),
        (FileSource.of("/in", "json", DDL), "column 'at' of type TIMESTAMP in json files"),
        (FileSource.of("/in", "json", "customer string, _corrupt_record string"), "column of corrupt records"),
        (
            FileSource.for_record_stream_format(StreamFormat.json_line_format("customer string"), "/a", "/b").build(),
            "its path is a pattern, or it has several",
        ),
        (FileSource(("/in",), StreamFormat("json", parquet().record_type, "UTF-16")), "its charset is UTF-16"),
    ],
)
def test_what_only_spark_reads_is_left_to_it(source: FileSource, expected: str) -> None:
    def use(stream: DataStream) -> None:
        stream.map(lambda row: 1).print()

    assert expected in reason(source, use)


def test_a_source_that_several_read_is_left_to_spark() -> None:
    def twice(stream: DataStream) -> None:
        keyed(stream)
        stream.map(lambda row: 1).print()

    assert reason(parquet(), twice) == "2 stages read it"
    assert reason(parquet(), lambda s: s.to_spark(lambda df, epoch: None)) == "to_spark() writes its rows"


def test_settings_and_the_mode_of_the_job_decide_too() -> None:
    assert reason(parquet(), settings={"penstock.source.packed": "never"}) == "penstock.source.packed is never"
    assert "batch mode" in reason(parquet(), mode=RuntimeExecutionMode.BATCH)
    assert reason(parquet(), spark={"spark.sql.caseSensitive": "true"}) == "spark.sql.caseSensitive is true"
    assert (
        reason(parquet(), spark={"spark.hadoop.fs.defaultFS": "hdfs://nn"}) == "spark.hadoop.fs.defaultFS is hdfs://nn"
    )
    assert planned(parquet(), spark={"spark.sql.caseSensitive": "False"}).sources[0].packed


def test_an_older_pyspark_reads_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.read_path.version", lambda name: "4.1.3")
    assert "needs PySpark 4.2" in reason(parquet())


def test_a_topic_is_packed_unless_its_rows_carry_event_times() -> None:
    builder = KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("orders")
    source = builder.set_value_only_deserializer(SimpleStringSchema()).build()

    def use(stream: DataStream) -> None:
        stream.map(lambda text: 1).print()

    assert planned(source, use).sources[0].packed
    env = StreamExecutionEnvironment.get_execution_environment()
    use(env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders"))
    graph = build_job_graph(env._graph, GraphSettings(parallelism=2))
    graph = plan_read_paths(graph, Configuration(), lambda key: None)
    assert graph.sources[0].reading == "its rows carry event times of their own"


def test_other_sources_say_what_they_are_not() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1], None).print()
    graph = build_job_graph(env._graph, GraphSettings(parallelism=2))
    graph = plan_read_paths(graph, Configuration(), lambda key: None)
    assert reading_lines(graph) == ["source 'Collection Source': row by row: it reads neither files nor topics"]
