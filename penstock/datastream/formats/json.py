"""Rows as JSON objects."""

import json
from typing import Any

from penstock.codec.json_values import from_json
from penstock.connectors.file.json_lines import JsonLines
from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.serialization_schemas import DeserializationSchema, SerializationSchema
from penstock.model.types import TypeInformation, resolve_type

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a JSON object into a row.

    >>> from penstock.common import Types
    >>> row = Types.ROW_NAMED(["name", "total"], [Types.STRING(), Types.LONG()])
    >>> JsonRowDeserializationSchema.builder().type_info(row).build().deserialize(b'{"total": 2, "name": "ada"}')
    Row(name='ada', total=2)
    """

    def __init__(self, type_info: TypeInformation, *, fails_on_missing: bool, ignores_errors: bool) -> None:
        self._type = type_info
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors

    @staticmethod
    def builder() -> "JsonRowDeserializationSchema.Builder":
        """Starts a schema."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        try:
            found = json.loads(message)
            if not isinstance(found, dict):
                raise UnsupportedValueError(f"a message is {message[:80]!r}; it must be a JSON object")
            missing = [name for name in self._type.get_field_names() if name not in found]
            if missing and self._fails_on_missing:
                raise UnsupportedValueError(f"the field {missing[0]!r} is missing in {message[:80]!r}")
            return from_json(found, self._type)
        except (ValueError, TypeError, UnsupportedValueError) as error:
            if self._ignores_errors:
                return None
            if isinstance(error, UnsupportedValueError):
                raise
            raise UnsupportedValueError(
                f"a message is not {self._type.text} as JSON: {error}: {message[:80]!r}"
            ) from error

    def get_produced_type(self) -> TypeInformation:
        return self._type

    class Builder:
        """PyFlink's builder of the schema."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None
            self._fails_on_missing = False
            self._ignores_errors = False

        def type_info(self, type_info: Any) -> "JsonRowDeserializationSchema.Builder":
            """Set the type of the rows. Its field names are those of the objects."""
            self._type = resolve_type(type_info)
            return self

        def fail_on_missing_field(self) -> "JsonRowDeserializationSchema.Builder":
            """Make a missing field an error. Otherwise it is None."""
            self._fails_on_missing = True
            return self

        def ignore_parse_errors(self) -> "JsonRowDeserializationSchema.Builder":
            """Drop messages that cannot be read."""
            self._ignores_errors = True
            return self

        def build(self) -> "JsonRowDeserializationSchema":
            """The schema."""
            row_type = require_row_type(self._type)
            return JsonRowDeserializationSchema(
                row_type, fails_on_missing=self._fails_on_missing, ignores_errors=self._ignores_errors
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a row as a JSON object."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info

    @staticmethod
    def builder() -> "JsonRowSerializationSchema.Builder":
        """Starts a schema."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        return JsonLines(self._type).encode([element])[:-1]

    class Builder:
        """PyFlink's builder of the schema."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None

        def with_type_info(self, type_info: Any) -> "JsonRowSerializationSchema.Builder":
            """Set the type of the rows. Its field names are those of the objects."""
            self._type = resolve_type(type_info)
            return self

        def build(self) -> "JsonRowSerializationSchema":
            """The schema."""
            return JsonRowSerializationSchema(require_row_type(self._type))


def require_row_type(type_info: TypeInformation | None) -> TypeInformation:
    """The type, if it is one of rows."""
    if type_info is None:
        raise TypeError("Typeinfo should be set: give the type of the rows, for example Types.ROW_NAMED([...], [...])")
    if type_info.names is None:
        raise UsageError(f"{type_info.text} is not a type of rows; give Types.ROW_NAMED([...], [...]) or DDL text")
    return type_info
