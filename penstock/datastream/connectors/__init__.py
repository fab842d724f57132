"""Sources and sinks, under PyFlink's names."""

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.source_connectors import FileSource, NumberSequenceSource
from penstock.model.sink import DeliveryGuarantee, Sink
from penstock.model.source import Source

__all__ = ["DeliveryGuarantee", "FileSink", "FileSource", "NumberSequenceSource", "Sink", "Source"]
