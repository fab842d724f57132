"""A busy machine: Spark gives up waiting for a Python process of its own."""

from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from penstock.datastream import CloseableIterator
from penstock.errors import JobFailedError
from penstock.spark.epoch_query import WORKER_LOST
from tests.spark.counting_source import CountingReader
from tests.spark.jobs import Jobs


class SlowSource(DataSource):
    """The counting source, which fails `failures` times before it is read."""

    @classmethod
    def name(cls) -> str:
        return "slow"

    def schema(self) -> str:
        return "value bigint"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return SlowReader(Path(self.options["folder"]), int(self.options["failures"]))


class SlowReader(CountingReader):
    """Counts its starts in files, because every start is another process."""

    def __init__(self, folder: Path, failures: int) -> None:
        self._folder = folder
        self._failures = failures

    def initialOffset(self) -> dict[str, int]:
        starts = len(list(self._folder.iterdir()))
        (self._folder / str(starts)).touch()
        if starts < self._failures:
            raise RuntimeError(WORKER_LOST)
        return super().initialOffset()


def start(jobs: Jobs, failures: int) -> CloseableIterator:
    folder = jobs.folder / "starts"
    folder.mkdir()
    jobs.spark.dataSource.register(SlowSource)
    frame = jobs.spark.readStream.format("slow").option("folder", str(folder)).option("failures", failures).load()
    records = jobs.environment().from_dataframe(frame, replayable=True).execute_and_collect("slow")
    assert isinstance(records, CloseableIterator)
    return records


def test_a_source_that_did_not_start_in_time_is_started_again(jobs: Jobs) -> None:
    with start(jobs, failures=2) as records:
        found = sorted(next(records).value for _ in range(100))
    assert found == list(range(100))
    assert len(list((jobs.folder / "starts").iterdir())) == 3


def test_a_source_that_never_starts_fails_the_job(jobs: Jobs) -> None:
    with start(jobs, failures=1_000) as records, pytest.raises(JobFailedError, match="initialOffset"):
        next(records)
    assert len(list((jobs.folder / "starts").iterdir())) == 3
