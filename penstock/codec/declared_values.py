"""Which Python values a declared type accepts.

Values are checked by the set of their types, so a column of 10,000 good values is checked at the speed of C.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.errors import UnsupportedValueError
from penstock.model.readable_values import shortened
from penstock.model.time import Instant
from penstock.model.type_information import TypeInformation

_NoneType = type(None)
_INTEGERS: frozenset[type] = frozenset({int, _NoneType})
_FLOATS: frozenset[type] = frozenset({float, int, _NoneType})
_ALLOWED: dict[str, frozenset[type]] = {
    "BOOLEAN": frozenset({bool, _NoneType}),
    "BYTE": _INTEGERS,
    "SHORT": _INTEGERS,
    "INT": _INTEGERS,
    "LONG": _INTEGERS,
    "BIG_INT": _INTEGERS,
    "FLOAT": _FLOATS,
    "DOUBLE": _FLOATS,
    "STRING": frozenset({str, _NoneType}),
    "BINARY": frozenset({bytes, bytearray, memoryview, _NoneType}),
    "DECIMAL": frozenset({Decimal, int, _NoneType}),
    "BIG_DEC": frozenset({Decimal, int, _NoneType}),
    "DATE": frozenset({date, _NoneType}),
    "TIME": frozenset({time, _NoneType}),
    "TIMESTAMP": frozenset({datetime, _NoneType}),
    "TIMESTAMP_NTZ": frozenset({datetime, _NoneType}),
    "INSTANT": frozenset({Instant, _NoneType}),
    "DURATION": frozenset({timedelta, _NoneType}),
    "LIST": frozenset({list, tuple, _NoneType}),
    "MAP": frozenset({dict, _NoneType}),
}
# Subclasses and numpy scalars that stand for a value of the type; a bool is not an int here.
_ALSO: dict[str, tuple[type, ...]] = {
    "BOOLEAN": (np.bool_,),
    "BYTE": (np.integer,),
    "SHORT": (np.integer,),
    "INT": (np.integer,),
    "LONG": (np.integer,),
    "FLOAT": (np.floating, np.integer),
    "DOUBLE": (np.floating, np.integer),
    "STRING": (str,),
    "BINARY": (bytes,),
    "TIMESTAMP": (datetime,),
    "TIMESTAMP_NTZ": (datetime,),
    "LIST": (list, tuple),
    "MAP": (dict,),
}


def check_types(values: Sequence[Any], type_info: TypeInformation) -> None:
    """Raise unless every value has a type that the declared one accepts."""
    name = type_info.name
    found = set(map(type, values))
    if found <= _ALLOWED[name]:
        return
    also = _ALSO.get(name, ())
    for kind in dict.fromkeys(type(value) for value in values if type(value) not in _ALLOWED[name]):
        if not issubclass(kind, also) or (kind is bool and name != "BOOLEAN"):
            raise misfit(next(value for value in values if type(value) is kind), type_info)


def misfit(value: Any, type_info: TypeInformation, reason: object = None) -> UnsupportedValueError:
    """The error for a value that the declared type does not accept."""
    why = f" ({reason})" if reason else ""
    return UnsupportedValueError(
        f"value {shortened(value, 80)} of type {type(value).__name__} does not fit the declared type {type_info.text}"
        f"{why}",
        "return a value of that type, or declare the type you mean: output_type= for records, key_type= for keys, the "
        "descriptor's type for states",
    )
