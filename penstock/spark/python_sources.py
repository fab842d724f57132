"""Collections, number sequences and data generators as replayable Python data sources of Spark.

The position is the number of records read; reading the same range again gives the same records in the same order.
PySpark 4.1 has no read limits for Python data sources: there such a source is one epoch, whatever its length.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from penstock.clock import SystemClock
from penstock.codec.row_codec import RowCodec
from penstock.connectors.position_sources import DataGeneratorSource
from penstock.connectors.source_connectors import CollectionSource, NumberSequenceSource
from penstock.errors import UsageError
from penstock.model.ids import new_nonce
from penstock.runtime.operators.sink_operators import encode_records
from penstock.spark.read_limits import LIMITED_NAMES

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

    HAS_READ_LIMITS = True
except ImportError:  # PySpark 4.1
    HAS_READ_LIMITS = False

    class SupportsTriggerAvailableNow(ABC):  # type: ignore[no-redef]
        """PySpark 4.1 asks for everything that is available, and gets it."""

        @abstractmethod
        def prepareForTriggerAvailableNow(self) -> None: ...


AvailableNow: TypeAlias = SupportsTriggerAvailableNow
DEFAULT_MAX_ROWS = 1_000_000
ROWS_PER_BATCH = 10_000
ENDLESS = 2**62
RATE_WAIT_S = 1.0
"""How long a bounded source with a rate lets rows gather; one without rows would end the query."""


class RangePartition(InputPartition):
    """Records start … end - 1."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class CountedReader(DataSourceStreamReader, SupportsTriggerAvailableNow, ABC):
    """Reads records by their number, up to `total`."""

    def __init__(self, total: int, max_rows: int) -> None:
        self.total = total
        self.max_rows = max_rows

    def initialOffset(self) -> dict[str, int]:
        return {"records": 0}

    def getDefaultReadLimit(self) -> "ReadMaxRows":
        return ReadMaxRows(self.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: all records exist from the start."""

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        """The end of the next epoch; of the whole source where Spark gives no limit, as PySpark 4.1 never does."""
        if start is None or not isinstance(limit, ReadMaxRows):
            return {"records": self.total}
        return {"records": min(self.total, start["records"] + self.max_rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [RangePartition(start["records"], end["records"])] if end["records"] > start["records"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        for start in range(partition.start, partition.end, ROWS_PER_BATCH):
            yield self.rows(start, min(start + ROWS_PER_BATCH, partition.end))

    @abstractmethod
    def rows(self, start: int, end: int) -> pa.RecordBatch:
        """The records of a range."""


class WholeReader(DataSourceReader):
    """Reads all records at once, for batch mode."""

    def __init__(self, records: CountedReader) -> None:
        self._records = records

    def partitions(self) -> Sequence[InputPartition]:
        return [RangePartition(0, self._records.total)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._records.read(partition)


class SequenceReader(CountedReader):
    """The numbers first … last."""

    def __init__(self, first: int, last: int, max_rows: int) -> None:
        super().__init__(last - first + 1, max_rows)
        self.first = first

    def rows(self, start: int, end: int) -> pa.RecordBatch:
        numbers = pa.array(range(self.first + start, self.first + end), pa.int64())
        return pa.RecordBatch.from_arrays([numbers], names=["value"])


class CollectionReader(CountedReader):
    """The records of a list, shipped as an Arrow stream."""

    def __init__(self, data: bytes, total: int, max_rows: int) -> None:
        super().__init__(total, max_rows)
        self.data = data

    def rows(self, start: int, end: int) -> pa.RecordBatch:
        with pa.ipc.open_stream(self.data) as reader:
            table = reader.read_all()
        return table.slice(start, end - start).combine_chunks().to_batches()[0]


class GeneratorReader(CountedReader):
    """Records computed by a function, as many as their rate allows since the reader was opened."""

    def __init__(self, source: DataGeneratorSource, max_rows: int) -> None:
        super().__init__(ENDLESS if source.count is None else source.count, max_rows)
        self.function = source.function
        self.record_type = source.record_type
        self.rate = source.rows_per_second
        self.bounded = source.bounded
        self._opened: tuple[int, float] | None = None
        """The first record and the time of the first call."""

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        if self.rate is None or start is None:
            return super().latestOffset(start, limit)
        if self.bounded and start["records"] < self.total:
            threading.Event().wait(max(RATE_WAIT_S, 1 / self.rate))
        now_s = SystemClock().monotonic_s()
        first, opened_s = self._opened = self._opened or (start["records"], now_s - max(RATE_WAIT_S, 1 / self.rate))
        due = first + int((now_s - opened_s) * self.rate)
        return {"records": max(start["records"], min(self.total, start["records"] + self.max_rows, due))}

    def rows(self, start: int, end: int) -> pa.RecordBatch:
        data = encode_records([self.function(number) for number in range(start, end)], self.record_type)
        with pa.ipc.open_stream(data) as reader:
            return reader.read_next_batch()


def require_read_limits(source: str) -> None:
    """Raise for a source that only a newer PySpark can read as a stream."""
    if not HAS_READ_LIMITS:
        raise UsageError(f"a {source} needs PySpark 4.2 or newer, which tells a source where it was; upgrade PySpark")


def read_generator(
    session: SparkSession, source: DataGeneratorSource, max_rows: int | None, *, batch: bool = False
) -> DataFrame:
    """A stream of generated records; with `batch`, all of them."""
    if not batch and not (source.bounded and source.rows_per_second is None):
        require_read_limits("DataGeneratorSource without an end or with a rate")
    reader = GeneratorReader(source, max_rows or DEFAULT_MAX_ROWS)
    return _load(session, reader, RowCodec(source.record_type).ddl, batch=batch)


def read_sequence(
    session: SparkSession, source: NumberSequenceSource, max_rows: int | None, *, batch: bool = False
) -> DataFrame:
    """A stream of numbers; with `batch`, all of them."""
    limit = max_rows or DEFAULT_MAX_ROWS
    return _load(session, SequenceReader(source.start, source.end, limit), "value bigint", batch=batch)


def read_collection(
    session: SparkSession, source: CollectionSource, max_rows: int | None, *, batch: bool = False
) -> DataFrame:
    """A stream of the collection's records; with `batch`, all of them."""
    codec = RowCodec(source.record_type)
    data = encode_records(source.records, source.record_type)
    reader = CollectionReader(data, len(source.records), max_rows or DEFAULT_MAX_ROWS)
    return _load(session, reader, codec.ddl, batch=batch)


def _load(session: SparkSession, stream_reader: CountedReader, ddl: str, *, batch: bool) -> DataFrame:
    return load_python_source(session, stream_reader, WholeReader(stream_reader), ddl, batch=batch)


def load_python_source(
    session: SparkSession,
    stream_reader: DataSourceStreamReader,
    whole: DataSourceReader | None,
    ddl: str,
    *,
    batch: bool = False,
    limited: str | None = None,
) -> DataFrame:
    """A frame of the stream reader or, with `batch`, of `whole`. Spark finds a data source by its class.

    `limited`: it reads as many FILES or ROWS as it is told; their numbers in an epoch are known from its offsets.
    """
    unique = f"{LIMITED_NAMES[limited] if limited else 'penstock-'}{new_nonce()}"

    class Counted(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def schema(self) -> Any:
            return ddl

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return stream_reader

        def reader(self, schema: Any) -> DataSourceReader:
            assert whole is not None, "this source is only read as a stream"
            return whole

    session.dataSource.register(Counted)
    return (session.read if batch else session.readStream).format(Counted.name()).load()
