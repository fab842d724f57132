"""Copies of values, which share nothing mutable with the original."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from penstock.codec.pickles import dump_pickle, load_pickle
from penstock.model.time import Instant
from penstock.model.type_information import TypeInformation


def is_immutable(type_info: TypeInformation) -> bool:
    """Whether values of the type can be shared without a copy."""
    if type_info.name in ("LIST", "MAP", "TAGGED", "PICKLE"):
        return False
    return all(map(is_immutable, type_info.children))


def copier(type_info: TypeInformation) -> Callable[[Any], Any] | None:
    """A function that copies everything mutable in a value of the type; None if values are immutable."""
    if is_immutable(type_info):
        return None
    if type_info.name == "PICKLE":
        return _pickle_copy
    if type_info.name == "LIST" and is_immutable(type_info.children[0]):
        return _copy_flat_list
    if type_info.name == "MAP" and is_immutable(type_info.children[1]):
        return _copy_flat_dict
    if type_info.uses_pickle:
        return _pickle_copy
    return copy_plain


def copy_plain(value: Any) -> Any:
    """A copy of a plain Python value that shares nothing mutable with it."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is list:
        return [v if type(v) in _IMMUTABLE else copy_plain(v) for v in value]
    if kind is dict:
        return {k: v if type(v) in _IMMUTABLE else copy_plain(v) for k, v in value.items()}
    if isinstance(value, tuple):  # rows and named tuples keep their class
        return tuple.__new__(kind, [v if type(v) in _IMMUTABLE else copy_plain(v) for v in value])
    if isinstance(value, list):
        return [copy_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: copy_plain(v) for k, v in value.items()}
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


_IMMUTABLE = frozenset({type(None), bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta, Instant})


def _copy_flat_list(value: Any) -> Any:
    return None if value is None else list(value)


def _copy_flat_dict(value: Any) -> Any:
    return None if value is None else dict(value)


def _pickle_copy(value: Any) -> Any:
    return load_pickle(dump_pickle(value))
