"""Sources that are not a DataFrame: files, a sequence of numbers, a collection. Plain data; Spark reads them.

All can be replayed from any position, and their records have one declared type.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.codec.row_codec import RowCodec
from penstock.connectors.user_paths import absolute
from penstock.errors import UsageError
from penstock.model.delivery import Delivery
from penstock.model.source import Source
from penstock.model.time import Duration
from penstock.model.types import TAGGED, TypeInformation, Types, record_type, resolve_type


@dataclass(frozen=True)
class StreamFormat:
    """A format that is read record by record: text lines, JSON lines or CSV."""

    name: str
    record_type: TypeInformation
    charset: str = "UTF-8"
    header: bool = False
    """Whether the first line of each file holds the names of its columns."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> "StreamFormat":
        """One string per line."""
        return StreamFormat("text", Types.STRING(), charset_name)

    @staticmethod
    def json_line_format(schema: object) -> "StreamFormat":
        """One row per line, a JSON object."""
        return StreamFormat("json", _row_type(schema, "json"))

    @staticmethod
    def csv_format(schema: object, *, header: bool = True) -> "StreamFormat":
        """One row per record of a CSV file."""
        return StreamFormat("csv", _row_type(schema, "csv"), header=header)


@dataclass(frozen=True)
class BulkFormat:
    """A format that is read in batches: Parquet."""

    name: str
    record_type: TypeInformation

    @staticmethod
    def parquet_format(schema: object) -> "BulkFormat":
        """The rows of Parquet files."""
        return BulkFormat("parquet", _row_type(schema, "parquet"))


@dataclass(frozen=True)
class FileSource(Source):
    """The records of files: those that exist at the start and, if monitored continuously, new ones as well.

    Folders are read with all their subfolders, oldest files first. Files and folders whose names start with `.` or `_`
    are not read. A file must appear complete, by a rename, and never change.

    >>> FileSource.of("/data/orders", "json", "customer string, amount double").record_type.get_field_names()
    ['customer', 'amount']
    """

    paths: tuple[str, ...]
    """Files, folders or patterns; local ones are absolute."""
    file_format: StreamFormat | BulkFormat
    discovery_interval_ms: int | None = None
    """How often new files are looked for; None: the source is bounded."""
    partition_columns: tuple[str, ...] = ()
    """Columns whose values are in the names of folders, as in `day=2026-01-01/`; they are part of the schema."""

    def __post_init__(self) -> None:
        if not self.paths:
            raise UsageError("a file source has no path; give at least one file, folder or pattern")
        if len(self.paths) > 1 and any(char in path for path in self.paths for char in ",{}"):
            raise UsageError(f"one of several paths may not hold ',', '{{' or '}}': {', '.join(map(repr, self.paths))}")
        missing = set(self.partition_columns).difference(self.record_type.names or ())
        if missing:
            raise UsageError(
                f"the partition columns {', '.join(map(repr, sorted(missing)))} are not in the schema; add them to it"
            )

    @staticmethod
    def of(path: str | os.PathLike[str], format_name: str, schema: object = None) -> "FileSource":
        """A bounded source of "text", "json", "csv" (with header) or "parquet" files under one path.

        All but text need a schema: DDL text, `Types.ROW_NAMED`, or a Spark or Arrow schema.
        """
        chosen: StreamFormat | BulkFormat
        if format_name == "text":
            chosen = StreamFormat.text_line_format()
        elif format_name == "json":
            chosen = StreamFormat.json_line_format(schema)
        elif format_name == "csv":
            chosen = StreamFormat.csv_format(schema)
        elif format_name == "parquet":
            chosen = BulkFormat.parquet_format(schema)
        else:
            raise UsageError(f"no file format {format_name!r}; use 'text', 'json', 'csv' or 'parquet'")
        return FileSource((absolute(path),), chosen)

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str | os.PathLike[str]) -> "FileSourceBuilder":
        """PyFlink's builder for a source of text lines, JSON lines or CSV."""
        return FileSourceBuilder(FileSource(tuple(map(absolute, paths)), stream_format))

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str | os.PathLike[str]) -> "FileSourceBuilder":
        """PyFlink's builder for a source of column files."""
        return FileSourceBuilder(FileSource(tuple(map(absolute, paths)), bulk_format))

    @property
    def record_type(self) -> TypeInformation:
        """The type of the records."""
        return self.file_format.record_type

    @property
    def format(self) -> str:
        """Spark's name of the format."""
        return self.file_format.name

    @property
    def path(self) -> str:
        """The path for Spark; several are one pattern."""
        return self.paths[0] if len(self.paths) == 1 else "{" + ",".join(self.paths) + "}"

    @property
    def schema_ddl(self) -> str | None:
        """The columns for Spark; None for text, whose one column Spark defines."""
        return None if self.format == "text" else RowCodec(self.record_type).ddl

    @property
    def options(self) -> dict[str, str]:
        """Spark's options of the source."""
        # Spark finds either the files of all folders or the columns in their names.
        nested = {} if self.partition_columns else {"recursiveFileLookup": "true"}
        return {**self._format_options, **nested}

    @property
    def _format_options(self) -> dict[str, str]:
        """A malformed record fails the job, and CSV follows RFC 4180."""
        if isinstance(self.file_format, BulkFormat):
            return {}
        charset = {} if self.file_format.charset.upper() == "UTF-8" else {"encoding": self.file_format.charset}
        if self.format == "text":
            return charset
        if self.format == "json":
            return {"mode": "FAILFAST", **charset}
        return {"mode": "FAILFAST", "header": str(self.file_format.header).lower(), "escape": '"', **charset}

    @property
    def bounded(self) -> bool:
        """Whether the source ends."""
        return self.discovery_interval_ms is None

    @property
    def delivery(self) -> Delivery:
        """Exactly once: files can be read again."""
        return Delivery.exactly_once()

    def partitioned_by(self, *columns: str) -> "FileSource":
        """The same source, whose folders are named after values of these columns, as in `day=2026-01-01/`."""
        return replace(self, partition_columns=columns)

    def monitor_continuously(self, discovery_interval: Duration) -> "FileSource":
        """The same source, unbounded: it looks for new files at this interval."""
        milliseconds = discovery_interval.to_milliseconds()
        if milliseconds <= 0:
            raise UsageError(f"the discovery interval is {milliseconds} ms; it must be above 0")
        return replace(self, discovery_interval_ms=milliseconds)


