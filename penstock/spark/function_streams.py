"""A SourceFunction as a replayable Python data source of Spark. It runs in the process that plans the source's batches.

An offset is a position of `SourceRun`. The records of a batch travel with its partition, so they are read only once;
after a restart a batch that was planned and not committed is produced again from the position before it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.codec.row_codec import RowCodec
from penstock.connectors.function_source import START, FunctionSource, SourceRun
from penstock.runtime.operators.sink_operators import encode_records
from penstock.spark.python_sources import load_python_source

WAIT_S = 0.1
REPLAY_WAIT_S = 60.0

Offset = dict[str, Any]


class RecordsPartition(InputPartition):
    """Records as an Arrow stream."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class FunctionReader(DataSourceStreamReader):
    """Runs the function from the first offset that Spark names."""

    def __init__(self, source: FunctionSource) -> None:
        self._source = source
        self._run: SourceRun | None = None
        self._batches: dict[tuple[int, int], list[Any]] = {}
        """(records before, records after) -> records that were read and not committed."""

    def initialOffset(self) -> Offset:
        return START

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """After all records that the function has produced meanwhile."""
        run = self._started(start or (START if self._run is None else self._run.position))
        before = run.position
        records = run.take(WAIT_S)
        if run.position is not before:
            self._batches[before["records"], run.position["records"]] = records
        return run.position

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        records: list[Any] = []
        first = start["records"]
        parts = sorted(span for span in self._batches if first <= span[0] and span[1] <= end["records"])
        if parts and parts[0][0] == first and parts[-1][1] == end["records"]:
            records = [record for span in parts for record in self._batches[span]]
        elif self._source.delivery.is_exact:
            replay = SourceRun(self._source.function, start)
            records = replay.replay(end["records"] - first, REPLAY_WAIT_S)
            replay.close()
        self._started(end)
        return [RecordsPartition(encode_records(records, self._source.record_type))] if records else []

    def commit(self, end: Offset) -> None:
        self._batches = {span: found for span, found in self._batches.items() if span[1] > end["records"]}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RecordsPartition)
        with pa.ipc.open_stream(partition.data) as reader:
            yield from reader.read_all().to_batches()

    def stop(self) -> None:
        if self._run is not None:
            self._run.close()

    def _started(self, position: Offset) -> SourceRun:
        """The run, started here if there is none yet. Without a position the function starts from the beginning."""
        if self._run is None:
            self._run = SourceRun(self._source.function, position)
        return self._run

    def __getstate__(self) -> dict[str, Any]:
        return {"_source": self._source, "_run": None, "_batches": {}}


def read_function(session: SparkSession, source: FunctionSource) -> DataFrame:
    """A stream of what the function produces."""
    return load_python_source(session, FunctionReader(source), None, RowCodec(source.record_type).ddl)
