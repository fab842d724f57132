"""The names of `pyflink.datastream.connectors.base`."""

from penstock.model.sink import Sink

__all__ = ["Sink"]
