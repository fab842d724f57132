"""Keyed state as Parquet: the tables of a canonical savepoint, the same from every backend.

Columns: `key_group`, `key_hash`, `key` (a struct where the stream has several key columns), `namespace` for a state
with namespaces, `map_key` for a map, `value`, and `expires_at` for a state with a time to live. Rows are sorted by
key group, key, namespace and map key; every entry occurs once. Any Parquet reader can read them; the manifest describes
them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.errors import CheckpointCorruptError, CheckpointDeclinedError, PenstockError
from penstock.model.snapshot import StateTableInfo, TableFile
from penstock.model.type_information import parse_type
from penstock.state.format.table_rows import (
    DELETED_COLUMN,
    HASH_COLUMN,
    MAP_KEY_COLUMN,
    NAMESPACE_COLUMN,
    VALUE_COLUMN,
    in_key_groups,
    key_codec_of,
    key_groups_of,
    schema_of,
)
from penstock.state.ttl.stamps import map_lists, without_ttl

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile  # imported when it is used: it takes long, and most processes need none

KEY_GROUP_COLUMN, KEY_COLUMN, EXPIRES_COLUMN = "key_group", "key", "expires_at"
GROUP_ROWS = 128 * 1024
"""Rows of a row group: the least that a reader of some key groups has to read."""
EXPIRES = pa.timestamp("ms", tz="UTC")
MAX_PARALLELISM_KEY = b"penstock.max_parallelism"


def parquet_schema(info: StateTableInfo) -> pa.Schema:
    """The columns of a table in the file."""
    keys = key_codec_of(info).fields
    key = keys[0][1] if len(keys) == 1 else pa.struct([(f"f{index}", arrow) for index, (_, arrow) in enumerate(keys)])
    fields = [pa.field(KEY_GROUP_COLUMN, pa.int32(), nullable=False), pa.field(HASH_COLUMN, pa.int32(), nullable=False)]
    fields.append(pa.field(KEY_COLUMN, key, nullable=False))
    if info.namespace is not None:
        fields.append(pa.field(NAMESPACE_COLUMN, parse_type(info.namespace).arrow, nullable=False))
    if info.map_key_type is not None:
        fields.append(pa.field(MAP_KEY_COLUMN, parse_type(info.map_key_type).arrow, nullable=False))
    fields.append(pa.field(VALUE_COLUMN, parse_type(without_ttl(info).value_type).arrow))
    if info.ttl:
        fields.append(pa.field(EXPIRES_COLUMN, pa.list_(EXPIRES) if info.kind == "list" else EXPIRES))
    return pa.schema(fields)


def encode_table(info: StateTableInfo, rows: pa.Table, max_parallelism: int, ttl_ms: int = 0) -> tuple[bytes, int]:
    """A Parquet file of these rows, which have the columns of `schema_of(info)`, and the number of its entries.

    The last of several rows of one entry wins; deleted entries are left out.
    """
    from pyarrow.parquet import write_table

    table = in_order(rows, info, max_parallelism)
    sink = pa.BufferOutputStream()
    shown = table_of(table, info, max_parallelism, ttl_ms)
    shown = shown.replace_schema_metadata({MAX_PARALLELISM_KEY: str(max_parallelism)})
    try:
        write_table(shown, sink, compression="zstd", row_group_size=GROUP_ROWS)
    except pa.ArrowNotImplementedError as error:
        raise CheckpointDeclinedError(
            f"state {info.name!r} of operator {info.operator_uid!r} is of {info.value_type}, which has no form in "
            f"Parquet ({error}); take a native savepoint"
        ) from error
    return sink.getvalue().to_pybytes(), len(table)


def table_of(rows: pa.Table, info: StateTableInfo, max_parallelism: int, ttl_ms: int = 0) -> pa.Table:
    """Rows in the form of the backends, converted to the form of a savepoint."""
    groups = pa.array(key_groups_of(rows, max_parallelism).astype(np.int32))
    columns: list[pa.Array | pa.ChunkedArray] = [groups, rows[HASH_COLUMN], _joined_key(rows, info)]
    if info.namespace is not None:
        columns.append(rows[NAMESPACE_COLUMN])
    if info.map_key_type is not None:
        columns.append(rows[MAP_KEY_COLUMN])
    value = rows[VALUE_COLUMN]
    if info.ttl:
        columns += _split_stamps(value.combine_chunks(), ttl_ms, is_list=info.kind == "list")
    else:
        columns.append(value)
    return pa.Table.from_arrays(columns, schema=parquet_schema(info))


def rows_of(table: pa.Table, info: StateTableInfo, ttl_ms: int = 0) -> pa.Table:
    """A table of a savepoint in the form that backends restore; the reverse of `table_of`."""
    columns: list[pa.Array | pa.ChunkedArray] = [table[HASH_COLUMN]]
    key = table[KEY_COLUMN].combine_chunks()
    columns += key.flatten() if len(key_codec_of(info).fields) > 1 else [key]
    if info.namespace is not None:
        columns.append(table[NAMESPACE_COLUMN])
    if info.map_key_type is not None:
        columns.append(table[MAP_KEY_COLUMN])
    value = table[VALUE_COLUMN]
    if info.ttl:
        expires = table[EXPIRES_COLUMN].combine_chunks()
        value = _join_stamps(value.combine_chunks(), expires, ttl_ms, is_list=info.kind == "list")
    columns += [value, pa.array(np.zeros(len(table), dtype=np.bool_))]
    return pa.Table.from_arrays(columns, schema=schema_of(info))


def decode_table(
    data: bytes, file: TableFile, info: StateTableInfo, key_groups: tuple[int, int], max_parallelism: int
) -> pa.Table:
    """The rows of a file that are in these key groups, in the form that backends restore.

    Raises CheckpointCorruptError if the file is damaged. The caller has verified its hash.
    """
    where = f"Parquet file of state {info.name!r} of operator {info.operator_uid!r}"
    with damage(where):
        reader = open_parquet(data)
        # Checked before rows are decoded, because a few bytes can encode very many rows.
        if reader.metadata.num_rows != file.rows:
            raise CheckpointCorruptError(where, f"{file.rows} rows", f"{reader.metadata.num_rows} rows")
        row_groups = _row_groups(reader, key_groups, max_parallelism)
        table = require_columns(reader.read_row_groups(row_groups, use_threads=False), parquet_schema(info), where)
        rows = rows_of(table, info, file.ttl_ms)
        rows.validate(full=True)
    return in_key_groups(rows, key_groups, max_parallelism)


def open_parquet(data: bytes) -> "ParquetFile":
    """A reader of a file in memory. Read from it with `use_threads=False`.

    Arrow's threads would refer to `data` for a moment after a read has returned. To release a Python object they need
    the GIL, and a thread that asks for it while the interpreter shuts down aborts the process.
    """
    from pyarrow.parquet import ParquetFile

    return ParquetFile(pa.BufferReader(data), pre_buffer=False)


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Converts errors about a file's contents to CheckpointCorruptError."""
    try:
        yield
    except CheckpointCorruptError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CheckpointCorruptError(where, "a readable table", f"{type(error).__name__}: {error}") from error
    except PenstockError as error:
        raise CheckpointCorruptError(where, "a table of known types", str(error)) from error


