"""Sources and sinks of files."""

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.file.output_files import BucketAssigner, OutputFileConfig, RollingPolicy
from penstock.connectors.source_connectors import BulkFormat, FileSource, FileSourceBuilder, StreamFormat

StreamingFileSink = FileSink
"""The name of `FileSink` in PyFlink 1."""

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
