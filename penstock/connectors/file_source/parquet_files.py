"""Parquet files as Arrow columns, with the results of Spark's reader. What it would read otherwise is refused.

As in Spark, columns are found by their names without regard to case, and a column that a file does not have is null.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.file_source.file_parts import FilePart
from penstock.errors import UnsupportedValueError
from penstock.model.options.execution_options import SOURCE_PACKED

WIDENED: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int16(): (pa.int8(), pa.uint8()),
    pa.int32(): (pa.int8(), pa.int16(), pa.uint8(), pa.uint16()),
    pa.int64(): (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    pa.float64(): (pa.float32(), pa.int8(), pa.int16(), pa.int32()),
    pa.string(): (pa.large_string(), pa.binary(), pa.large_binary()),
    pa.binary(): (pa.string(), pa.large_string(), pa.large_binary()),
}
"""Which types of a file may be read as another type, without a change of any value."""
MICROSECONDS, LOCAL_MICROSECONDS = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
SPARK_VERSION = b"org.apache.spark.version"
OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Metadata of files whose dates are of the calendar with Julian days."""
FIRST_WITH_NEW_CALENDAR = (3, 1)


def divide_parquet(file: FilePart, size_bytes: int) -> list[FilePart]:
    """The row groups of a file, so many together that a part has about the given size."""
    with pq.ParquetFile(file.path) as opened:
        metadata = opened.metadata
        sizes = [_compressed_bytes(metadata.row_group(index)) for index in range(metadata.num_row_groups)]
    parts: list[FilePart] = []
    begin = gathered = 0
    for index, size in enumerate(sizes):
        gathered += size
        if gathered >= size_bytes or index == len(sizes) - 1:
            parts.append(FilePart(file.path, gathered, begin, index + 1))
            begin, gathered = index + 1, 0
    return parts


def _compressed_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def read_parquet(part: FilePart, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or of some of its row groups, in the columns that are wanted."""
    if not part.size_bytes:
        return  # Spark passes over empty files, whatever their format
    with pq.ParquetFile(part.path, coerce_int96_timestamp_unit="us") as file:
        found = _found_columns(part.path, file.schema_arrow, wanted)
        _require_readable(part.path, file, [(name, field) for name, field in zip(found, wanted, strict=True) if name])
        count = file.metadata.num_row_groups
        groups = list(range(part.start, count if part.stop is None else part.stop))
        columns = list(filter(None, found))
        if not columns:
            rows = sum(file.metadata.row_group(index).num_rows for index in groups)
            yield from _null_batches(wanted, rows, batch_rows)
            return
        for batch in file.iter_batches(batch_rows, row_groups=groups, columns=columns, use_threads=False):
            arrays = [
                pa.nulls(batch.num_rows, field.type) if name is None else _converted(batch.column(name), field.type)
                for name, field in zip(found, wanted, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _null_batches(wanted: pa.Schema, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, batch_rows):
        count = min(batch_rows, rows - start)
        yield pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in wanted], schema=wanted)


def _found_columns(path: str, schema: pa.Schema, wanted: pa.Schema) -> list[str | None]:
    """For each wanted column its name in the file; None if the file does not have it."""
    by_name: dict[str, list[str]] = {}
    for name in schema.names:
        by_name.setdefault(name.lower(), []).append(name)
    found: list[str | None] = []
    for field in wanted:
        names = by_name.get(field.name.lower(), [])
        if len(names) > 1:
            raise UnsupportedValueError(
                f"the file {path!r} has the columns {', '.join(map(repr, names))}, which differ only in case; it is "
                f"not known which one is meant by {field.name!r}"
            )
        found.append(names[0] if names else None)
    return found


def _require_readable(path: str, file: pq.ParquetFile, columns: list[tuple[str, pa.Field]]) -> None:
    """Raise if a column is of a type whose values Spark would read differently, or not at all."""
    schema = file.schema_arrow
    for name, field in columns:
        kind = _plain_type(schema.field(name).type)
        if not _is_readable(kind, field.type):
            raise UnsupportedValueError(
                f"column {name!r} of the file {path!r} is of type {kind}, which is not read as {field.type}; declare "
                f"its own type in the schema, or let Spark read the source: {SOURCE_PACKED.key}: never"
            )
        if (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and _has_old_calendar(file):
            raise UnsupportedValueError(
                f"column {name!r} of the file {path!r} holds dates in the calendar of Spark 2 and Hive; let Spark read "
                f"the source: {SOURCE_PACKED.key}: never"
            )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_readable(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted == MICROSECONDS:
        return pa.types.is_timestamp(kind) and kind.unit in ("us", "ms")
    if wanted == LOCAL_MICROSECONDS:
        return pa.types.is_timestamp(kind) and kind.unit in ("us", "ms") and kind.tz is None
    if wanted == pa.binary() and pa.types.is_fixed_size_binary(kind):
        return True
    return bool(kind == wanted) or kind in WIDENED.get(wanted, ())


def _has_old_calendar(file: pq.ParquetFile) -> bool:
    metadata = file.metadata.metadata or {}
    if any(key in metadata for key in OLD_CALENDAR):
        return True
    version = metadata.get(SPARK_VERSION, b"").split(b".")[:2]
    return len(version) == 2 and tuple(map(int, version)) < FIRST_WITH_NEW_CALENDAR


def _converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(wanted):  # the same moment, whatever zone the file names
        return column.cast(pa.timestamp("us", tz=column.type.tz)).view(wanted)
    return column.cast(wanted)
