"""The whole input of a job in batch mode, read by Spark in a session of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from penstock.graph.job_graph import JobGraph
from penstock.model.ids import new_nonce
from penstock.spark.session import clone_session
from penstock.spark.source_frames import read_sources


class BatchInput:
    """Reads the sources of one attempt. Its session is a copy of the program's, whose settings do not change."""

    def __init__(self, spark: SparkSession, graph: JobGraph, settings: Mapping[str, str]) -> None:
        self.session = clone_session(spark, settings)
        self._graph = graph
        self._job_group = f"penstock-batch-{new_nonce()}"

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """Inside, `cancel_jobs` ends the Spark jobs that this thread starts."""
        context = self.session.sparkContext
        context.setJobGroup(self._job_group, "batch job")
        try:
            yield
        finally:
            context._jsc.clearJobGroup()

    def read(self) -> DataFrame:
        """The rows of all sources."""
        return read_sources(self.session, self._graph)

    def cancel_jobs(self) -> None:
        """End the Spark job that is running or starts just now; from any thread."""
        self.session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._job_group)
