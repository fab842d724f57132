"""The file sink: exactly once, as part files in a folder (features Q5, Q9; PROTOCOL R20, R21, R28).

Only files whose names start with neither `.` nor `_` are finished; a reader that follows this rule sees each row once.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from penstock.connectors.file.file_formats import CSV, JSON, PARQUET, FileFormat, text
from penstock.connectors.file.output_files import BucketAssigner, OutputFileConfig, RollingPolicy
from penstock.connectors.file.part_commit import publish, sweep
from penstock.connectors.file.part_folders import part_folder, require_reachable
from penstock.connectors.file.part_writer import PartSettings, PartWriter
from penstock.connectors.user_paths import sink_path
from penstock.errors import UsageError
from penstock.model.encoder import BulkWriterFactory, Encoder
from penstock.model.sink import Sink, SinkContext
from penstock.model.snapshot import Committable
from penstock.model.types import TypeInformation

_ROW_FORMATS = {"json": JSON, "csv": CSV}
_BULK_FORMATS = {"parquet": PARQUET}


class RowFormatBuilder:
    """PyFlink's builder of a FileSink, for row and bulk formats."""

    def __init__(self, base_path: str | os.PathLike[str], file_format: FileFormat, rolling: RollingPolicy) -> None:
        self._path = sink_path(base_path)
        self._format = file_format
        self._rolling = rolling
        self._files = OutputFileConfig()

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> "RowFormatBuilder":
        """Set when a part ends before its checkpoint."""
        self._rolling = rolling_policy
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> "RowFormatBuilder":
        """Set the names of finished files."""
        self._files = output_file_config
        return self

    def with_bucket_check_interval(self, interval: int) -> "RowFormatBuilder":
        """Accepted, without effect: a part ends at a checkpoint or when it has reached its size."""
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> "RowFormatBuilder":
        """Accepted: all files are in the sink's folder."""
        return self

    def disable_compact(self) -> "RowFormatBuilder":
        """Accepted: part files are never compacted."""
        return self

    def build(self) -> "FileSink":
        """The sink."""
        return FileSink(self._path, self._format, self._files, self._rolling)


BulkFormatBuilder = RowFormatBuilder
"""The same builder under PyFlink's other name."""
_Builder: TypeAlias = RowFormatBuilder  # the class below has an attribute of the real name


@dataclass(frozen=True)
class FileSink(Sink):
    """Rows as files in one folder, each row in exactly one finished file.

    A part file is finished when the checkpoint that covers its rows is completed: one for each checkpoint and subtask
    that had rows, more if the rolling policy has a size.

    >>> sink = FileSink.for_row_format("/data/totals", "json").build()
    >>> sink.path, sink.file_format.name
    ('/data/totals', 'json')
    """

    path: str
    """Absolute, or an `hdfs://` address."""
    file_format: FileFormat
    files: OutputFileConfig
    rolling: RollingPolicy
    BaseBuilder: ClassVar = RowFormatBuilder
    RowFormatBuilder: ClassVar = RowFormatBuilder
    BulkFormatBuilder: ClassVar = RowFormatBuilder
    DefaultRowFormatBuilder: ClassVar = RowFormatBuilder
    DefaultBulkFormatBuilder: ClassVar = RowFormatBuilder

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: str | Encoder) -> _Builder:
        """A sink of lines: "json", "csv", or an Encoder of text."""
        if isinstance(encoder, Encoder):
            return _Builder(base_path, text(encoder.charset_name), RollingPolicy.default_rolling_policy())
        return _Builder(
            base_path, _named(encoder, _ROW_FORMATS, "for_row_format"), RollingPolicy.default_rolling_policy()
        )

    @staticmethod
    def for_bulk_format(base_path: str | os.PathLike[str], writer_factory: str | BulkWriterFactory) -> _Builder:
        """A sink of column files: "parquet". A rolling size counts the bytes before they are compressed."""
        writer = writer_factory.format_name if isinstance(writer_factory, BulkWriterFactory) else writer_factory
        return _Builder(
            base_path, _named(writer, _BULK_FORMATS, "for_bulk_format"), RollingPolicy.on_checkpoint_rolling_policy()
        )

    def check(self, record_type: TypeInformation) -> None:
        require_reachable(self.path)

    def open(self, context: SinkContext) -> PartWriter:
        suffix = self.files.part_suffix
        settings = PartSettings(
            self.file_format,
            self.files.part_prefix,
            self.file_format.extension if suffix is None else suffix,
            self.rolling.part_size,
        )
        return PartWriter(part_folder(self.path), settings, context)

    def commit(self, committable: Committable) -> None:
        publish(part_folder(self.path), committable)

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        sweep(part_folder(self.path), (job_id, sink_uid), keep, before_attempt)


def _named(name: object, formats: dict[str, FileFormat], method: str) -> FileFormat:
    found = formats.get(name) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(f'{method}(path, "{key}")' for key in formats)
        other = 'for_bulk_format(path, "parquet")' if formats is _ROW_FORMATS else 'for_row_format(path, "json")'
        raise UsageError(f"{method} takes no format {name!r}; use {known}, or {other}")
    return found
