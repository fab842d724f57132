"""Entries of a state table as Arrow columns.

`key_hash`, the key columns, `namespace` where the state has namespaces, `map_key` for a map, `value`, `deleted`.

The order of rows matters only for rows of one entry: the last one wins.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.codec.keys import KeyCodec
from penstock.errors import UnsupportedValueError
from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import parse_type
from penstock.state.backend.map_keys import map_keys_of

HASH_COLUMN, NAMESPACE_COLUMN, MAP_KEY_COLUMN = "key_hash", "namespace", "map_key"
VALUE_COLUMN, DELETED_COLUMN = "value", "deleted"
BATCH_ROWS = 65536
BATCH_ELEMENTS = 4 * 1024 * 1024
"""The maximum number of list elements in one batch, so that offsets fit into 32 bits."""


class Rows(NamedTuple):
    """Entries of one table, column by column."""

    keys: list[Any]
    """State keys; of a state with namespaces pairs of state key and namespace."""
    map_keys: list[Any] | None
    """Stored map keys; None unless it is a map."""
    values: list[Any] | pa.Array
    """Stored values, or all of them as an array; for a timer its timestamp. None if the entry is deleted."""
    deleted: list[bool] | None
    """None if no row is a delete."""


def key_codec_of(info: StateTableInfo) -> KeyCodec:
    """The codec of the keys that a table was saved with."""
    return KeyCodec(tuple(map(parse_type, info.key_types)))


def namespace_codec_of(info: StateTableInfo) -> KeyCodec | None:
    """The codec of a table's namespaces; None if it has none. Namespaces are encoded like keys, but not hashed."""
    return None if info.namespace is None else KeyCodec((parse_type(info.namespace),))


def schema_of(info: StateTableInfo) -> pa.Schema:
    """The columns of a table."""
    fields = [pa.field(HASH_COLUMN, pa.int32(), nullable=False)]
    fields += [pa.field(name, arrow, nullable=False) for name, arrow in key_codec_of(info).fields]
    if info.namespace is not None:
        fields.append(pa.field(NAMESPACE_COLUMN, parse_type(info.namespace).arrow, nullable=False))
    if info.map_key_type is not None:
        fields.append(pa.field(MAP_KEY_COLUMN, parse_type(info.map_key_type).arrow, nullable=False))
    fields.append(pa.field(VALUE_COLUMN, parse_type(info.value_type).arrow))
    fields.append(pa.field(DELETED_COLUMN, pa.bool_(), nullable=False))
    return pa.schema(fields)


def encode_rows(rows: Rows, info: StateTableInfo, key_codec: KeyCodec) -> Iterator[pa.RecordBatch]:
    """The rows as batches of limited size, in order."""
    schema = schema_of(info)
    for start, end in _batches(rows.values, is_list=info.kind == "list"):
        yield from _encode_batch(_slice(rows, start, end), info, key_codec, schema)


def _batches(values: list[Any] | pa.Array, *, is_list: bool) -> Iterator[tuple[int, int]]:
    """First and last+1 index of each batch."""
    start = elements = 0
    for end in range(BATCH_ROWS, len(values), BATCH_ROWS) if not is_list else ():
        yield start, end
        start = end
    if is_list:
        for index, value in enumerate(values):
            size = 0 if value is None else len(value)
            if index > start and (elements + size > BATCH_ELEMENTS or index - start >= BATCH_ROWS):
                yield start, index
                start, elements = index, 0
            elements += size
    if start < len(values):
        yield start, len(values)


def _slice(rows: Rows, start: int, end: int) -> Rows:
    if start == 0 and end == len(rows.keys):
        return rows
    return Rows(*(None if column is None else column[start:end] for column in rows))  # type: ignore[arg-type]


def _encode_batch(rows: Rows, info: StateTableInfo, key_codec: KeyCodec, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    count = len(rows.keys)
    try:
        namespaces = namespace_codec_of(info)
        keys = key_codec.encode(rows.keys if namespaces is None else [key for key, _ in rows.keys])
        columns = [pa.array(key_codec.hash_batch(keys)), *keys]
        if namespaces is not None:
            columns += namespaces.encode([namespace for _, namespace in rows.keys])
        if rows.map_keys is not None:
            assert info.map_key_type is not None
            columns.append(map_keys_of(parse_type(info.map_key_type)).encode(rows.map_keys))
        is_array = isinstance(rows.values, pa.Array)
        columns.append(rows.values if is_array else encode_column(rows.values, parse_type(info.value_type)))
        deleted = np.zeros(count, dtype=np.bool_) if rows.deleted is None else np.array(rows.deleted, dtype=np.bool_)
        columns.append(pa.array(deleted))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    except (UnsupportedValueError, pa.ArrowInvalid, pa.ArrowTypeError):
        # Values were checked when they were written, so this is a column over 2 GiB.
        if count == 1:
            raise
        yield from _encode_batch(_slice(rows, 0, count // 2), info, key_codec, schema)
        yield from _encode_batch(_slice(rows, count // 2, count), info, key_codec, schema)
    else:
        yield batch


def decode_rows(table: pa.Table, info: StateTableInfo) -> Rows:
    """The rows of a table whose schema is `schema_of(info)`."""
    key_codec = key_codec_of(info)
    keys = key_codec.decode([table[name].combine_chunks() for name, _ in key_codec.fields])
    namespaces = namespace_codec_of(info)
    if namespaces is not None:
        keys = list(zip(keys, namespaces.decode([table[NAMESPACE_COLUMN].combine_chunks()]), strict=True))
    map_keys = None
    if info.map_key_type is not None:
        map_keys = map_keys_of(parse_type(info.map_key_type)).decode(table[MAP_KEY_COLUMN].combine_chunks())
    values = decode_column(table[VALUE_COLUMN].combine_chunks(), parse_type(info.value_type))
    deleted = table[DELETED_COLUMN].to_numpy()
    return Rows(keys, map_keys, values, deleted.tolist() if deleted.any() else None)


def in_key_groups(table: pa.Table, key_groups: tuple[int, int], max_parallelism: int) -> pa.Table:
    """The rows whose key belongs to one of the key groups, first and last included."""
    groups = key_groups_of(table, max_parallelism)
    inside = (groups >= key_groups[0]) & (groups <= key_groups[1])
    return table if inside.all() else table.filter(pa.array(inside))


def key_groups_of(table: pa.Table, max_parallelism: int) -> npt.NDArray[np.int32]:
    """The key group of each row: Spark's `pmod(hash, max_parallelism)`."""
    hashes: npt.NDArray[np.int32] = table[HASH_COLUMN].to_numpy()
    groups: npt.NDArray[np.int32] = hashes & np.int32(max_parallelism - 1)
    if max_parallelism & (max_parallelism - 1):  # not a power of two, for which this is the same, and much faster
        groups = np.mod(hashes, np.int32(max_parallelism))
    return groups


def empty_table(info: StateTableInfo) -> pa.Table:
    """No rows."""
    return schema_of(info).empty_table()
