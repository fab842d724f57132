"""Checks values that are written to a state, and converts or copies them, so that users cannot change what is stored.

A value is checked when it is written, not when a snapshot is taken. So what a handle accepts can be encoded later, and
reads the same before and after a restore (an int that is put into a DOUBLE state is a float at once). Values that have
their stored form already take a fast path; any other goes once through the codec, which converts or refuses it.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.codec import tagged
from penstock.codec.columns import decode_column, encode_column
from penstock.codec.keys import INTEGER_BITS
from penstock.codec.value_copies import copier, copy_plain
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row, row_class
from penstock.model.type_information import TypeInformation

Convert = Callable[[Any], Any]
IsStored = Callable[[Any], bool]

PLAIN: dict[str, type] = {"DOUBLE": float, "BOOLEAN": bool, "BINARY": bytes, "DATE": date}
"""Scalar types for which every value of exactly this class has its stored form."""

_FAST_KINDS: dict[str, type] = {
    "DOUBLE": float,
    "BOOLEAN": bool,
    "BINARY": bytes,
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG"), int),
}
"""Scalar types whose values need at most a range check."""
_TAGGED_PLAIN: frozenset[type] = frozenset({bool, int, float, str, bytes, Decimal, date, timedelta})
_INNER_PLAIN = _TAGGED_PLAIN | {type(None)}
_CONTAINERS: frozenset[type] = frozenset({tuple, list, dict})
_float32 = struct.Struct("<f")


@dataclass(frozen=True)
class Guard:
    """How values of one type are written to and read from a state. Never called with None."""

    plain: frozenset[type]
    """Values of exactly these classes are kept as they are, without calling `store`."""
    store: Convert
    """The form in which a value is kept; raises UnsupportedValueError."""
    load: Convert | None
    """Makes a copy for the user; None if values are immutable."""

    def stored(self, value: Any) -> Any:
        """The form in which a value is kept."""
        return value if type(value) in self.plain else self.store(value)

    def element(self, value: Any) -> Any:
        """The form in which an element of a list is kept."""
        if value is None:
            raise UnsupportedValueError("You cannot add null to a ListState.")
        return value if type(value) in self.plain else self.store(value)

    def elements(self, values: Iterable[Any]) -> list[Any]:
        """The form in which elements of a list are kept. Raises if one of them does not fit."""
        if values is None:
            raise UnsupportedValueError("List of values to add cannot be null.")
        if isinstance(values, np.ndarray):
            values = values.tolist()  # plain numbers take the fast path
        return [self.element(value) for value in values]


def is_plain_value(value: Any) -> bool:
    """Whether nobody can change a value or anything in it. A wrong False only costs time."""
    return type(value) in _INNER_PLAIN or (isinstance(value, tuple) and _INNER_PLAIN.issuperset(map(type, value)))


def guard_of(type_info: TypeInformation) -> Guard:
    """The guard of a state's values."""
    if type_info.kind == "tagged":
        return Guard(_TAGGED_PLAIN, _store_tagged, _load_tagged)
    plain = PLAIN.get(type_info.name)
    return Guard(frozenset() if plain is None else frozenset({plain}), storer(type_info), copier(type_info))


def storer(type_info: TypeInformation) -> Convert:
    """A function that returns the stored form of a value: itself, a copy, or the result of the codec."""
    name = type_info.name
    if name in ("ROW", "TUPLE"):
        return _store_struct(type_info)
    if name == "LIST":
        return _store_list(type_info)
    if name == "MAP":
        return _store_map(type_info)
    if type_info.kind == "tagged":
        return _store_any_tagged
    convert = _through_codec(type_info)
    if name in INTEGER_BITS:
        return _store_int(convert, 1 << (INTEGER_BITS[name] - 1))
    if name == "STRING":
        return _store_text(convert)
    return _store_float(convert) if name == "FLOAT" else _store_scalar(convert, _is_stored(type_info))


def _through_codec(type_info: TypeInformation) -> Convert:
    """Encodes and decodes a value, which gives the stored form of anything that the codec accepts."""

    def convert(value: Any) -> Any:
        return decode_column(encode_column([value], type_info), type_info)[0]

    return convert


def _is_stored(type_info: TypeInformation) -> IsStored:
    """Whether a value of a scalar type has its stored form. A wrong False only costs time."""
    name = type_info.name
    if name == "DECIMAL":
        exponent, digits = -type_info.arrow.scale, type_info.arrow.precision - type_info.arrow.scale
        return lambda value: (
            type(value) is Decimal and value.as_tuple().exponent == exponent and value.adjusted() < digits
        )
    if name in PLAIN:
        plain = PLAIN[name]
        return lambda value: type(value) is plain
    return _STORED_FORMS.get(name, lambda value: False)


