"""Columns of staged rows as values that database drivers take."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from penstock.codec.columns import decode_column
from penstock.connectors.database.database_table import NESTED, Column
from penstock.connectors.file.json_lines import shape_of
from penstock.model.time import Instant
from penstock.model.types import TypeInformation


def python_values(array: pa.Array, type_info: TypeInformation) -> list[Any]:
    """The values in the form that standard DB-API drivers take: nested ones as JSON text, durations in microseconds."""
    if type_info.name in NESTED:
        return json_texts(array, type_info)
    if type_info.name == "DURATION":
        return list(array.cast(pa.int64()).to_pylist())
    values = decode_column(array, type_info)
    return [_plain(value) for value in values] if type_info.name == "INSTANT" else values


def json_texts(array: pa.Array, type_info: TypeInformation) -> list[str | None]:
    """Nested values as JSON, in the form of a FileSink's JSON lines."""
    shape, encode = shape_of(type_info), msgspec.json.Encoder().encode
    return [
        None if value is None else encode(value if shape is None else shape(value)).decode()
        for value in decode_column(array, type_info)
    ]


def parameter_rows(
    batch: pa.RecordBatch, columns: Sequence[Column], values: Any = python_values
) -> list[tuple[Any, ...]]:
    """The rows of a batch as parameters of a statement."""
    arrays = zip(batch.columns, columns, strict=True)
    return list(zip(*(values(array, column.type) for array, column in arrays), strict=True))


def _plain(value: Any) -> Any:
    return value.to_datetime() if isinstance(value, Instant) else value
