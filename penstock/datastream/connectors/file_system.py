"""Files as source and as sink."""

from penstock.connectors.file_sink import FileSink
from penstock.connectors.output_files import OutputFileConfig, RollingPolicy
from penstock.connectors.sources import BulkFormat, FileSource, StreamFormat

__all__ = ["BulkFormat", "FileSink", "FileSource", "OutputFileConfig", "RollingPolicy", "StreamFormat"]
