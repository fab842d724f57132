"""A backlog of files is read in several epochs, with checkpoints between them."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors import FileSource
from penstock.jobmanager.attempt.file_limit import FIRST_FILES
from penstock.spark.read_limits import limit_files, unlimited_file_sources
from tests.spark.jobs import Jobs, collect

FILES = 24
"""More than the first two epochs may read, whatever the speed."""


def test_a_backlog_is_read_in_several_epochs_and_checkpoints_do_not_wait_for_its_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_EPOCH_LOG", str(tmp_path / "epochs"))
    jobs = Jobs(spark, tmp_path)
    for number in range(FILES):
        jobs.write_json(f"{number}.json", [{"value": number}])
    env = jobs.environment(1, {"execution.checkpointing.interval": "10 ms"})
    source = FileSource.of(str(tmp_path / "in"), "json", "value bigint")
    numbers = collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda row: row.value))
    assert numbers == dict.fromkeys(range(FILES), 1)
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
    assert unlimited_file_sources(frame) == (True, False, False)
    assert unlimited_file_sources(limit_files(frame, 3)) == (False, False, False)
    assert limit_files(given, 3) is given
