"""Stateful processors of Spark: those of its reference as they are, and two like those of its guide as under Spark.

The examples of the reference are read from pyspark's docstrings, with their input and output. Spark itself cannot run
them: it calls `handleInputRows` with an argument that they do not take. The others run under both.
"""

import doctest
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from penstock.datastream import DataStream
from penstock.errors import UsageError
from penstock.spark.initial_state import MAX_INITIAL_ROWS, read_initial_state
from tests.spark.jobs import Jobs

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def violations() -> StatefulProcessor:
    """Counts the readings of a sensor in a batch, and in state those above 100."""

    class SimpleStatefulProcessor(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            schema = StructType([StructField("value", IntegerType(), True)])
            self.num_violations_state = handle.getValueState("numViolations", schema)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            existing = self.num_violations_state.get()[0] if self.num_violations_state.exists() else 0  # type: ignore[index]
            count = new = 0
            for row in rows:
                if row.temperature is not None:
                    count += 1
                    new += row.temperature > 100
            self.num_violations_state.update((existing + new,))
            yield Row(id=key[0], count=count, violations=existing + new)

        def close(self) -> None:
            pass

    return SimpleStatefulProcessor()


def downtimes() -> StatefulProcessor:
    """Yields how long a sensor has been silent, five seconds after its last reading, in event time."""

    class DownTimeDetector(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            state_schema = StructType([StructField("value", TimestampType(), True)])
            self.handle = handle
            self.last_seen = handle.getValueState("last_seen", state_schema)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
            _, _, latest = max(
                (tuple(frame.iloc[n]) for frame in rows for n in range(len(frame))), key=lambda row: row[2]
            )
            if not self.last_seen.exists() or self.last_seen.get()[0] < latest:  # type: ignore[index]
                for timer in self.handle.listTimers():
                    self.handle.deleteTimer(timer)
                self.last_seen.update((latest,))
                self.handle.registerTimer(latest.value // 1_000_000 + 5_000)
            yield pd.DataFrame({"id": key, "silent_ms": [0]})

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
            (last,) = self.last_seen.get()  # type: ignore[misc]
            expired = expiredTimerInfo.getExpiryTimeInMs()
            assert timerValues.getCurrentWatermarkInMs() > expired
            yield pd.DataFrame({"id": key, "silent_ms": [expired - pd.Timestamp(last).value // 1_000_000]})

        def close(self) -> None:
            pass

    return DownTimeDetector()


READINGS: list[list[tuple[str, int | None, int]]] = [
    [("s0", 123, 0), ("s0", 23, 1), ("s1", 33, 2), ("s1", 188, 2), ("s1", 88, 1)],
    [("s0", 101, 3), ("s2", None, 4)],
    [("s9", 1, 600)],
]
"""By file: sensor, temperature, second."""
VIOLATIONS = StructType(
    [
        StructField("id", StringType(), True),
        StructField("count", IntegerType(), True),
        StructField("violations", IntegerType(), True),
    ]
)
DOWNTIMES = StructType([StructField("id", StringType(), True), StructField("silent_ms", LongType(), True)])
VIOLATION_ROWS = [("s0", 1, 2), ("s0", 2, 1), ("s1", 3, 1), ("s2", 0, 0), ("s9", 1, 0)]
DOWNTIME_ROWS = sorted([(sensor, 0) for sensor in ("s0", "s0", "s1", "s2", "s9")] + [(f"s{n}", 5000) for n in range(3)])
SCHEMA = "id string, temperature bigint, at timestamp"


@pytest.fixture
def folder(jobs: Jobs) -> Path:
    for number, file in enumerate(READINGS):
        rows = [
            {"id": sensor, "temperature": value, "at": f"2026-03-02T12:{second // 60:02}:{second % 60:02}Z"}
            for sensor, value, second in file
        ]
        jobs.write_json(f"{number}.json", rows)
        os.utime(jobs.folder / "in" / f"{number}.json", (number, number))  # Spark reads the oldest first
    return jobs.folder / "in"


def stream_of(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def under_spark(query: Callable[[DataFrame], DataFrame], spark: SparkSession, folder: Path) -> list[Any]:
    """The rows of a query, in a session of its own."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    found: list[Any] = []

    def take(frame: DataFrame, batch: int) -> None:
        found.extend(tuple(row) for row in frame.collect())

    writer = query(stream_of(session, folder)).writeStream.foreachBatch(take).outputMode("update")
    place = str(folder.parent / f"spark-{query.__name__}")
    running = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
    assert running.awaitTermination(240)
    return sorted(found)


def of_reference(method: str) -> tuple[StatefulProcessor, StructType, list[list[tuple[str, int]]]]:
    """The processor in the docstring of a method of GroupedData, its output type, and its tables: input and output."""
    text = str(getattr(GroupedData, method).__doc__)
    found: dict[str, Any] = {"__name__": f"reference of {method}"}
    for example in doctest.DocTestParser().get_examples(text):
        if not example.source.startswith(("spark.", "df.")):
            exec(example.source, found)
    tables = [re.findall(r"\| *(\w+)\| *(\d+)\|", table) for table in text.split("DataFrame:\n")[1:]]
    return (
        found["SimpleStatefulProcessor"](),
        found["output_schema"],
        [[(name, int(number)) for name, number in table] for table in tables],
    )


def collected(stream: DataStream, count: int) -> list[Any]:
    return sorted(tuple(row) for row in stream.execute_and_collect("test", count))


@pytest.mark.parametrize(
    "method", ["transformWithState", pytest.param("transformWithStateInPandas", marks=pytest.mark.full)]
)
def test_the_example_of_sparks_reference_runs_unchanged(jobs: Jobs, method: str) -> None:
    processor, output_type, (read, emitted) = of_reference(method)
    assert len(read) == 5 and len(emitted) == 2
    jobs.write_json("1.json", [{"id": sensor, "temperature": value} for sensor, value in read])
    stream = jobs.environment().from_dataframe(jobs.json_stream("id string, temperature long")).uid("readings")
    by_sensor = stream.key_by("id")
    forms = {
        "transformWithState": by_sensor.transform_with_state,
        "transformWithStateInPandas": by_sensor.transform_with_state_in_pandas,
    }
    rows = forms[method](
        statefulProcessor=processor, outputStructType=output_type, outputMode="Update", timeMode="None"
    )
    assert collected(rows.uid("violations"), len(emitted)) == emitted


def test_the_processor_with_rows(spark: SparkSession, jobs: Jobs, folder: Path) -> None:
    here = jobs.environment().from_dataframe(stream_of(spark, folder)).uid("readings").key_by("id")
    rows = here.transform_with_state(
        statefulProcessor=violations(), outputStructType=VIOLATIONS, outputMode="Update", timeMode="None"
    )
    assert collected(rows.uid("violations"), len(VIOLATION_ROWS)) == VIOLATION_ROWS


@pytest.mark.full
def test_the_processor_with_pandas_timers_and_event_time(spark: SparkSession, jobs: Jobs, folder: Path) -> None:
    source = jobs.environment().from_dataframe(
        stream_of(spark, folder), event_time="at", max_out_of_orderness="10 seconds"
    )
    here = source.uid("readings").key_by("id")
    rows = here.transform_with_state_in_pandas(downtimes(), DOWNTIMES, output_mode="Update", time_mode="EventTime")
    assert collected(rows.uid("downtimes"), len(DOWNTIME_ROWS)) == DOWNTIME_ROWS


@pytest.mark.full
def test_spark_itself_gives_these_rows(spark: SparkSession, folder: Path) -> None:
    pytest.importorskip("google.protobuf", reason="Spark's own transformWithState needs it")

    def with_rows(stream: DataFrame) -> DataFrame:
        return stream.groupBy("id").transformWithState(violations(), VIOLATIONS, outputMode="Update", timeMode="None")

    def in_pandas(stream: DataFrame) -> DataFrame:
        grouped = stream.withWatermark("at", "10 seconds").groupBy("id")
        return grouped.transformWithStateInPandas(downtimes(), DOWNTIMES, outputMode="Update", timeMode="EventTime")

    assert under_spark(with_rows, spark, folder) == VIOLATION_ROWS
    assert under_spark(in_pandas, spark, folder) == DOWNTIME_ROWS


def test_the_initial_state_is_read_with_its_keys(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("s0", 7), ("s1", 8)], "id string, start int")
    record_type, rows = read_initial_state(frame.groupBy("id"), ("id",), None)
    assert record_type.names == ("id", "start") and rows == (("s0", ("s0", 7)), ("s1", ("s1", 8)))
    with pytest.raises(UsageError, match="the initial state has no column 'sensor', by which the stream is keyed"):
        read_initial_state(frame, ("sensor",), None)
    many = spark.range(MAX_INITIAL_ROWS + 1)
    with pytest.raises(UsageError, match="more than 100,000 rows"):
        read_initial_state(many, ("id",), None)
