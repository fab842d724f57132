"""How rows become bytes and bytes become rows, under PyFlink's names."""

from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
