"""How rows become bytes and bytes become rows, under PyFlink's names."""

from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
