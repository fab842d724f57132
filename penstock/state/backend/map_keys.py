"""The keys of a MapState: stored in a form that is hashable, and equal exactly if the user's keys are equal."""

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
    """How map keys of one type are kept in memory and stored.

    Untyped keys that are str or int are kept as they are, all others as their canonical bytes, so that 1, 1.0 and True
    are three keys, and a list can be a key. Typed keys are kept in their stored form.
    """

    plain: frozenset[type]
    """Keys of exactly these classes are kept as they are, without calling `to_kept`."""
    to_kept: Convert
    to_user: Convert | None
    """None if a kept key is the user's key."""
    encode: Callable[[list[Any]], pa.Array]
    """Kept keys as a column."""
    decode: Callable[[pa.Array], list[Any]]
    """A column as kept keys."""


def map_keys_of(type_info: TypeInformation) -> MapKeys:
    """How to treat map keys of this type. Raises UsageError if it cannot be a map key type."""
    if type_info.kind == "tagged":
        return MapKeys(frozenset({str, int}), _to_kept, _to_user, _encode, _decode)
    if not _is_key_type(type_info):
        raise UsageError(
            f"{type_info.text} cannot be the type of map keys; use a scalar type, a row or tuple of scalars, or no type"
        )
    store = storer(type_info)

    def to_kept(key: Any) -> Any:
        if type(key) is str or type(key) is int:
            return store(key)
        kept = None if key is None else store(key)
        if kept is None or _has_nan(kept):
            raise UnsupportedValueError(f"{key!r} cannot be a key of a MapState: use a value that is not None or NaN")
        return kept

    # A float may be NaN, so it is always checked.
    plain = PLAIN.get(type_info.name, float)
    exact: frozenset[type] = frozenset() if plain is float else frozenset({plain})
    return MapKeys(
        exact, to_kept, None, lambda kept: encode_column(kept, type_info), lambda array: decode_column(array, type_info)
    )


def _is_key_type(type_info: TypeInformation) -> bool:
    if type_info.name in ("ROW", "TUPLE"):
        return all(map(_is_key_type, type_info.children))
    return type_info.kind == "arrow" and type_info.name not in ("LIST", "MAP", "BIG_DEC")


def _has_nan(kept: Any) -> bool:
    return any(map(_has_nan, kept)) if isinstance(kept, tuple) else bool(kept != kept)


def _to_kept(key: Any) -> Any:
    return key if type(key) is str or type(key) is int else tagged.encode_key(key)


def _to_user(kept: Any) -> Any:
    return tagged.decode(kept) if type(kept) is bytes else kept


def _encode(kept: list[Any]) -> pa.Array:
    return pa.array([key if type(key) is bytes else tagged.encode_key(key) for key in kept], type=pa.binary())


def _decode(array: pa.Array) -> list[Any]:
    return [_kept_from(data) for data in array.to_pylist()]


def _kept_from(data: bytes) -> Any:
    key = tagged.decode(data)
    return key if type(key) is str or type(key) is int else data
