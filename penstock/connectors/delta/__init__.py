"""Delta Lake tables."""

from penstock.connectors.delta.delta_sink import DeltaSink

__all__ = ["DeltaSink"]
