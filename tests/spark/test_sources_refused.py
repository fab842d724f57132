"""DataFrames and sessions that cannot be sources (PROTOCOL R27), each with a way out."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import UsageError
from penstock.spark.dataframe_checks import _options, _streaming_nodes, check_source, has_fixed_start
from penstock.spark.session import check_session, clone_session
from tests.spark.counting_source import CountingSource
from tests.spark.jobs import Jobs

SCHEMA = "customer string, amount double, at timestamp"


@pytest.fixture
def orders(jobs: Jobs) -> DataFrame:
    return jobs.json_stream(SCHEMA)


@pytest.mark.smoke
def test_spark_s_own_stateful_operators_are_refused(orders: DataFrame) -> None:
    other = orders.withColumnRenamed("amount", "price")
    for frame, word in [
        (orders.groupBy("customer").sum("amount"), "groupBy"),
        (orders.dropDuplicates(["customer"]), "dropDuplicates"),
        (orders.distinct(), "distinct"),
        (orders.limit(3), "limit"),
        (orders.join(other, "customer"), "join of two streams"),
        (orders.where("amount > 0").groupBy().count().select("count"), "groupBy"),
    ]:
        with pytest.raises(UsageError, match=f"(?s){word}.*keyed state"):
            check_source(frame)


def test_a_watermark_of_spark_s_is_refused(jobs: Jobs, orders: DataFrame) -> None:
    env = jobs.environment()
    with pytest.raises(UsageError, match="event_time="):
        env.from_dataframe(orders.withWatermark("at", "5 seconds"))


def test_a_static_table_beside_the_stream_is_fine(jobs: Jobs, orders: DataFrame) -> None:
    static = jobs.spark.createDataFrame([("ada", 1)], "customer string, level int").groupBy("customer").max("level")
    check_source(orders.join(static, "customer", "left"))


@pytest.mark.smoke
def test_expressions_that_change_on_a_second_reading_are_refused(jobs: Jobs, orders: DataFrame) -> None:
    with pytest.raises(UsageError, match="rand"):
        check_source(orders.withColumn("lot", F.rand()))
    with pytest.raises(UsageError, match="rand"):
        jobs.environment().from_dataframe(orders).where("rand() < 0.5")


def test_a_batch_dataframe_is_refused_unless_in_batch_mode(jobs: Jobs) -> None:
    env = jobs.environment()
    env.from_dataframe(jobs.spark.range(3)).print()
    with pytest.raises(UsageError, match="readStream"):
        env.execute("static")
    with pytest.raises(UsageError, match="rand"):
        env.from_dataframe(jobs.spark.range(3).withColumn("lot", F.rand()))


def test_a_source_that_removes_its_files_is_refused(jobs: Jobs) -> None:
    reader = jobs.spark.readStream.schema(SCHEMA).option("cleanSource", "delete")
    (jobs.folder / "in").mkdir()
    with pytest.raises(UsageError, match="cleanSource"):
        check_source(reader.json(str(jobs.folder / "in")))


def test_r27_a_python_source_must_be_said_to_be_replayable(jobs: Jobs) -> None:
    jobs.spark.dataSource.register(CountingSource)
    frame = jobs.spark.readStream.format("counting").load()
    with pytest.raises(UsageError, match="(?s)'counting'.*same offsets.*initial offset.*replayable=True"):
        jobs.environment().from_dataframe(frame)
    with pytest.raises(UsageError, match="'counting'"):
        check_source(frame.union(jobs.json_stream("value bigint")))
    stream = jobs.environment().from_dataframe(frame, replayable=True)
    assert stream.where("value > 3").get_type().get_field_names() == ["value"]
    with pytest.raises(UsageError, match="rand"):
        check_source(frame.withColumn("lot", F.rand()), replayable=True)


def test_r27_a_source_that_keeps_its_rows_in_memory_is_refused(jobs: Jobs) -> None:
    frame = jobs.spark.readStream.format("socket").options(host="localhost", port=9).load()
    with pytest.raises(UsageError, match="'socket'.*only in memory.*Kafka"):
        jobs.environment().from_dataframe(frame, replayable=True)


@pytest.mark.smoke
def test_r27_sources_that_write_down_where_they_began_are_fine(jobs: Jobs) -> None:
    reader = jobs.spark.readStream
    check_source(reader.format("rate").load())
    check_source(reader.format("rate-micro-batch").option("rowsPerBatch", 3).load())
    for name in ("json", "csv", "parquet", "orc"):
        check_source(reader.format(name).schema("value bigint").load(str(jobs.folder)))
    check_source(reader.format("text").load(str(jobs.folder)))


def test_whether_a_source_begins_at_a_fixed_place_is_read_from_its_options(jobs: Jobs, orders: DataFrame) -> None:
    rate = jobs.spark.readStream.format("rate").option("rowsPerSecond", 3).option("numPartitions", 1).load()
    (leaf,) = [node for node in _streaming_nodes(rate._jdf.queryExecution().analyzed()) if not node.children().size()]
    assert leaf.nodeName() == "StreamingRelationV2"
    assert _options(leaf) == {"rowspersecond": "3", "numpartitions": "1"}
    assert has_fixed_start(rate.select("value")) and has_fixed_start(orders)


def test_a_column_of_spark_s_type_time_is_refused_also_as_a_step_in_sql(jobs: Jobs) -> None:
    jobs = Jobs(clone_session(jobs.spark, {"spark.sql.timeType.enabled": "true"}), jobs.folder)
    orders = jobs.json_stream(SCHEMA)
    with pytest.raises(UsageError, match="column 'clock' has Spark's type TIME"):
        jobs.environment().from_dataframe(orders.withColumn("clock", F.expr("cast('12:30:00' as time)")))
    with pytest.raises(UsageError, match="column 'clock' has Spark's type TIME"):
        jobs.environment().from_dataframe(orders).with_column("clock", "cast('12:30:00' as time)")


def session_with(**settings: str) -> Any:
    """As much of a session as the check looks at."""
    by_key = {key.replace("_", "."): value for key, value in settings.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: by_key), conf=by_key)


def test_speculation_dynamic_allocation_and_hashes_by_collation_are_refused() -> None:
    check_session(session_with())
    with pytest.raises(UsageError, match="spark.speculation=false"):
        check_session(session_with(spark_speculation="true"))
    with pytest.raises(UsageError, match="spark.dynamicAllocation.enabled"):
        check_session(session_with(spark_dynamicAllocation_enabled="true"))
    with pytest.raises(UsageError, match="collationAwareHashFunctions"):
        check_session(session_with(spark_sql_legacy_collationAwareHashFunctions="true"))


def test_spark_connect_is_refused() -> None:
    """A session of Connect is known by its module; a real one would need a server and its packages."""
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UsageError, match="Spark Connect.*classic"):
        StreamExecutionEnvironment.get_execution_environment(spark=session)
    with pytest.raises(UsageError, match="Spark Connect.*classic"):
        check_session(session)


def test_one_stream_twice_beside_another_is_refused_because_no_position_could_be_cut(jobs: Jobs) -> None:
    env = jobs.environment()
    orders, refunds = (jobs.json_stream("cents bigint", jobs.folder / name) for name in ("orders", "refunds"))
    streams = [env.from_dataframe(frame) for frame in (orders.where("cents > 0"), orders, refunds)]
    streams[0].union(*streams[1:]).print()
    with pytest.raises(UsageError, match="used twice beside another"):
        env.execute("twice")