_STORED_FORMS: dict[str, IsStored] = {
    "BIG_DEC": lambda value: type(value) is Decimal and value.is_finite(),
    "TIME": lambda value: type(value) is time and value.tzinfo is None,
    "TIMESTAMP": lambda value: type(value) is datetime and value.tzinfo is timezone.utc,
    "TIMESTAMP_NTZ": lambda value: type(value) is datetime and value.tzinfo is None,
}


def _store_scalar(convert: Convert, is_stored: IsStored) -> Convert:
    def store(value: Any) -> Any:
        return value if is_stored(value) else convert(value)

    return store


def _store_int(convert: Convert, limit: int) -> Convert:
    def store(value: Any) -> Any:
        return value if type(value) is int and -limit <= value < limit else convert(value)

    return store


def _store_text(convert: Convert) -> Convert:
    def store(value: Any) -> Any:
        if type(value) is not str:
            return convert(value)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # a lone surrogate: the codec raises the error
                return convert(value)
        return value

    return store


def _store_float(convert: Convert) -> Convert:
    def store(value: Any) -> Any:
        try:
            return _float32.unpack(_float32.pack(value))[0] if type(value) is float else convert(value)
        except OverflowError:
            return convert(value)

    return store


def _store_struct(type_info: TypeInformation) -> Convert:
    convert = _through_codec(type_info)
    children = [_optional(storer(child)) for child in type_info.children]
    length = len(children)
    names = type_info.names
    row_type: Any = tuple if names is None else row_class(names)
    make: Convert = tuple if names is None else row_class(names).make
    fits = _fits_struct(row_type, type_info)

    def store(value: Any) -> Any:
        if fits is not None and fits(value):  # the common case: nothing to convert
            return value
        kind: Any = type(value)
        # A row of another class may name its fields in another order: the codec maps them.
        if (kind is row_type or kind is tuple) and len(value) == length:
            return make([child(item) for child, item in zip(children, value, strict=True)])
        return convert(value)

    return store


def _fits_struct(row_type: Any, type_info: TypeInformation) -> IsStored | None:
    """A check that a tuple has its stored form, as one expression; None if a field's type needs more than such a check.

    The expression consists of field numbers and names of built-in types, as `namedtuple` generates its code. A loop
    over the fields would take three times as long, in the most frequent call of all.
    """
    kinds = [_FAST_KINDS.get(child.name) for child in type_info.children]
    if None in kinds or not kinds:
        return None
    terms = [f"type(value) is row_type and len(value) == {len(kinds)}"]
    for index, (kind, child) in enumerate(zip(kinds, type_info.children, strict=True)):
        assert kind is not None
        terms.append(f"type(value[{index}]) is {kind.__name__}")
        if child.name in INTEGER_BITS:
            limit = 1 << (INTEGER_BITS[child.name] - 1)
            terms.append(f"{-limit} <= value[{index}] < {limit}")
    fits: IsStored = eval(f"lambda value: {' and '.join(terms)}", {"row_type": row_type})
    return fits


def _store_list(type_info: TypeInformation) -> Convert:
    convert = _through_codec(type_info)
    child = _optional(storer(type_info.children[0]))

    def store(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        return [child(item) for item in value] if type(value) is list else convert(value)

    return store


def _store_map(type_info: TypeInformation) -> Convert:
    convert = _through_codec(type_info)
    key_type, value_type = type_info.children
    key, item = storer(key_type), _optional(storer(value_type))

    def store(value: Any) -> Any:
        if type(value) is not dict or None in value:
            return convert(value)
        return {key(k): item(v) for k, v in value.items()}

    return store


def _optional(store: Convert) -> Convert:
    def optional(value: Any) -> Any:
        return None if value is None else store(value)

    return optional


def _store_any_tagged(value: Any) -> Any:
    return value if type(value) in _TAGGED_PLAIN else _store_tagged(value)


def _store_tagged(value: Any) -> Any:
    """A copy of a container of plain values. Anything else, or nested too deep, goes through the codec."""
    try:
        return _copy(value, 1)
    except UnsupportedValueError:
        return tagged.decode(tagged.encode(value))


def _copy(value: Any, depth: int) -> Any:
    kind: Any = type(value)
    if kind not in _CONTAINERS and not isinstance(value, Row) or depth > tagged.MAX_DEPTH:
        raise UnsupportedValueError("too deep, or not a plain container")
    if kind is dict:
        if not _INNER_PLAIN.issuperset(map(type, value)):
            raise UnsupportedValueError("a dictionary whose keys are not scalars")
        return {k: v if type(v) in _INNER_PLAIN else _copy(v, depth + 1) for k, v in value.items()}
    if _INNER_PLAIN.issuperset(map(type, value)):
        return value.copy() if kind is list else value
    items = [item if type(item) in _INNER_PLAIN else _copy(item, depth + 1) for item in value]
    return items if kind is list else tuple.__new__(kind, items)


def _load_tagged(value: Any) -> Any:
    kind = type(value)
    if kind in _TAGGED_PLAIN or (kind is tuple and _INNER_PLAIN.issuperset(map(type, value))):
        return value
    return copy_plain(value)
