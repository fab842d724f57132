"""The streaming query of one attempt: Spark reads the sources and hands every micro-batch to `run_epoch`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.read_limits import set_limit


@dataclass(frozen=True)
class QuerySettings:
    """How a query is driven."""

    folder: Path
    """Its offset log; new for every attempt."""
    bounded: bool
    epoch_interval_ms: int
    session: Mapping[str, str]
    """Spark's settings for this query only."""
    limited: tuple[str, ...] = ()
    """For each stream of the query what is limited: FILES, ROWS or nothing."""


RunEpoch = Callable[[DataFrame, int], None]
"""Raises whatever goes wrong: an error that is swallowed makes Spark commit the batch."""

WAITING = ("Waiting for data to arrive", "Waiting for next trigger")
"""Spark's status of a query that has polled its sources and waits."""


WORKER_LOST = "Python worker failed to connect back"
"""Spark's message when a Python process of its own did not start within ten seconds, a limit that cannot be set."""


class EpochQuery:
    """A running query. It ends by itself when all sources are bounded, by an error, or by `stop`."""

    def __init__(self, frame: DataFrame, settings: QuerySettings, run_epoch: RunEpoch) -> None:
        writer = (
            frame.writeStream.foreachBatch(run_epoch)
            .option("checkpointLocation", settings.folder.absolute().as_uri())
            .outputMode("append")
        )
        if settings.bounded:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{settings.epoch_interval_ms} milliseconds")
        with _settings(frame.sparkSession, settings.session):
            self._query: StreamingQuery = writer.start()
        self._session = frame.sparkSession
        self._limited = settings.limited

    def set_limit(self, unit: str, count: int) -> None:
        """Let the next batches read at most so many files or rows of each stream limited so. Called inside a batch."""
        set_limit(self._session, self._query, self._limited, (unit, count))

    @property
    def job_group(self) -> str:
        """The job group of this query's Spark jobs."""
        return str(self._query.runId)

    def wait(self, timeout_s: float) -> bool:
        """Whether the query has ended within the time. Its error is not raised here: see `failure`."""
        try:
            return bool(self._query.awaitTermination(timeout_s))  # type: ignore[arg-type]
        except StreamingQueryException:
            return True

    @property
    def has_polled(self) -> bool:
        """The sources were polled at least once: they have recorded where they begin."""
        return str(self._query.status["message"]) in WAITING

    @property
    def failure(self) -> str | None:
        """What ended the query, if it was an error."""
        error = self._query.exception()
        return None if error is None else str(error)

    @property
    def lost_a_worker(self) -> bool:
        """The query ended because Spark could not start a Python process in time."""
        return WORKER_LOST in (self.failure or "")

    def cancel_jobs(self) -> None:
        """End the Spark job that is running; its `run_epoch` raises."""
        self._session.sparkContext.cancelJobGroup(self.job_group)

    def stop(self) -> None:
        """End the query. Waits for a running `run_epoch`, whose jobs are cancelled."""
        try:
            self._query.stop()
        except PySparkException:
            return  # it had ended with an error, which is in `failure`


class _settings:
    """The query's session is a copy of the main one, made at its start: our settings are only set for that moment."""

    def __init__(self, session: SparkSession, values: Mapping[str, str]) -> None:
        self._session = session
        self._values = values
        self._saved: dict[str, str | None] = {}

    def __enter__(self) -> None:
        for key, value in self._values.items():
            self._saved[key] = self._session.conf.get(key, None)
            self._session.conf.set(key, value)

    def __exit__(self, *_: object) -> None:
        for key, value in self._saved.items():
            if value is None:
                self._session.conf.unset(key)
            else:
                self._session.conf.set(key, value)
