"""The names of `pyflink.common.serialization`."""

from penstock.model.encoder import BulkWriterFactory, Encoder
from penstock.model.serialization_schemas import (
    ByteArraySchema,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]
