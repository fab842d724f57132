"""The keys of a MapState, stored in a hashable form that is equal exactly if the user's keys are equal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.codec import tagged
from penstock.codec.columns import decode_column, encode_column
from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.type_information import TypeInformation
from penstock.state.backend.value_guard import PLAIN, Convert, storer


@dataclass(frozen=True)
class MapKeys:
    """The stored form of map keys of one type, and how to encode it.

    Untyped keys that are str or int are stored as they are, all others as canonical bytes, so that 1, 1.0 and True are
    three keys, and a list can be a key.
    """

    plain: frozenset[type]
    """Keys of exactly these classes are stored as they are, without calling `to_stored`."""
    to_stored: Convert
    to_user: Convert | None
    """None if the stored key is the user's key."""
    encode: Callable[[list[Any]], pa.Array]
    """Encodes stored keys as a column."""
    decode: Callable[[pa.Array], list[Any]]
    """Decodes a column to stored keys."""


def map_keys_of(type_info: TypeInformation) -> MapKeys:
    """How to treat map keys of this type. Raises UsageError if it cannot be a map key type."""
    if type_info.kind == "tagged":
        return MapKeys(frozenset({str, int}), _to_stored, _to_user, _encode, _decode)
    if not _is_key_type(type_info):
        raise UsageError(
            f"{type_info} cannot be a map key type; use a scalar type, a row or tuple of scalars, or no type"
        )
    store = storer(type_info)

    def to_stored(key: Any) -> Any:
        if type(key) is str or type(key) is int:
            return store(key)
        stored_key = None if key is None else store(key)
        if stored_key is None or _has_nan(stored_key):
            raise UnsupportedValueError(f"{key!r} cannot be a key of a MapState: use a value that is not None or NaN")
        return stored_key

    # A float may be NaN, so it is always checked.
    plain = PLAIN.get(type_info.name, float)
    exact: frozenset[type] = frozenset() if plain is float else frozenset({plain})
    return MapKeys(
        exact,
        to_stored,
        None,
        lambda keys: encode_column(keys, type_info),
        lambda array: decode_column(array, type_info),
    )


def _is_key_type(type_info: TypeInformation) -> bool:
    if type_info.name in ("ROW", "TUPLE"):
        return all(map(_is_key_type, type_info.children))
    return type_info.kind == "arrow" and type_info.name not in ("LIST", "MAP", "BIG_DEC")


def _has_nan(stored_key: Any) -> bool:
    return any(map(_has_nan, stored_key)) if isinstance(stored_key, tuple) else bool(stored_key != stored_key)


def _to_stored(key: Any) -> Any:
    return key if type(key) is str or type(key) is int else tagged.encode_key(key)


def _to_user(stored_key: Any) -> Any:
    return tagged.decode(stored_key) if type(stored_key) is bytes else stored_key


def _encode(stored_keys: list[Any]) -> pa.Array:
    return pa.array([key if type(key) is bytes else tagged.encode_key(key) for key in stored_keys], type=pa.binary())


def _decode(array: pa.Array) -> list[Any]:
    return [_stored_from(data) for data in array.to_pylist()]


def _stored_from(data: bytes) -> Any:
    key = tagged.decode(data)
    return key if type(key) is str or type(key) is int else data
