"""Records as JSON lines (RFC 8259, one document per line, UTF-8).

| value | JSON |
|---|---|
| a row, or a tuple where a row type is declared | object, by field names |
| another tuple, a list | array |
| dict | object; keys are text, numbers or dates, and booleans where the type says so |
| datetime, Instant | ISO 8601 text, with the zone: `"2026-01-31T12:00:00Z"`; a naive datetime has none |
| date, time, timedelta | ISO 8601 text |
| Decimal | text, so that no digit is lost: `"1.50"` |
| bytes | text, base64 |
| NaN, Infinity | null: JSON has no such numbers; this is what ECMAScript's JSON.stringify does |
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import starmap
from typing import Any

import msgspec
import numpy as np

from penstock.codec.columns import encode_column
from penstock.codec.record_rows import transpose
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row
from penstock.model.time import Instant
from penstock.model.type_information import TypeInformation

Shape = Callable[[Any], Any]
"""Converts a value to one that the JSON encoder writes as described above."""

_ATOMS = frozenset(
    {str, int, float, bool, type(None), bytes, Decimal}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)

_NOTHING: frozenset[type] = frozenset()
_CERTAIN: dict[str, frozenset[type]] = {
    "STRING": frozenset({str, type(None)}),
    "DOUBLE": frozenset({float, type(None)}),
    "BOOLEAN": frozenset({bool, type(None)}),
}
"""Classes whose values all fit and need no check."""


class JsonLines:
    """Encodes records of one type, one line each. Which values fit a type is decided by `declared_values`."""

    def __init__(self, record_type: TypeInformation) -> None:
        self._type = record_type
        self._encoder = msgspec.json.Encoder(enc_hook=_other_value)
        self._row = _row_maker(record_type) if record_type.names is not None else None
        self._shape = None if self._row else shape_of(record_type)
        self._shapes = [(index, shape_of(child)) for index, child in enumerate(record_type.children)]

    def encode(self, records: Sequence[Any]) -> bytes:
        """The lines of these records."""
        try:
            return self._encoder.encode_lines(self._shaped(records))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._refusal(records, error) from error

    def _shaped(self, records: Sequence[Any]) -> Iterable[Any]:
        if self._row is None:
            _require_fit(records, self._type)
            return records if self._shape is None else [self._shape(record) for record in records]
        columns: list[Sequence[Any]] = [*transpose(records, self._type)]
        if not columns:
            return [{}] * len(records)
        for column, child in zip(columns, self._type.children, strict=True):
            _require_fit(column, child)
        for index, shape in self._shapes:
            if shape is not None:
                columns[index] = [shape(value) for value in columns[index]]
        return list(starmap(self._row, zip(*columns, strict=True)))

    def _refusal(self, records: Sequence[Any], error: Exception) -> UnsupportedValueError:
        """The error for the first record that cannot be written."""
        for record in records:
            try:
                self._encoder.encode_lines(self._shaped((record,)))
            except (TypeError, ValueError, OverflowError, RecursionError) as reason:
                kind, error = type(record).__name__, reason
                break
        else:
            kind = "unknown"
        return UnsupportedValueError(
            f"a record of Python type {kind!r} and declared type {self._type.text} cannot be written as JSON: {error}; "
            f"convert it before the sink, or declare a type that fits with `output_type=`"
        )


def _require_fit(values: Sequence[Any], type_info: TypeInformation) -> None:
    """Raise UnsupportedValueError unless the values are of their declared type: JSON itself would accept any."""
    if type_info.kind == "arrow" and not set(map(type, values)) <= _CERTAIN.get(type_info.name, _NOTHING):
        encode_column(values, type_info)


def shape_of(type_info: TypeInformation) -> Shape | None:
    """The conversion of a type's values for the JSON encoder; None if they need none."""
    if type_info.kind != "arrow":
        return plain
    if type_info.name == "INSTANT":
        return _instant
    shapes = [shape_of(child) for child in type_info.children]
    if type_info.name == "MAP" and type_info.children[0].name == "BOOLEAN":
        shapes[0] = {True: "true", False: "false"}.get
    if type_info.name == "ROW":
        return _nested_row(type_info, shapes)
    if not any(shapes):
        return None
    if type_info.name == "TUPLE":
        return _nullable(lambda value: _apply(shapes, value))
    first, last = shapes[0] or _same, shapes[-1] or _same
    if type_info.name == "LIST":
        return _nullable(lambda value: [first(item) for item in value])
    return _nullable(lambda value: {first(key): last(item) for key, item in value.items()})


def plain(value: Any) -> Any:
    """An untyped value with its rows as objects, at any depth."""
    if value.__class__ in _ATOMS:
        return value
    if isinstance(value, tuple | list):
        fields = value.__class__._fields if isinstance(value, Row) else None
        items = [item if item.__class__ in _ATOMS else plain(item) for item in value]
        return items if fields is None else dict(zip(fields, items, strict=True))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.to_datetime() if isinstance(value, Instant) else value


def _row_maker(type_info: TypeInformation) -> Callable[..., Any]:
    """A struct class for the rows of a type: it is encoded faster than a dictionary."""
    names = type_info.get_field_names()
    fields = [(f"f{index}", Any) for index in range(len(names))]
    rename = {f"f{index}": name for index, name in enumerate(names)}
    try:
        return msgspec.defstruct("JsonRow", fields, rename=rename, gc=False)
    except ValueError:  # a name with a quote, a backslash or a control character
        return lambda *values: dict(zip(names, values, strict=True))


def _nested_row(type_info: TypeInformation, shapes: Sequence[Shape | None]) -> Shape:
    make = _row_maker(type_info)

    def shape(value: Any) -> Any:
        fields = [column[0] for column in transpose((value,), type_info)]
        return make(*_apply(shapes, fields))

    return _nullable(shape)


def _apply(shapes: Sequence[Shape | None], values: Sequence[Any]) -> list[Any]:
    return [value if shape is None else shape(value) for shape, value in zip(shapes, values, strict=True)]


def _nullable(shape: Shape) -> Shape:
    return lambda value: None if value is None else shape(value)


def _instant(value: Any) -> Any:
    return value.to_datetime() if isinstance(value, Instant) else value


def _same(value: Any) -> Any:
    return value


def _other_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"JSON cannot represent a value of type {type(value).__name__!r}")
