"""Stored columns in a form that other tools can read, and back: untyped values as JSON text or as a declared type.

Everything that has a type is the same in both forms. Pickles stay bytes: nothing is ever unpickled here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.codec import tagged
from penstock.codec.columns import decode_column, encode_column
from penstock.codec.tagged_json import from_json, to_json
from penstock.errors import UnsupportedValueError
from penstock.model.type_information import TypeInformation, list_of, map_of, row_of, scalar, tuple_of

Text = str
"""How text stands for untyped values: "json", or "plain" for text that is the value itself."""


def readable_type(type_info: TypeInformation) -> TypeInformation:
    """The type of a readable column."""
    if type_info.kind == "tagged":
        return scalar("STRING")
    if type_info.kind == "pickle":
        return scalar("BINARY")
    children = [readable_type(child) for child in type_info.children]
    if type_info.name == "LIST":
        return list_of(children[0])
    if type_info.name == "MAP":
        return map_of(children[0], children[1])
    if type_info.name in ("ROW", "TUPLE"):
        return tuple_of(children) if type_info.names is None else row_of(type_info.names, children)
    return type_info


def to_readable(column: pa.Array, type_info: TypeInformation) -> pa.Array:
    """A stored column with JSON text in place of untyped values."""
    return _each_leaf(column, type_info, _json_column)


def to_declared(column: pa.Array, type_info: TypeInformation, declared: TypeInformation) -> pa.Array:
    """A stored column whose untyped values are values of a declared type."""
    if type_info == declared:
        return column
    if type_info.uses_pickle:
        raise UnsupportedValueError(f"values of {type_info.text} are pickles, which are not read; they stay bytes")
    return encode_column(decode_column(column, type_info), declared)


def from_readable(column: pa.Array, type_info: TypeInformation, text: Text, *, is_key: bool = False) -> pa.Array:
    """The stored form of a readable column, or of one with plain values in place of untyped ones."""
    encode = tagged.encode_key if is_key else tagged.encode

    def to_tagged(leaf: pa.Array, leaf_type: TypeInformation) -> pa.Array:
        is_json = text == "json" and (pa.types.is_string(leaf.type) or pa.types.is_large_string(leaf.type))
        values = [from_json(item) if is_json and item is not None else item for item in leaf.to_pylist()]
        return pa.array([None if value is None else encode(value) for value in values], pa.binary())

    return _each_leaf(column, type_info, to_tagged)


def has_untyped(type_info: TypeInformation) -> bool:
    """Whether values of this type, or a part of them, have no declared type."""
    return type_info.kind == "tagged" or any(map(has_untyped, type_info.children))


def _json_column(leaf: pa.Array, type_info: TypeInformation) -> pa.Array:
    decode = tagged.decode
    return pa.array([None if data is None else to_json(decode(data)) for data in leaf.to_pylist()], pa.string())


def _each_leaf(column: Any, type_info: TypeInformation, change: Callable[[pa.Array, TypeInformation], pa.Array]) -> Any:
    """The column with its untyped leaves changed, and everything else in the type's own Arrow type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if type_info.kind == "tagged":
        return change(column, type_info)
    if not has_untyped(type_info):
        return column if column.type == type_info.arrow else column.cast(type_info.arrow)
    if type_info.name in ("ROW", "TUPLE"):
        fields = [_each_leaf(column.field(n), child, change) for n, child in enumerate(type_info.children)]
        names = [field.name for field in column.type]
        return pa.StructArray.from_arrays(fields, names=names, mask=column.is_null())
    lengths = np.asarray(pc.list_value_length(_as_list(column)).fill_null(0))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    entries = _as_list(column).flatten()
    if type_info.name == "LIST":
        return pa.ListArray.from_arrays(
            offsets, _each_leaf(entries, type_info.children[0], change), mask=column.is_null()
        )
    keys, items = (_each_leaf(entries.field(n), child, change) for n, child in enumerate(type_info.children))
    maps = pa.MapArray.from_arrays(offsets, keys, items)
    return pc.if_else(column.is_valid(), maps, pa.nulls(len(maps), maps.type)) if column.null_count else maps


def _as_list(column: pa.Array) -> pa.Array:
    """A map as the list of its entries."""
    if not pa.types.is_map(column.type):
        return column
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    return column.cast(pa.list_(entry))
