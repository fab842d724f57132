"""Sources and sinks of files."""

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.file.output_files import OutputFileConfig, RollingPolicy
from penstock.connectors.source_connectors import BulkFormat, FileSource, StreamFormat

__all__ = ["BulkFormat", "FileSink", "FileSource", "OutputFileConfig", "RollingPolicy", "StreamFormat"]
