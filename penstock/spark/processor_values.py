"""Values as Spark's stateful processors see them, and back.

To a processor, a struct is a pyspark Row and a timestamp is a `datetime` without a time zone, in local time. Here
structs are tuples and timestamps have a time zone. Other values are the same; numpy's scalars become Python's.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
from pyspark.sql import Row

from penstock.codec.declared_values import misfit
from penstock.model.type_information import TypeInformation

Convert = Callable[[Any], Any]
_PLAIN = frozenset({int, str, float, bool, bytes, type(None)})
"""Types whose values are the same on both sides."""


def row_maker(type_info: TypeInformation) -> Convert:
    """A function from a record of this type to the processor's Row. Without named fields, the record itself."""
    return _to_spark(type_info) or _same


def tuple_maker(type_info: TypeInformation) -> Convert:
    """A function from a stored struct to the processor's tuple."""
    fields = [_to_spark(child) for child in type_info.children]
    if not any(fields):
        return tuple
    converts = [field or _same for field in fields]
    return lambda value: tuple([convert(item) for convert, item in zip(converts, value, strict=True)])


def key_maker(types: Sequence[TypeInformation]) -> Convert:
    """A function from a user's key to the processor's grouping key, which is always a tuple."""
    fields = [_to_spark(type_info) or _same for type_info in types]
    if len(fields) > 1:
        return lambda key: tuple([convert(item) for convert, item in zip(fields, key, strict=True)])
    (single,) = fields
    return lambda key: key if type(key) is tuple else (single(key),)


def struct_reader(type_info: TypeInformation) -> Convert:
    """A function from a processor's Row, tuple or dictionary to a tuple of this struct type."""
    names, converts = type_info.names or (), [_from_spark(child) for child in type_info.children]
    width = len(converts)

    def read(value: Any) -> tuple[Any, ...]:
        values = _in_order(value, names, type_info)
        if len(values) != width:
            raise misfit(value, type_info, f"it has {len(values)} fields, the type has {width}")
        return tuple(
            [
                item if item.__class__ in _PLAIN else convert(item)
                for convert, item in zip(converts, values, strict=True)
            ]
        )

    return read


def _in_order(value: Any, names: Sequence[str], type_info: TypeInformation) -> Sequence[Any]:
    """The fields of a struct: by name where there are names, else by position."""
    own = getattr(value, "__fields__", None) if isinstance(value, Row) else None
    if own is not None and list(own) != list(names) and set(own) == set(names):
        return [value[name] for name in names]
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if isinstance(value, tuple | list):
        return value
    raise misfit(value, type_info, "a Row or a tuple is expected")


def _same(value: Any) -> Any:
    return value


def _to_spark(type_info: TypeInformation) -> Convert | None:
    """A function for values of the type; None if they are the same on both sides."""
    if type_info.name == "TIMESTAMP":
        return _to_local
    if type_info.name == "ROW" and type_info.names is not None:
        make, fields = Row(*type_info.names), [_to_spark(child) for child in type_info.children]
        if not any(fields):
            return lambda value: None if value is None else make(*value)
        converts = [field or _same for field in fields]
        return lambda value: (
            None if value is None else make(*[c(item) for c, item in zip(converts, value, strict=True)])
        )
    inner = [_to_spark(child) for child in type_info.children]
    if not any(inner):
        return None
    parts = [part or _same for part in inner]
    if type_info.name == "LIST":
        return lambda value: None if value is None else [parts[0](item) for item in value]
    if type_info.name == "MAP":
        return lambda value: None if value is None else {parts[0](k): parts[1](v) for k, v in value.items()}
    return lambda value: None if value is None else tuple([part(item) for part, item in zip(parts, value, strict=True)])


def _from_spark(type_info: TypeInformation) -> Convert:
    if type_info.name == "TIMESTAMP":
        return _from_local
    if type_info.name in ("ROW", "TUPLE"):
        read = struct_reader(type_info)
        return lambda value: None if value is None else read(value)
    if type_info.name == "LIST":
        convert = _from_spark(type_info.children[0])
        return lambda value: None if value is None else [convert(item) for item in value]
    if type_info.name == "MAP":
        of_key, of_value = map(_from_spark, type_info.children)
        return lambda value: None if value is None else {of_key(k): of_value(v) for k, v in value.items()}
    return _scalar


def _scalar(value: Any) -> Any:
    if type(value) is tuple and len(value) == 1:
        (value,) = value  # a whole grouping key, as the examples in Spark's API reference emit it
    if isinstance(value, np.generic):
        return value.item()
    plain = getattr(value, "to_pydatetime", None) or getattr(value, "to_pytimedelta", None)
    return value if plain is None else plain()


def _to_local(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone().replace(tzinfo=None)


def _from_local(value: Any) -> Any:
    value = _scalar(value)
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
