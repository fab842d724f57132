"""`TypeInformation`: the Python values of a type, and the Arrow type that stores them.

`t.text` is a stable text that manifests store; `parse_type(t.text) == t`. Types with equal texts are equal, and only
those. `str(t)` is for people, in PyFlink's words.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from functools import lru_cache

import pyarrow as pa

from penstock.errors import UsageError

MAX_TYPE_DEPTH = 32
MAX_DECIMAL_PRECISION = 38

_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
SCALARS: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.int64(),  # microseconds of the day: Spark has no usable time type
    "TIMESTAMP": _UTC_MICROSECONDS,
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "INSTANT": _UTC_MICROSECONDS,
    "DURATION": pa.duration("us"),
    "BIG_INT": pa.decimal128(MAX_DECIMAL_PRECISION, 0),
    "BIG_DEC": pa.string(),  # the digits as text: each value has a scale of its own, which no Arrow type keeps
    "TAGGED": pa.binary(),
    "PICKLE": pa.binary(),
}
_KINDS = {"TAGGED": "tagged", "PICKLE": "pickle"}
_PYFLINK_TEXTS = {
    "BOOLEAN": "Boolean",
    "BYTE": "Byte",
    "SHORT": "Short",
    "INT": "Integer",
    "LONG": "Long",
    "FLOAT": "Float",
    "DOUBLE": "Double",
    "STRING": "String",
    "BINARY": "PrimitiveArrayTypeInfo<Byte>",
    "DATE": "DateTypeInfo",
    "TIME": "TimeTypeInfo",
    "TIMESTAMP": "TimestampTypeInfo",
    "TIMESTAMP_NTZ": "TimestampTypeInfo",
    "INSTANT": "Instant",
    "BIG_INT": "BigInteger",
    "BIG_DEC": "BigDecimal",
    "TAGGED": "PickledByteArrayTypeInfo",
    "PICKLE": "PickledByteArrayTypeInfo",
}
"""Scalars as `str` shows them; others, which PyFlink does not have, have their own text."""


@dataclass(frozen=True)
class TypeInformation:
    """A type of records, keys or states. `Types`, `resolve_type` and `parse_type` make it."""

    name: str
    """One of the scalar names, or DECIMAL, LIST, MAP, ROW, TUPLE."""
    arrow: pa.DataType
    kind: str = "arrow"
    """"arrow" (typed columns), "tagged" (the codec of plain Python values) or "pickle"."""
    names: tuple[str, ...] | None = None
    """Field names of a row, otherwise None."""
    children: tuple["TypeInformation", ...] = ()
    """Types of a row's or tuple's fields, a list's element, or a map's key and value."""
    naive_is_utc: bool = attribute(default=False, compare=False)
    """Of a TIMESTAMP: whether a datetime without a time zone is taken as UTC, as PyFlink does, or refused. It does not
    change what is stored, so it is not part of the type's text, and types that differ only in it are equal."""

    @property
    def text(self) -> str:
        """The text that manifests store and messages show, from which `parse_type` makes the type again."""
        if self.name == "DECIMAL":
            return f"DECIMAL({self.arrow.precision},{self.arrow.scale})"
        if self.names is not None:
            fields = zip(self.names, self.children, strict=True)
            return "ROW<" + ", ".join(f"{json.dumps(name)} {child.text}" for name, child in fields) + ">"
        if self.name in ("TUPLE", "LIST", "MAP"):
            return f"{self.name}<{', '.join(child.text for child in self.children)}>"
        return self.name

    def __str__(self) -> str:
        """The type as PyFlink writes it: `RowTypeInfo(a: String, b: Integer)`."""
        parts = [str(child) for child in self.children]
        if self.names is not None:
            if not _are_defaults(self.names):
                parts = [f"{name}: {part}" for name, part in zip(self.names, parts, strict=True)]
            return f"RowTypeInfo({', '.join(parts)})"
        if self.name == "TUPLE":
            return f"TupleTypeInfo({', '.join(parts)})"
        if self.name in ("LIST", "MAP"):
            return f"{self.name.capitalize()}TypeInfo<{', '.join(parts)}>"
        return _PYFLINK_TEXTS.get(self.name, self.text)

    def __repr__(self) -> str:
        return f"TypeInformation({self.text!r})"

    @property
    def uses_pickle(self) -> bool:
        """Whether values of this type, or any part of them, are stored as pickles."""
        return self.kind == "pickle" or any(child.uses_pickle for child in self.children)

    def get_field_names(self) -> list[str]:
        """Names of a row's fields, in order."""
        return list(self._require_names())

    def get_field_types(self) -> list["TypeInformation"]:
        """Types of a row's or tuple's fields, in order."""
        return list(self.children)

    def get_field_index(self, field_name: str) -> int:
        """The position of a row's field, or -1."""
        names = self._require_names()
        return names.index(field_name) if field_name in names else -1

    def field(self, name: str) -> "TypeInformation":
        """The type of one field of a row."""
        names = self._require_names()
        if name not in names:
            raise UsageError(f"there is no field {name!r} in {self.text}; its fields are {', '.join(map(repr, names))}")
        return self.children[names.index(name)]

    def _require_names(self) -> tuple[str, ...]:
        if self.names is None:
            raise UsageError(
                f"type {self.text} has no named fields; declare a row such as 'name string, amount double'"
            )
        return self.names


def scalar(name: str) -> TypeInformation:
    """The scalar type of this name."""
    return _SCALAR_TYPES[name]


def decimal(precision: int = 10, scale: int = 0) -> TypeInformation:
    """Fixed-point numbers as `decimal.Decimal`."""
    if not 1 <= precision <= MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise UsageError(
            f"there is no type decimal({precision},{scale}); the precision is 1 to {MAX_DECIMAL_PRECISION}, "
            f"the scale 0 to the precision"
        )
    return TypeInformation("DECIMAL", pa.decimal128(precision, scale))