class FileSourceBuilder:
    """PyFlink's builder of a FileSource."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def monitor_continuously(self, discovery_interval: Duration) -> "FileSourceBuilder":
        """Make the source unbounded: it looks for new files at this interval."""
        self._source = self._source.monitor_continuously(discovery_interval)
        return self

    def partitioned_by(self, *columns: str) -> "FileSourceBuilder":
        """Read these columns from the names of folders, as in `day=2026-01-01/`; not in PyFlink."""
        self._source = self._source.partitioned_by(*columns)
        return self

    def process_static_file_set(self) -> "FileSourceBuilder":
        """Make the source bounded again: only the files that exist at the start."""
        self._source = replace(self._source, discovery_interval_ms=None)
        return self

    def build(self) -> FileSource:
        """The source."""
        return self._source


@dataclass(frozen=True)
class NumberSequenceSource(Source):
    """The integers from `start` to `end`, both included, as LONG."""

    start: int
    end: int
    record_type: TypeInformation = field(default=Types.LONG(), init=False)
    bounded: bool = field(default=True, init=False)
    delivery: Delivery = field(default=Delivery.exactly_once(), init=False)

    def __post_init__(self) -> None:
        if not -(2**63) <= self.start <= self.end < 2**63:
            raise UsageError(
                f"no sequence from {self.start} to {self.end}; give two 64-bit integers, the smaller first"
            )

    def __len__(self) -> int:
        return self.end - self.start + 1


@dataclass(frozen=True)
class CollectionSource(Source):
    """The records of a collection, in its order."""

    records: tuple[Any, ...]
    record_type: TypeInformation = TAGGED
    bounded: bool = field(default=True, init=False)
    delivery: Delivery = field(default=Delivery.exactly_once(), init=False)

    @staticmethod
    def of(records: Iterable[Any], type_info: object = None) -> "CollectionSource":
        """A source of these records, copied now; the type is anything that `resolve_type` accepts."""
        return CollectionSource(tuple(records), record_type(type_info))


def _row_type(schema: object, format_name: str) -> TypeInformation:
    row = resolve_type(schema)
    if row.names is None:
        raise UsageError(
            f"a source of {format_name} files needs a schema with named columns, for example "
            f"'customer string, amount double'; it got {schema!r}"
        )
    return row
