"""Integers as a source."""

from penstock.connectors.sources import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
