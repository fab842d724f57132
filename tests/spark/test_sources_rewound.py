"""Sources go back to the checkpoint when a TaskManager is killed: every row once (PROTOCOL R19, R23, R27)."""

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from tests.spark.counting_source import CountingSource
from tests.spark.jobs import Jobs, read_json
from tests.spark.recoveries import (
    COUNTED,
    RESTARTS,
    Count,
    await_attempt,
    await_checkpoints,
    cancel,
    check_counts,
    kill_taskmanager,
)
from tests.waiting import LIMIT_S, wait_until

FILES, PER_FILE = 12, 50
GATED = 1_000
Open = Callable[[Jobs, StreamExecutionEnvironment], DataStream]


def files(jobs: Jobs, env: StreamExecutionEnvironment) -> DataStream:
    for number in range(FILES):
        rows = [{"value": number * PER_FILE + row} for row in range(PER_FILE)]
        jobs.write_json(f"{number}.json", rows)
    reader = jobs.spark.readStream.schema("value bigint").option("maxFilesPerTrigger", 1)
    return env.from_dataframe(reader.json(str(jobs.folder / "in")))


def rate(jobs: Jobs, env: StreamExecutionEnvironment) -> DataStream:
    return env.from_dataframe(jobs.spark.readStream.format("rate").option("rowsPerSecond", 100).load())


def python(jobs: Jobs, env: StreamExecutionEnvironment) -> DataStream:
    jobs.spark.dataSource.register(CountingSource)
    return env.from_dataframe(jobs.spark.readStream.format("counting").load(), replayable=True)


@pytest.mark.parametrize("opened", [files, rate, python], ids=lambda opened: opened.__name__)
@pytest.mark.smoke
def test_an_unbounded_source_gives_every_row_once_over_a_kill(jobs: Jobs, opened: Open) -> None:
    env = jobs.environment(2, RESTARTS)
    stream = opened(jobs, env).key_by(lambda row: row.value % 7).process(Count(), output_type=COUNTED).uid("count")
    stream.sink_to(FileSink.for_row_format(jobs.folder / "out", "json").build())
    job = env.execute_async("rewound")
    await_checkpoints(jobs, 2)
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    before = len(read_json(jobs.folder / "out"))
    wanted = FILES * PER_FILE if opened is files else before + 2 * PER_FILE  # some that the second attempt has read
    wait_until(lambda: len(read_json(jobs.folder / "out")) >= wanted)
    cancel(job)
    check_counts(read_json(jobs.folder / "out"), FILES * PER_FILE if opened is files else None)


class Gate(MapFunction):
    """Numbers from some on wait for a file, so that the job cannot end before it is killed."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def map(self, value: Any) -> Any:
        while value >= GATED and not self.file.exists():
            threading.Event().wait(0.05)
        return (value,)


def test_a_number_sequence_gives_every_number_once_over_a_kill(jobs: Jobs) -> None:
    env = jobs.environment(2, {**RESTARTS, "penstock.epoch.max-rows": "200"})
    numbers = env.from_source(NumberSequenceSource(0, 1_599), WatermarkStrategy.no_watermarks(), "numbers")
    rows = numbers.map(Gate(jobs.folder / "killed"), "value bigint").key_by(lambda row: row.value % 7)
    stream = rows.process(Count(), output_type=COUNTED).uid("count")
    stream.sink_to(FileSink.for_row_format(jobs.folder / "out", "json").build())
    job = env.execute_async("numbers")
    await_checkpoints(jobs, 2)
    kill_taskmanager(jobs)
    (jobs.folder / "killed").touch()
    job.get_job_execution_result().result(LIMIT_S)
    assert jobs.record().attempt == 2
    check_counts(read_json(jobs.folder / "out"), 1_600)


def test_r23_rate_goes_on_with_the_clock_of_its_first_start(jobs: Jobs) -> None:
    """A row's timestamp follows from its number and the creation time, which travels with the checkpoint."""
    env = jobs.environment(1, RESTARTS)
    frame = jobs.spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    stream = env.from_dataframe(frame.selectExpr("value", "unix_millis(timestamp) as ms"))
    stream.sink_to(FileSink.for_row_format(jobs.folder / "out", "json").build())
    job = env.execute_async("rate")
    await_checkpoints(jobs, 1)
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    before = len(read_json(jobs.folder / "out"))
    wait_until(lambda: len(read_json(jobs.folder / "out")) > before)
    cancel(job)
    rows = read_json(jobs.folder / "out")
    assert sorted(row["value"] for row in rows) == list(range(len(rows)))
    first = {row["ms"] - row["value"] * 10 for row in rows}
    assert len(first) == 1 and datetime.fromtimestamp(first.pop() / 1000).year >= 2024
