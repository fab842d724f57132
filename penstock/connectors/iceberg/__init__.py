"""Apache Iceberg tables."""

from penstock.connectors.iceberg.iceberg_sink import IcebergSink

__all__ = ["IcebergSink"]
