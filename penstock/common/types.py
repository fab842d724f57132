"""The names of `pyflink.common.types`."""

from penstock.model.row import Row, RowKind

__all__ = ["Row", "RowKind"]