def require_columns(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The table, if it has exactly these columns; otherwise raises CheckpointCorruptError."""
    if table.schema.names != schema.names:
        raise CheckpointCorruptError(where, f"columns {schema.names}", f"{table.schema.names}")
    for field in schema:
        found = table.schema.field(field.name).type
        if _shape(found) != _shape(field.type):
            raise CheckpointCorruptError(where, f"column {field.name} of {field.type}", f"{found}")
    if any(table[field.name].null_count for field in schema if not field.nullable):
        raise CheckpointCorruptError(where, "no null in keys", "a null")
    return table.cast(schema)


def _shape(arrow: pa.DataType) -> str:
    """A type without the inner names of lists and maps, which differ between Parquet libraries."""
    if pa.types.is_map(arrow):
        return f"map<{_shape(arrow.key_type)}, {_shape(arrow.item_type)}>"
    if pa.types.is_list(arrow):
        return f"list<{_shape(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(f'{field.name!r} {_shape(field.type)}' for field in arrow)}>"
    return str(arrow)


def _row_groups(reader: "ParquetFile", key_groups: tuple[int, int], max_parallelism: int) -> list[int]:
    """The row groups that may contain rows of these key groups; all of them if the file has another max parallelism.

    Rows are sorted by key group. Parquet's statistics are used only to skip row groups.
    """
    numbers = list(range(reader.metadata.num_row_groups))
    if reader.schema_arrow.names[:1] != [KEY_GROUP_COLUMN]:
        return numbers
    found = [reader.metadata.row_group(number).column(0).statistics for number in numbers]
    is_known = all(statistics is not None and statistics.has_min_max for statistics in found)
    if not is_known or _has_other_key_groups(reader, max_parallelism):
        return numbers
    return [
        number
        for number, statistics in zip(numbers, found, strict=True)
        if statistics.min <= key_groups[1] and key_groups[0] <= statistics.max
    ]


def _has_other_key_groups(reader: "ParquetFile", max_parallelism: int) -> bool:
    """The file was written for another max parallelism."""
    metadata = reader.schema_arrow.metadata or {}
    return metadata.get(MAX_PARALLELISM_KEY) != str(max_parallelism).encode()


def in_order(rows: pa.Table, info: StateTableInfo, max_parallelism: int) -> pa.Table:
    """Every entry once, by key group, key, namespace and map key."""
    rows = rows.combine_chunks()
    leaves = _sort_columns(rows, info)
    groups = key_groups_of(rows, max_parallelism).astype(np.int32)
    keys = {"group": pa.array(groups), **{f"c{index}": leaf for index, leaf in enumerate(leaves)}}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    kept = _last_of_each([leaf.take(order) for leaf in leaves])
    if kept is not None:
        order = order.filter(pa.array(kept))
    ordered = rows.take(order)
    deleted = ordered[DELETED_COLUMN].to_numpy()
    return ordered.filter(pa.array(~deleted)) if deleted.any() else ordered


def _sort_columns(rows: pa.Table, info: StateTableInfo) -> list[pa.Array]:
    """The columns that identify entries, with structs flattened, because structs cannot be sorted."""
    names = [name for name, _ in key_codec_of(info).fields]
    if info.namespace is not None:
        names.append(NAMESPACE_COLUMN)
    if info.map_key_type is not None:
        names.append(MAP_KEY_COLUMN)
    if info.kind == "timer":
        names.append(VALUE_COLUMN)
    return [leaf for name in names for leaf in _leaves(rows[name].combine_chunks())]


def _leaves(column: pa.Array) -> list[pa.Array]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_struct(column.type):
        return [leaf for child in column.flatten() for leaf in _leaves(child)]
    if pa.types.is_list(column.type) or pa.types.is_map(column.type):
        return [pa.array([repr(value) for value in column.to_pylist()])]  # of a map key only
    return [column.cast(pa.int64()) if pa.types.is_duration(column.type) else column]


def _last_of_each(columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_] | None:
    """Which of the sorted rows are the last of their entry; None if all are."""
    count = len(columns[0])
    if count < 2:
        return None
    same = np.ones(count - 1, dtype=np.bool_)
    for column in columns:
        above, below = column.slice(0, count - 1), column.slice(1)
        both_null = pc.and_(pc.is_null(above), pc.is_null(below))
        equal = pc.coalesce(pc.equal(above, below), both_null)
        same &= equal.to_numpy(zero_copy_only=False)
        if not same.any():
            return None
    return np.append(~same, True)


def _joined_key(rows: pa.Table, info: StateTableInfo) -> pa.Array | pa.ChunkedArray:
    names = [name for name, _ in key_codec_of(info).fields]
    if len(names) == 1:
        return rows[names[0]]
    parts = [rows[name].combine_chunks() for name in names]
    return pa.StructArray.from_arrays(parts, names=[f"f{index}" for index in range(len(parts))])


def _split_stamps(value: pa.Array, ttl_ms: int, *, is_list: bool) -> list[pa.Array]:
    """Entries, and when they expire."""
    if is_list:
        return [map_lists(value, lambda pairs: pairs.flatten()[1]), map_lists(value, lambda p: _expires(p, ttl_ms))]
    return [value.flatten()[1], _expires(value, ttl_ms)]


def _expires(pairs: pa.Array, ttl_ms: int) -> pa.Array:
    return pc.add(pairs.flatten()[0], pa.scalar(ttl_ms, pa.int64())).cast(EXPIRES)


def _join_stamps(value: pa.Array, expires: pa.Array, ttl_ms: int, *, is_list: bool) -> pa.Array:
    if is_list:
        stamps = _stamps(expires.flatten(), ttl_ms)
        return map_lists(value, lambda entries: _pairs(stamps, entries))
    return _pairs(_stamps(expires, ttl_ms), value)


def _stamps(expires: pa.Array, ttl_ms: int) -> pa.Array:
    return pc.subtract(expires.cast(pa.int64()), pa.scalar(ttl_ms, pa.int64()))


def _pairs(stamps: pa.Array, entries: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([stamps, entries], names=["f0", "f1"])
