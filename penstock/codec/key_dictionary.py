"""The distinct keys of a batch of rows, found by Arrow."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.codec.columns import cast_column
from penstock.codec.keys import KeyCodec, nan_key, null_key
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Numbers
from penstock.model.type_information import TypeInformation


def key_slots(codec: KeyCodec, columns: Sequence[pa.Array]) -> KeySlots:
    """The distinct keys of key columns, in the order of their first rows. A null or NaN key is an InvalidKeyError."""
    parts = [_part(column, type_info) for column, type_info in zip(columns, codec.types, strict=True)]
    if any(type_info.children for type_info in codec.types):
        indices, first_rows = _by_state_key(codec, parts)
        distinct = [part.take(pa.array(first_rows)) for part in parts]
    elif len(parts) == 1:
        encoded = parts[0].dictionary_encode()
        indices, distinct = encoded.indices.to_numpy(), [encoded.dictionary]
    else:
        indices, first_rows = _combined(parts)
        distinct = [part.take(pa.array(first_rows)) for part in parts]
    return KeySlots(indices, distinct, codec.decode, codec.to_user_key)


def _part(column: pa.Array, type_info: TypeInformation) -> pa.Array:
    """A key column in the form in which equal keys are equal."""
    require_keys(column)
    column = cast_column(column, type_info)
    if type_info.name in ("DOUBLE", "FLOAT"):
        numbers = column.to_numpy(zero_copy_only=False)
        return pa.array(numbers + numbers.dtype.type(0.0))  # one zero
    return column


def require_keys(column: pa.Array) -> None:
    """Raise if a key column has a null or NaN."""
    if column.null_count:
        raise null_key()
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        raise nan_key()


def _combined(parts: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
    """For each row the number of its combination of parts, and the first row of each."""
    combined = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        encoded = part.dictionary_encode()
        numbers = combined * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        combined = pa.array(numbers).dictionary_encode().indices.to_numpy().astype(np.int64)
    return combined, _first_rows(combined)


def _by_state_key(codec: KeyCodec, parts: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
    """The same for keys that are rows or tuples, whose parts need the codec's checks."""
    numbers: dict[object, int] = {}
    found = [numbers.setdefault(key, len(numbers)) for key in codec.decode(parts)]
    indices = np.array(found, np.int64)
    return indices, _first_rows(indices)


def _first_rows(numbers: Numbers) -> Numbers:
    """The rows where a number occurs first; numbers are given in the order of first rows."""
    highest = np.maximum.accumulate(numbers)
    return np.flatnonzero(np.diff(highest, prepend=-1))
