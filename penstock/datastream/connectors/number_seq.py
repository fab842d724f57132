"""A source of integers."""

from penstock.connectors.source_connectors import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
