"""Pickled values, for `Types.PICKLED_BYTE_ARRAY()` alone: only a program that asks for it loads one."""

import pickle
from typing import Any

import cloudpickle

from penstock.errors import UnsupportedValueError


def dump_pickle(value: Any) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # whatever the object's own __reduce__ raises
        raise UnsupportedValueError(f"a value of type {type(value).__qualname__} cannot be pickled: {error}") from error
    return data


def load_pickle(data: bytes) -> Any:
    return pickle.loads(data)
