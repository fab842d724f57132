"""Untyped values as JSON text and back, without loss: for people, SQL and the command line.

None, bool, int, float, str, lists and dictionaries with text keys are plain JSON. What JSON does not have is an object
with one key that begins with `$`: `{"$tuple": [1, 2]}`, `{"$decimal": "1.50"}`, `{"$bytes": "AAE="}`, `{"$map": [[1,
"one"]]}`, and so on.
"""

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.codec.tagged import MAX_DEPTH
from penstock.errors import UnsupportedValueError
from penstock.model.row import Row, make_row
from penstock.model.time import MICROSECOND, Instant

MARK = "$"


def to_json(value: Any) -> str:
    """The text of a plain Python value.

    >>> to_json({"at": (1, 2.5), "name": "ada"})
    '{"at": {"$tuple": [1, 2.5]}, "name": "ada"}'
    """
    plain = to_plain(value)
    text = json.dumps(plain, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        text = json.dumps(plain)
    return text


def from_json(text: str) -> Any:
    """The value that a text of `to_json` stands for; any other text is an UnsupportedValueError.

    >>> from_json('{"$tuple": [1, 2.5]}')
    (1, 2.5)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnsupportedValueError(f"{text[:80]!r} is not the JSON of a value: {error}") from error
    return from_plain(found)


def from_plain(value: Any) -> Any:
    """The value that a result of `to_plain` stands for; an UnsupportedValueError for anything else.

    >>> from_plain({"$tuple": [1, 2.5]})
    (1, 2.5)
    """
    try:
        return _from_plain(value, 0)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InvalidOperation) as error:
        raise UnsupportedValueError(f"{repr(value)[:80]} is not the JSON of a value: {error}") from error


def to_plain(value: Any) -> Any:
    """The value in terms of what JSON has."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [to_plain(item) for item in value]
    if kind is dict:
        if all(type(key) is str and not key.startswith(MARK) for key in value):
            return {key: to_plain(item) for key, item in value.items()}
        return {"$map": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    if isinstance(value, Row):
        names = type(value)._fields
        items = [to_plain(item) for item in value]
        return {"$row": items} if names is None else {"$row": items, "$names": list(names)}
    if kind is tuple:
        return {"$tuple": [to_plain(item) for item in value]}
    for name, (owner, write, _) in _SCALARS.items():
        if kind is owner:
            return {name: write(value)}
    raise UnsupportedValueError(f"a value of type {kind.__name__} has no JSON")


def _from_plain(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return [_from_plain(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    marks = [key for key in value if key.startswith(MARK)]
    if not marks:
        return {key: _from_plain(item, depth + 1) for key, item in value.items()}
    name = marks[0]
    if name == "$row":
        names = value.get("$names")
        return make_row(None if names is None else tuple(names), [_from_plain(item, depth + 1) for item in value[name]])
    if len(value) != 1:
        raise ValueError(f"{name} with other keys beside it")
    if name == "$tuple":
        return tuple(_from_plain(item, depth + 1) for item in value[name])
    if name == "$map":
        return {_from_plain(key, depth + 1): _from_plain(item, depth + 1) for key, item in value[name]}
    if name not in _SCALARS:
        raise ValueError(f"unknown {name}")
    return _SCALARS[name][2](value[name])


_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "$float": (float, repr, float),
    "$bytes": (
        bytes,
        lambda value: base64.b64encode(value).decode(),
        lambda text: base64.b64decode(text, validate=True),
    ),
    "$decimal": (Decimal, str, Decimal),
    "$date": (date, date.isoformat, date.fromisoformat),
    "$time": (time, time.isoformat, time.fromisoformat),
    "$datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "$microseconds": (
        timedelta,
        lambda value: value // MICROSECOND,
        lambda number: timedelta(microseconds=number),
    ),
    "$instant": (Instant, lambda value: [value.seconds, value.nanos], lambda parts: Instant(*parts)),
}
