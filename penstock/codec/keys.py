"""Keys: from the user's key to the key that state tables use, to Arrow columns, and to Spark's hash.

A state key is hashable, and keys of different types are never equal: a typed single column gives the value itself,
several columns give a tuple, an untyped key its canonical bytes, so 1, True and 1.0 are three keys. -0.0 and 0.0 are
one key.
"""

import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec import tagged
from penstock.codec.columns import decode_column, encode_column
from penstock.codec.declared_values import misfit
from penstock.codec.key_hashes import hash_columns, hash_texts
from penstock.codec.row_codec import fields_ddl
from penstock.errors import InvalidKeyError, UnsupportedValueError, UsageError
from penstock.model.key_groups import spark_hash
from penstock.model.row import row_class
from penstock.model.type_information import TypeInformation

KEY_COLUMN_PREFIX = "_key_"
_SIMPLE = {"STRING": str, "BOOLEAN": bool, "BINARY": bytes}
_TEXT = frozenset({str})
INTEGER_BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}


class KeyCodec:
    """Keys of one keyed stream. A single type makes scalar keys, several make tuples."""

    def __init__(self, types: Sequence[TypeInformation]) -> None:
        self.types = tuple(types)
        if not self.types:
            raise UsageError("a keyed stream needs at least one key column")
        for type_info in self.types:
            _check_key_type(type_info)
        self.fields: list[tuple[str, pa.DataType]] = [
            (f"{KEY_COLUMN_PREFIX}{index}", type_info.arrow) for index, type_info in enumerate(self.types)
        ]
        parts = [_state_key_maker(type_info) for type_info in self.types]
        self.to_state_key: Callable[[Any], Any] = parts[0] if len(parts) == 1 else _tuple_maker(parts, self.types)
        """The state key of a user's key; None and NaN are refused."""
        is_tagged = [type_info.kind == "tagged" for type_info in self.types]
        self._single = len(self.types) == 1
        self._is_text = self._single and self.types[0].name == "STRING"
        self._untagged = not any(is_tagged)

    @property
    def ddl(self) -> str:
        """The key columns as Spark DDL."""
        return fields_ddl(self.fields)

    def to_state_keys(self, keys: list[Any]) -> list[Any]:
        """The state keys of users' keys."""
        if self._is_text and _TEXT.issuperset(map(type, keys)):
            return keys
        return [self.to_state_key(key) for key in keys]

    def to_user_key(self, state_key: Any) -> Any:
        """The key as the user gave it."""
        if self._untagged:
            return state_key
        if self._single:
            return tagged.decode(state_key)
        parts = zip(state_key, self.types, strict=True)
        return tuple(tagged.decode(part) if type_info.kind == "tagged" else part for part, type_info in parts)

    def decode(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The state keys of a batch's key columns; a null or NaN key is an InvalidKeyError."""
        decoded = [_decode_keys(column, t) for column, t in zip(columns, self.types, strict=True)]
        return decoded[0] if self._single else list(zip(*decoded, strict=True))

    def encode(self, state_keys: Sequence[Any]) -> list[pa.Array]:
        """The key columns of state keys."""
        columns: list[Sequence[Any]] = [state_keys]
        if not self._single:
            columns = [list(map(itemgetter(index), state_keys)) for index in range(len(self.types))]
        return [
            pa.array(column, type=pa.binary()) if t.kind == "tagged" else encode_column(column, t)
            for column, t in zip(columns, self.types, strict=True)
        ]

    def order(self, state_key: Any) -> Any:
        """A sort key for state keys that gives the same order in every process."""
        return state_key

    def hash(self, state_key: Any) -> int:
        """Spark's hash of the key: signed, 32 bits, the same as the JVM's `hash` of the key columns."""
        return spark_hash((state_key,) if self._single else state_key, self.types)

    def hash_keys(self, state_keys: Sequence[Any]) -> npt.NDArray[np.int32]:
        """`hash` of each key: for few keys, which are not in columns yet."""
        found = hash_texts(state_keys) if self._is_text else None
        return self.hash_batch(self.encode(state_keys)) if found is None else found

    def hash_batch(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
        """`hash` for every row of the key columns, as fast as numpy can."""
        return hash_columns(columns, self.types)


def null_key() -> InvalidKeyError:
    """The error for a key that is None."""
    return InvalidKeyError(
        "Assigned key must not be null! A record has no key; filter such records out before key_by, or give them a key "
        "of their own, for example with coalesce"
    )


def nan_key() -> InvalidKeyError:
    """The error for a key that is NaN."""
    return InvalidKeyError(
        "NaN cannot be a key: it equals nothing, not even itself; filter such records out before key_by"
    )


def _check_key_type(type_info: TypeInformation) -> None:
    if type_info.uses_pickle:
        raise UsageError(
            f"type {type_info.text} cannot be a key: equal objects may differ as pickles; declare the key's type with "
            f"key_type=, or leave it out for plain Python values"
        )
    if type_info.name in ("LIST", "MAP"):
        raise UsageError(f"type {type_info.text} cannot be a key; use a tuple, or leave the type out for plain values")
    if type_info.name == "BIG_DEC":
        raise UsageError(
            f"type {type_info.text} cannot be a key: 1.5 and 1.50 are stored in two ways; use decimal(38,18)"
        )
    for child in type_info.children:
        if child.kind == "tagged":
            raise UsageError(f"type {type_info.text} cannot be a key: give each of its fields a type, or none at all")
        _check_key_type(child)


def _decode_keys(column: pa.Array, type_info: TypeInformation) -> list[Any]:
    if column.null_count:
        raise null_key()
    if type_info.kind == "tagged":
        keys: list[Any] = column.to_pylist()
        return keys
    if type_info.name in ("DOUBLE", "FLOAT"):
        numbers = column.cast(type_info.arrow).to_numpy(zero_copy_only=False)
        if np.isnan(numbers).any():
            raise nan_key()
        floats: list[Any] = (numbers + numbers.dtype.type(0.0)).tolist()
        return floats
    values = decode_column(column, type_info)
    return values if not type_info.children else list(map(_state_key_maker(type_info), values))


def _state_key_maker(type_info: TypeInformation) -> Callable[[Any], Any]:
    """A function from a user's key of one column to its state key."""
    name = type_info.name
    if type_info.kind == "tagged":
        return _tagged_key
    if name in ("ROW", "TUPLE"):
        make = _tuple_maker([_state_key_maker(child) for child in type_info.children], type_info.children)
        if type_info.names is None:
            return make
        row = row_class(type_info.names).make
        return lambda value: row(make(value))
    if name in ("DOUBLE", "FLOAT"):
        return lambda value: _float_key(value, type_info)
    if name in _SIMPLE:
        expected = _SIMPLE[name]
        return lambda value: value if type(value) is expected else _other_key(value, type_info)
    if name in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[name] - 1)
        return lambda value: value if type(value) is int and -limit <= value < limit else _other_key(value, type_info)
    if name == "TIMESTAMP":
        return lambda value: _timestamp_key(value, type_info)
    return lambda value: _other_key(value, type_info)


def _tagged_key(value: Any) -> bytes:
    if value is None:
        raise null_key()
    if type(value) is float and value != value:
        raise nan_key()
    return tagged.encode_key(value)


def _float_key(value: Any, type_info: TypeInformation) -> float:
    if type(value) is not float:
        value = _other_key(value, type_info)
    if value != value:
        raise nan_key()
    if type_info.name == "FLOAT":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError as error:
            raise misfit(value, type_info, error) from None
    return float(value + 0.0)


def _timestamp_key(value: Any, type_info: TypeInformation) -> datetime:
    if type(value) is datetime and value.tzinfo is timezone.utc:
        return value
    key: datetime = _other_key(value, type_info)
    return key


def _other_key(value: Any, type_info: TypeInformation) -> Any:
    """The slow way, through a column and back, with an error that says what is wrong."""
    if value is None:
        raise null_key()
    return decode_column(encode_column([value], type_info), type_info)[0]


def _tuple_maker(parts: Sequence[Callable[[Any], Any]], types: Sequence[TypeInformation]) -> Callable[[Any], Any]:
    count = len(parts)

    def make(value: Any) -> tuple[Any, ...]:
        if value is None:
            raise null_key()
        if not isinstance(value, (tuple, list)) or len(value) != count:
            kinds = ", ".join(each.text for each in types)
            raise UnsupportedValueError(f"key {value!r} is not a tuple of {count} values ({kinds}), as key_by declares")
        return tuple([part(item) for part, item in zip(parts, value, strict=True)])

    return make
