"""A backlog of files or of a topic is read in several epochs, with checkpoints between them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors import FileSource
from penstock.jobmanager.attempt import read_limit
from penstock.jobmanager.attempt.read_limit import FIRST_FILES
from penstock.spark.python_sources import HAS_READ_LIMITS, RangePartition, load_python_source
from penstock.spark.read_limits import FILES, ROWS, free_sources, limit_files
from tests.spark.jobs import Jobs, collect

FILE_COUNT = 24
"""More than the first two epochs may read, whatever the speed."""


def test_a_backlog_is_read_in_several_epochs_and_checkpoints_do_not_wait_for_its_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_EPOCH_LOG", str(tmp_path / "epochs"))
    jobs = Jobs(spark, tmp_path)
    for number in range(FILE_COUNT):
        jobs.write_json(f"{number}.json", [{"value": number}])
    env = jobs.environment(1, {"execution.checkpointing.interval": "10 ms"})
    source = FileSource.of(str(tmp_path / "in"), "json", "value bigint")
    numbers = collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda row: row.value))
    assert numbers == dict.fromkeys(range(FILE_COUNT), 1)
    epochs = [json.loads(line) for line in (tmp_path / "epochs").read_text().splitlines()]
    rows = [epoch["rows"] for epoch in epochs if epoch["rows"]]
    assert rows[0] == FIRST_FILES and rows[1] <= 4 * FIRST_FILES and len(rows) >= 3
    assert any(epoch["checkpoint"] is not None for epoch in epochs[:2])


def test_a_limit_of_the_program_wins(spark: SparkSession, tmp_path: Path) -> None:
    jobs = Jobs(spark, tmp_path)
    free = jobs.json_stream("value bigint").where("value > 0")
    given = spark.readStream.schema("value bigint").option("maxFilesPerTrigger", 2).json(str(tmp_path / "in"))
    rate = spark.readStream.format("rate").load().selectExpr("value")
    frame = free.union(given).union(rate)
    assert free_sources(frame) == (FILES, "", "")
    assert free_sources(limit_files(frame, 3)) == ("", "", "")
    assert limit_files(given, 3) is given


class Numbered(DataSourceStreamReader):
    """A topic with one partition, whose message at offset n is n."""

    def __init__(self, total: int, limit: int) -> None:
        self.total = total
        self.limit = limit

    def initialOffset(self) -> dict[str, dict[str, int]]:
        return {"topic": {"0": 0}}

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self.limit)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, dict[str, int]]:
        return {"topic": {"0": min(self.total, start["topic"]["0"] + limit.max_rows)}}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return [RangePartition(start["topic"]["0"], end["topic"]["0"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, RangePartition)
        return ((number,) for number in range(partition.start, partition.end))


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 asks for everything there is")
def test_a_backlog_of_a_topic_is_read_in_epochs_that_grow_with_the_measured_speed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_EPOCH_LOG", str(tmp_path / "epochs"))
    monkeypatch.setattr(read_limit, "FIRST_ROWS", 3)
    env = Jobs(spark, tmp_path).environment(1, {"penstock.epoch.target": "10 min"})
    frame = load_python_source(spark, Numbered(60, 3), None, "value bigint", limited=ROWS)
    assert free_sources(frame.where("value >= 0")) == (ROWS,)
    numbers = env.from_dataframe(frame, replayable=True).map(lambda row: row.value)
    assert numbers.execute_and_collect("numbers", limit=60) == list(range(60))
    epochs = [json.loads(line) for line in (tmp_path / "epochs").read_text().splitlines()]
    assert [epoch["rows"] for epoch in epochs if epoch["rows"]][:4] == [3, 3, 12, 42]