def as_key_type(type_info: TypeInformation) -> TypeInformation:
    """The type for keys. Equal keys are stored alike, so a BIG_DEC has 18 digits after the point, as in Spark."""
    if type_info.name == "BIG_DEC":
        return decimal(MAX_DECIMAL_PRECISION, 18)
    children = tuple(map(as_key_type, type_info.children))
    if children == type_info.children or type_info.name not in ("ROW", "TUPLE"):
        return type_info
    return tuple_of(children) if type_info.names is None else row_of(type_info.names, children)


def list_of(element: TypeInformation) -> TypeInformation:
    """Lists of one element type."""
    return TypeInformation("LIST", pa.list_(element.arrow), children=(element,))


def map_of(key: TypeInformation, value: TypeInformation) -> TypeInformation:
    """Dictionaries."""
    return TypeInformation("MAP", pa.map_(key.arrow, value.arrow), children=(key, value))


def tuple_of(fields: Sequence[TypeInformation]) -> TypeInformation:
    """Plain tuples of a fixed length."""
    names = [f"f{index}" for index in range(len(fields))]
    return TypeInformation("TUPLE", _struct(names, fields), children=tuple(fields))


def row_of(names: Sequence[str], fields: Sequence[TypeInformation]) -> TypeInformation:
    """Rows with named fields."""
    if len(names) != len(fields):
        raise UsageError(f"the row has {len(names)} names and {len(fields)} types; give one type for each name")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise UsageError(f"field names {', '.join(map(repr, doubled))} occur twice in one row; rename one of them")
    if "" in names:
        raise UsageError("a row has a field without a name; name every field")
    return TypeInformation("ROW", _struct(names, fields), names=tuple(names), children=tuple(fields))


def _are_defaults(names: Sequence[str]) -> bool:
    """Whether a row has the names that it gets when the program gives none."""
    return list(names) == [f"f{index}" for index in range(len(names))]


def _struct(names: Sequence[str], fields: Sequence[TypeInformation]) -> pa.DataType:
    return pa.struct([pa.field(name, field.arrow) for name, field in zip(names, fields, strict=True)])


@lru_cache(maxsize=1024)  # called for every table of every snapshot
def parse_type(text: str) -> TypeInformation:
    """The type with this text.

    >>> parse_type('ROW<"a" LIST<LONG>, "b" DECIMAL(10,2)>').text
    'ROW<"a" LIST<LONG>, "b" DECIMAL(10,2)>'
    """
    parser = _TextParser(text)
    found = parser.type(0)
    parser.end()
    return found


_TOKEN = re.compile(r'\s*(?:([A-Z_]+)|("(?:[^"\\]|\\.)*")|(\d{1,4})|([<>(),]))')


class _TextParser:
    """Parses the text of a type by recursive descent. The depth is limited, so that a hostile manifest is an error."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def type(self, depth: int) -> TypeInformation:
        if depth > MAX_TYPE_DEPTH:
            raise self.error(f"types are nested more than {MAX_TYPE_DEPTH} deep")
        name = self.token()
        if name in SCALARS:
            return scalar(name)
        if name == "DECIMAL":
            self.expect("(")
            precision = self.number()
            self.expect(",")
            scale = self.number()
            self.expect(")")
            return decimal(precision, scale)
        if name not in ("LIST", "MAP", "TUPLE", "ROW"):
            raise self.error(f"unknown type {name!r}")
        self.expect("<")
        names, children = self.fields(depth + 1, named=name == "ROW")
        if name == "ROW":
            return row_of(names, children)
        if name == "TUPLE":
            return tuple_of(children)
        if len(children) != (1 if name == "LIST" else 2):
            raise self.error(f"{name} with {len(children)} types")
        return list_of(children[0]) if name == "LIST" else map_of(children[0], children[1])

    def fields(self, depth: int, *, named: bool) -> tuple[list[str], list[TypeInformation]]:
        """Fields up to the closing bracket."""
        names: list[str] = []
        children: list[TypeInformation] = []
        if self.peek() == ">":
            self.token()
            return names, children
        while True:
            if named:
                names.append(self.quoted())
            children.append(self.type(depth))
            separator = self.token()
            if separator == ">":
                return names, children
            if separator != ",":
                raise self.error(f"found {separator!r}, expected ',' or '>'")

    def token(self) -> str:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            raise self.error("unexpected end or character")
        self.position = match.end()
        return match.group().strip()

    def peek(self) -> str:
        before = self.position
        token = self.token()
        self.position = before
        return token

    def quoted(self) -> str:
        token = self.token()
        if not token.startswith('"'):
            raise self.error(f"found {token!r}, expected a quoted field name")
        try:
            return str(json.loads(token))
        except ValueError as error:
            raise self.error(f"bad field name {token}") from error

    def number(self) -> int:
        token = self.token()
        if not token.isdigit():
            raise self.error(f"found {token!r}, expected a number")
        return int(token)

    def expect(self, wanted: str) -> None:
        token = self.token()
        if token != wanted:
            raise self.error(f"found {token!r}, expected {wanted!r}")

    def end(self) -> None:
        if self.text[self.position :].strip():
            raise self.error("unexpected text after the type")

    def error(self, problem: str) -> UsageError:
        return UsageError(f"cannot read the type {self.text[:200]!r}: {problem} at character {self.position}")


_SCALAR_TYPES = {name: TypeInformation(name, arrow, _KINDS.get(name, "arrow")) for name, arrow in SCALARS.items()}
SQL_TIMESTAMP = replace(_SCALAR_TYPES["TIMESTAMP"], naive_is_utc=True)
