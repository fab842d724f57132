"""Rows as Avro records in the binary encoding, with a schema given as JSON. Needs `penstock[avro]`."""

import io
import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigurationError, UnsupportedValueError, UsageError
from penstock.model.row import make_row
from penstock.model.serialization_schemas import DeserializationSchema, SerializationSchema
from penstock.model.types import TypeInformation, Types

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]


class AvroRowSerializationSchema(SerializationSchema):
    """Writes a row, by position or as a dict, as one Avro record without a header.

    >>> text = '{"type": "record", "name": "Total", "fields": [{"name": "name", "type": "string"}]}'
    >>> AvroRowSerializationSchema(avro_schema_string=text).serialize(("ada",))
    b'\\x06ada'
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._record = _AvroRecord(record_class, avro_schema_string)

    def serialize(self, element: Any) -> bytes:
        return self._record.write(element)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Reads an Avro record without a header into a row.

    >>> text = '{"type": "record", "name": "Total", "fields": [{"name": "name", "type": "string"}]}'
    >>> AvroRowDeserializationSchema(avro_schema_string=text).deserialize(b"\\x06ada")
    Row(name='ada')
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._record = _AvroRecord(record_class, avro_schema_string)
        self._type = type_of_avro(json.loads(self._record.text), {})

    def deserialize(self, message: bytes) -> Any:
        return _to_row(self._record.read(message), self._type)

    def get_produced_type(self) -> TypeInformation:
        return self._type


def type_of_avro(schema: Any, named: dict[str, TypeInformation]) -> TypeInformation:
    """The type of the values of an Avro schema. `named`: the records, enums and fixed types defined so far.

    >>> type_of_avro({"type": "array", "items": ["null", "long"]}, {}) == Types.LIST(Types.LONG())
    True
    """
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        if len(kinds) != 1:
            raise UsageError(f"the Avro union {schema} has several types; only one type and null are supported")
        return type_of_avro(kinds[0], named)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        if schema in named:
            return named[schema]
        raise UsageError(f"the Avro type {schema!r} is unknown")
    if schema.get("logicalType") in _LOGICAL:
        return _LOGICAL[schema["logicalType"]]
    kind = schema["type"]
    if kind == "array":
        return Types.LIST(type_of_avro(schema["items"], named))
    if kind == "map":
        return Types.MAP(Types.STRING(), type_of_avro(schema["values"], named))
    if kind in ("enum", "fixed"):
        named[schema["name"]] = _PRIMITIVES["string" if kind == "enum" else "bytes"]
        return named[schema["name"]]
    if kind == "record":
        fields = [(field["name"], type_of_avro(field["type"], named)) for field in schema["fields"]]
        named[schema["name"]] = Types.ROW_NAMED([name for name, _ in fields], [kind for _, kind in fields])
        return named[schema["name"]]
    return type_of_avro(kind, named)


class _AvroRecord:
    """A schema, parsed when it is first used: only its text is sent to the TaskManagers."""

    def __init__(self, record_class: str | None, text: str | None) -> None:
        if record_class is not None or text is None:
            raise UsageError("there are no Java classes here: give the schema as JSON with avro_schema_string=…")
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise UsageError(f"the Avro schema is not JSON: {error}") from None
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UsageError('the Avro schema must be that of a record: {"type": "record", "name": …, "fields": […]}')
        self.text = text
        self._parsed: Any = None
        self._schema = schema
        self._parse()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_parsed": None}

    def write(self, element: Any) -> bytes:
        """The record of a row, a tuple or a dict."""
        library, parsed = self._parse()
        stream = io.BytesIO()
        try:
            library.schemaless_writer(stream, parsed, _to_avro(element, self._schema, {}), strict=True)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise UnsupportedValueError(f"{element!r} does not fit the Avro schema: {error}") from error
        return stream.getvalue()

    def read(self, message: bytes) -> Any:
        """The record in the bytes."""
        library, parsed = self._parse()
        try:
            return library.schemaless_reader(io.BytesIO(message), parsed, None)
        except (ValueError, TypeError, EOFError, IndexError, OverflowError) as error:
            raise UnsupportedValueError(f"a message does not fit the Avro schema: {error}: {message[:80]!r}") from error

    def _parse(self) -> tuple[Any, Any]:
        try:
            import fastavro
            from fastavro.schema import SchemaParseException, UnknownType
        except ImportError as error:
            raise ConfigurationError("Avro needs the package fastavro; pip install 'penstock[avro]'") from error
        if self._parsed is None:
            try:
                self._parsed = fastavro.parse_schema(json.loads(self.text))
            except (SchemaParseException, UnknownType, KeyError) as error:
                raise UsageError(f"the Avro schema cannot be used: {error!r}") from None
        return fastavro, self._parsed


def _to_avro(value: Any, schema: Any, records: dict[str, Any]) -> Any:
    """Rows become dicts, which is what the library writes. `records`: the schemas of records by name."""
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        return value if value is None or len(kinds) != 1 else _to_avro(value, kinds[0], records)
    if isinstance(schema, str):
        return _to_avro(value, records[schema], records) if schema in records else value
    kind = schema["type"]
    if kind == "array" and isinstance(value, list | tuple):
        return [_to_avro(item, schema["items"], records) for item in value]
    if kind == "map" and isinstance(value, Mapping):
        return {key: _to_avro(item, schema["values"], records) for key, item in value.items()}
    if kind != "record":
        return value
    records[schema["name"]] = schema
    fields = schema["fields"]
    if isinstance(value, tuple):
        if len(fields) != len(value):
            raise ValueError(f"the row has {len(value)} fields, the schema {len(fields)}")
        value = {field["name"]: item for field, item in zip(fields, value, strict=True)}
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is not a row")
    types = {field["name"]: field["type"] for field in fields}
    return {key: _to_avro(item, types[key], records) for key, item in value.items()}


def _to_row(value: Any, kind: TypeInformation) -> Any:
    if value is None:
        return None
    if kind.names is not None:
        fields = zip(kind.names, kind.children, strict=True)
        return make_row(tuple(kind.names), [_to_row(value[name], child) for name, child in fields])
    if kind.name == "LIST":
        return [_to_row(item, kind.children[0]) for item in value]
    if kind.name == "MAP":
        return {key: _to_row(item, kind.children[1]) for key, item in value.items()}
    return value


_PRIMITIVES = {
    "string": Types.STRING(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "boolean": Types.BOOLEAN(),
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
_LOGICAL = {
    "date": Types.SQL_DATE(),
    "decimal": Types.BIG_DEC(),
    "timestamp-millis": Types.SQL_TIMESTAMP(),
    "timestamp-micros": Types.SQL_TIMESTAMP(),
    "uuid": Types.STRING(),
}
