"""The names of `pyflink.common.serializer`."""

from penstock.model.type_serializer import TypeSerializer

__all__ = ["TypeSerializer"]
