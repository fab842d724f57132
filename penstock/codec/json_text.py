"""Values in terms of what JSON has, as bytes."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

_ATOMS = frozenset({str, float, bool, type(None)})
_LONG = 1 << 63


def json_array(values: Sequence[Any]) -> bytes:
    """The JSON array of values that have one. Whole numbers may have any number of digits."""
    if all(type(v) in _ATOMS or (type(v) is int and -_LONG <= v < _LONG) for v in values):
        try:
            return msgspec.json.encode(values)
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return json.dumps(values, separators=(",", ":")).encode()
