"""A FileSource as a Python data source of Spark whose rows are packed: files are read with pyarrow, split by key group
in the task that reads them, and pass through the JVM as a few cells of bytes.

Positions are those of Spark's own file source: an offset is the number of an entry in `sources/<stream>`, which says
what the number stands for (PROTOCOL R19). An epoch that is planned again reads exactly the files of its entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.codec.row_codec import RowCodec
from penstock.connectors.file_source.csv_files import CsvColumns, read_csv
from penstock.connectors.file_source.file_parts import FilePart, tasks_of, whole_file
from penstock.connectors.file_source.json_files import read_json
from penstock.connectors.file_source.listing import SourceFile, list_files
from penstock.connectors.file_source.parquet_files import divide_parquet, read_parquet
from penstock.connectors.file_source.source_log import SourceLog
from penstock.connectors.file_source.text_blocks import divide_text
from penstock.connectors.read_path import local_path
from penstock.connectors.source_connectors import FileSource, StreamFormat
from penstock.errors import CheckpointError, PathNotFoundError
from penstock.graph.job_graph import SourcePlan
from penstock.runtime.packed_rows import CELL_ROWS, PACKED_DDL
from penstock.spark.packed_edge import PackedEdge
from penstock.spark.pipe import ignore_interrupts
from penstock.spark.python_sources import AvailableNow, load_python_source
from penstock.spark.read_limits import FILES

Offset = dict[str, int]
"""As Spark's file source writes it."""
NUMBER = "logOffset"


@dataclass(frozen=True)
class PackedFormat:
    """How files are read. Plain data; tasks get it."""

    name: str
    columns: pa.Schema
    header: bool = False
    """Whether the first line of a CSV file has the names of its columns."""

    @staticmethod
    def of(source: FileSource) -> "PackedFormat":
        columns = pa.schema(RowCodec(source.record_type).fields)
        header = isinstance(source.file_format, StreamFormat) and source.file_format.header
        return PackedFormat(source.format, columns, header)

    def divide(self, file: FilePart, size_bytes: int) -> list[FilePart]:
        """The parts of a large file."""
        return divide_parquet(file, size_bytes) if self.name == "parquet" else divide_text(file, size_bytes)

    def rows(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if self.name == "parquet":
            return read_parquet(part, self.columns, CELL_ROWS)
        if self.name == "json":
            return read_json(part, self.columns)
        return read_csv(part, CsvColumns(self.columns, self.header))


class PackedPartition(InputPartition):
    """Files, or parts of them, that one task reads in order."""

    def __init__(self, number: int, parts: Sequence[FilePart]) -> None:
        self.number = number
        self.parts = tuple(parts)


class FileListing:
    """The files that were not read yet. While enough of those of the last listing are left, nothing is listed again."""

    def __init__(self, root: str, log: SourceLog) -> None:
        self._root = root
        self._seen = set(log.files())
        self._unread: list[SourceFile] = []
        self._is_fixed = False

    def fix(self) -> None:
        """Take no files but those that exist now."""
        self._unread = self._list()
        self._is_fixed = True

    def next_files(self, most: int | None) -> list[SourceFile]:
        """The oldest files that were not read yet, at most so many."""
        if not self._is_fixed and (most is None or len(self._unread) < most):
            self._unread = self._list()
        count = len(self._unread) if most is None else most
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken

    def read(self, files: Sequence[SourceFile]) -> None:
        """These are in the log now."""
        self._seen.update(file.path for file in files)

    def _list(self) -> list[SourceFile]:
        return [file for file in list_files(self._root) if file.path not in self._seen]


@dataclass(frozen=True)
class PackedFiles:
    """The files of a source, and its log."""

    root: str
    format: PackedFormat
    folder: Path
    """The query's log of this source."""


class PackedFileReader(DataSourceStreamReader, AvailableNow):
    """Plans epochs in one process and reads files in others."""

    def __init__(self, files: PackedFiles, edge: PackedEdge, max_files: int | None, slots: int) -> None:
        """`slots`: how many tasks run at a time."""
        self._root = files.root
        self._folder = files.folder
        self._format = files.format
        self._edge = edge
        self._max_files = max_files
        self._slots = slots
        self._opened: tuple[SourceLog, FileListing] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    # ---- in the process that plans epochs

    def initialOffset(self) -> Offset:
        return {NUMBER: -1}

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        return ReadAllAvailable() if self._max_files is None else ReadMaxFiles(self._max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end now: what appears later is not read."""
        self._open()[1].fix()

    def latestOffset(self, start: Offset, limit: Any = None) -> Offset:
        """The end of the next epoch. Its entry is in the log before Spark hears of its number."""
        log, listing = self._open()
        if log.last < start[NUMBER]:
            raise CheckpointError(f"entries up to {start[NUMBER]} of the source log {str(self._folder)!r} are gone")
        if log.last > start[NUMBER]:
            return {NUMBER: log.last}  # an epoch that was planned, and of which Spark had not heard
        files = listing.next_files(getattr(limit, "max_files", None))
        if not files:
            return start
        number = log.append(files)
        listing.read(files)
        return {NUMBER: number}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        log, _ = self._open()
        files = [whole_file(file.path) for file in log.files_between(start[NUMBER], end[NUMBER])]
        tasks = tasks_of(files, self._slots, self._format.divide) if files else []
        return [PackedPartition(number, parts) for number, parts in enumerate(tasks)]

    def commit(self, end: Offset) -> None:
        """Nothing: the log keeps what a position needs."""

    def _open(self) -> tuple[SourceLog, FileListing]:
        if self._opened is None:
            log = SourceLog(self._folder)
            self._opened = log, FileListing(self._root, log)
        return self._opened

    # ---- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PackedPartition)
        ignore_interrupts()
        rows = (batch for part in partition.parts for batch in self._format.rows(part))
        return self._edge.pack(rows, first=partition.number)


@dataclass(frozen=True)
class FileLimits:
    """How many files an epoch reads."""

    fixed: int | None
    """Always."""
    first: int | None
    """At first if there is no fixed limit; later what the query is told."""


def read_packed(
    session: SparkSession, source: SourcePlan, edge: PackedEdge, limits: FileLimits, folder: Path
) -> DataFrame:
    """The packed rows of a source as a stream, in the columns of `PACKED_DDL`."""
    given: FileSource = source.spec.object
    root = local_path(given)
    assert root is not None, "only local files are packed"
    if not Path(root).exists():
        raise PathNotFoundError(
            f"the path {root!r} of the source {source.uid!r} does not exist; create it, or correct the path"
        )
    slots = max(1, min(session.sparkContext.defaultParallelism, 4 * edge.stage.parallelism))
    files = PackedFiles(root, PackedFormat.of(given), folder)
    reader = PackedFileReader(files, edge, limits.fixed or limits.first, slots)
    limited = FILES if limits.fixed is None and limits.first is not None else None
    return load_python_source(session, reader, None, PACKED_DDL, limited=limited)
