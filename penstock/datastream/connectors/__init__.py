"""Sources and sinks, under PyFlink's names."""

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.position_sources import DataGeneratorSource, IteratorSource, SocketSource
from penstock.connectors.source_connectors import FileSource, NumberSequenceSource
from penstock.model.sink import DeliveryGuarantee, Sink
from penstock.model.source import Source

__all__ = [
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FileSink",
    "FileSource",
    "IteratorSource",
    "NumberSequenceSource",
    "Sink",
    "SocketSource",
    "Source",
]
