"""The names of `pyflink.datastream.connectors.base`."""

from penstock.model.sink import DeliveryGuarantee, Sink

__all__ = ["DeliveryGuarantee", "Sink"]
