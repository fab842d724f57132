"""Rows as lines of comma-separated values."""

import base64
import csv
import io
import json
from dataclasses import dataclass, replace
from typing import Any

from penstock.codec.json_values import from_json
from penstock.connectors.file.json_lines import JsonLines
from penstock.datastream.formats.json import require_row_type
from penstock.errors import UnsupportedValueError
from penstock.model.row import make_row
from penstock.model.serialization_schemas import DeserializationSchema, SerializationSchema
from penstock.model.types import TypeInformation, resolve_type

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]


@dataclass(frozen=True)
class CsvForm:
    """How lines are written."""

    field_delimiter: str = ","
    line_delimiter: str = "\n"
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str = ""
    allows_comments: bool = False
    ignores_errors: bool = False

    def csv_options(self) -> dict[str, Any]:
        """The options of Python's csv module."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        options: dict[str, Any] = {"delimiter": self.field_delimiter, "escapechar": self.escape, "quoting": quoting}
        return options | ({"quotechar": self.quote} if self.quote else {})


class CsvRowDeserializationSchema(DeserializationSchema):
    """Reads a line into a row, field by field.

    >>> schema = CsvRowDeserializationSchema.Builder("name string, total bigint").set_field_delimiter(";").build()
    >>> schema.deserialize(b"ada;2")
    Row(name='ada', total=2)
    """

    def __init__(self, type_info: TypeInformation, form: CsvForm) -> None:
        self._type = type_info
        self._form = form

    def deserialize(self, message: bytes) -> Any:
        text = message.decode()
        if self._form.allows_comments and text.startswith("#"):
            return None
        try:
            fields = next(csv.reader([text.rstrip("\r\n")], **self._form.csv_options()), [])
            if len(fields) != len(self._type.children):
                raise ValueError(f"{len(fields)} fields found, {len(self._type.children)} expected")
            types = self._type.children
            return make_row(
                self._type.names, [self._value(text, kind) for text, kind in zip(fields, types, strict=True)]
            )
        except (ValueError, TypeError, csv.Error, UnsupportedValueError) as error:
            if self._form.ignores_errors:
                return None
            raise UnsupportedValueError(
                f"a message is not {self._type.text} as CSV: {error}: {message[:80]!r}"
            ) from error

    def _value(self, text: str, kind: TypeInformation) -> Any:
        if text == self._form.null_literal and not (text == "" and kind.name == "STRING"):
            return None
        if kind.name == "LIST":
            parts = text.split(self._form.array_delimiter) if text else []
            return [self._value(part, kind.children[0]) for part in parts]
        if kind.name == "STRING":
            return text
        if kind.name == "BINARY":
            return base64.b64decode(text)
        if kind.name == "BOOLEAN":
            return _boolean(text)
        return from_json(json.loads(text) if kind.name in _NUMBERS else text, kind)

    def get_produced_type(self) -> TypeInformation:
        return self._type

    class Builder:
        """PyFlink's builder of the schema."""

        def __init__(self, type_info: Any) -> None:
            self._type = require_row_type(None if type_info is None else resolve_type(type_info))
            self._form = CsvForm()

        def set_field_delimiter(self, delimiter: str) -> "CsvRowDeserializationSchema.Builder":
            """Set the character between fields."""
            self._form = replace(self._form, field_delimiter=delimiter)
            return self

        def set_allow_comments(self, allow_comments: bool) -> "CsvRowDeserializationSchema.Builder":
            """Set whether lines that begin with # are dropped."""
            self._form = replace(self._form, allows_comments=allow_comments)
            return self

        def set_array_element_delimiter(self, delimiter: str) -> "CsvRowDeserializationSchema.Builder":
            """Set the text between the elements of a list."""
            self._form = replace(self._form, array_delimiter=delimiter)
            return self

        def set_quote_character(self, c: str) -> "CsvRowDeserializationSchema.Builder":
            """Set the character around fields."""
            self._form = replace(self._form, quote=c)
            return self

        def set_escape_character(self, c: str) -> "CsvRowDeserializationSchema.Builder":
            """Set the character before one that is meant literally."""
            self._form = replace(self._form, escape=c)
            return self

        def set_null_literal(self, null_literal: str) -> "CsvRowDeserializationSchema.Builder":
            """Set the text of None."""
            self._form = replace(self._form, null_literal=null_literal)
            return self

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> "CsvRowDeserializationSchema.Builder":
            """Set whether lines that cannot be read are dropped."""
            self._form = replace(self._form, ignores_errors=ignore_parse_errors)
            return self

        def build(self) -> "CsvRowDeserializationSchema":
            """The schema."""
            return CsvRowDeserializationSchema(self._type, self._form)


class CsvRowSerializationSchema(SerializationSchema):
    """Writes a row as a line."""

    def __init__(self, type_info: TypeInformation, form: CsvForm) -> None:
        self._type = type_info
        self._form = form

    def serialize(self, element: Any) -> bytes:
        found = json.loads(JsonLines(self._type).encode([element]))
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator=self._form.line_delimiter, **self._form.csv_options())
        writer.writerow([self._text(found[name]) for name in self._type.get_field_names()])
        return stream.getvalue().encode()

    def _text(self, value: Any) -> str:
        if value is None:
            return self._form.null_literal
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return self._form.array_delimiter.join(map(self._text, value))
        return json.dumps(value) if isinstance(value, dict) else str(value)

    class Builder:
        """PyFlink's builder of the schema."""

        def __init__(self, type_info: Any) -> None:
            self._type = require_row_type(None if type_info is None else resolve_type(type_info))
            self._form = CsvForm()

        def set_field_delimiter(self, c: str) -> "CsvRowSerializationSchema.Builder":
            """Set the character between fields."""
            self._form = replace(self._form, field_delimiter=c)
            return self

        def set_line_delimiter(self, delimiter: str) -> "CsvRowSerializationSchema.Builder":
            """Set the end of a line."""
            self._form = replace(self._form, line_delimiter=delimiter)
            return self

        def set_array_element_delimiter(self, delimiter: str) -> "CsvRowSerializationSchema.Builder":
            """Set the text between the elements of a list."""
            self._form = replace(self._form, array_delimiter=delimiter)
            return self

        def disable_quote_character(self) -> "CsvRowSerializationSchema.Builder":
            """Write fields without quotes."""
            self._form = replace(self._form, quote=None)
            return self

        def set_quote_character(self, c: str) -> "CsvRowSerializationSchema.Builder":
            """Set the character around fields."""
            self._form = replace(self._form, quote=c)
            return self

        def set_escape_character(self, c: str) -> "CsvRowSerializationSchema.Builder":
            """Set the character before one that is meant literally."""
            self._form = replace(self._form, escape=c)
            return self

        def set_null_literal(self, s: str) -> "CsvRowSerializationSchema.Builder":
            """Set the text of None."""
            self._form = replace(self._form, null_literal=s)
            return self

        def build(self) -> "CsvRowSerializationSchema":
            """The schema."""
            return CsvRowSerializationSchema(self._type, self._form)


_NUMBERS = frozenset({"BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_INT"})


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return word == "true"
