"""Arrays of values as `tagged_json` writes them: the same texts and values, of many values at a time.

What queries usually read (numbers, texts, and tuples and rows of them) takes a few calls for the whole array. Anything
else is converted value by value.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from penstock.codec.json_text import json_array
from penstock.codec.tagged_json import from_plain, to_plain
from penstock.model.row import Row

_PLAIN = frozenset({str, int, float, bool, type(None)})
_LISTS = frozenset({list, type(None)})
_TUPLE = "$tuple"


def encode_array(values: Sequence[Any]) -> bytes:
    """The JSON array of values of any kind.

    >>> encode_array([(1, 2.5), None, float("inf"), "ada"])
    b'[{"$tuple":[1,2.5]},null,{"$float":"inf"},"ada"]'
    """
    return _encode_alike(values) or json_array(list(map(to_plain, values)))


def decode_array(plain: list[Any]) -> list[Any]:
    """The values of an array that has been parsed.

    >>> decode_array([{"$tuple": [1, 2.5]}, None, {"$float": "inf"}])
    [(1, 2.5), None, inf]
    """
    kinds = set(map(type, plain))
    if kinds <= _PLAIN:
        return plain
    found = _decode_tuples(plain) if kinds <= {dict, type(None)} else None
    return [from_plain(value) for value in plain] if found is None else found


def _encode_alike(values: Sequence[Any]) -> bytes | None:
    """The array of plain values, or of tuples or rows of plain values; None if it has others too."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return _encode_plain(values, kinds, values)
    kinds.discard(type(None))
    kind = kinds.pop()
    if kinds or not issubclass(kind, tuple):
        return None
    items = list(chain.from_iterable(filter(None, values)))
    inner = set(map(type, items))
    if not inner <= _PLAIN:
        return None
    if kind is tuple:
        return _encode_plain([None if value is None else {_TUPLE: value} for value in values], inner, values)
    if not issubclass(kind, Row):
        return None
    names = {} if kind._fields is None else {"$names": kind._fields}
    return _encode_plain([None if value is None else {"$row": value, **names} for value in values], inner, values)


def _encode_plain(plain: Sequence[Any], kinds: set[type], values: Sequence[Any]) -> bytes | None:
    """What msgspec writes, if that is what is meant: it writes null for a float that is not a number."""
    try:
        text = msgspec.json.encode(plain)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a very large number
        return None
    nulls = text.count(b"null") if float in kinds else 0
    return text if not nulls or nulls == sum(value is None for value in values) else None


def _decode_tuples(plain: list[Any]) -> list[Any] | None:
    """The tuples of plain values; None if there is anything else."""
    try:
        lists = [None if value is None else value[_TUPLE] for value in plain]
    except KeyError:
        return None
    if set(map(len, filter(None, plain))) != {1} or not set(map(type, lists)) <= _LISTS:
        return None
    if not set(map(type, chain.from_iterable(filter(None, lists)))) <= _PLAIN:
        return None
    return [None if items is None else tuple(items) for items in lists]
