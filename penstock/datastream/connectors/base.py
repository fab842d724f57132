"""The names of `pyflink.datastream.connectors.base`."""

from penstock.model.sink import DeliveryGuarantee, Sink
from penstock.model.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
