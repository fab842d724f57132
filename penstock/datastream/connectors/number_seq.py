"""Integers as a source."""

from penstock.connectors.source_connectors import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
