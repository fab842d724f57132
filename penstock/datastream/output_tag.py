"""The names of `pyflink.datastream.output_tag`."""

from penstock.model.output_tag import OutputTag

__all__ = ["OutputTag"]
