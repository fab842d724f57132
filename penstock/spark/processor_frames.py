"""Records as pandas DataFrames and back, in the form in which Spark's pandas functions see them.

Timestamps have no time zone; they are in the session's.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.errors import UnsupportedValueError
from penstock.model.type_information import TypeInformation


def to_frame(records: Sequence[Any], type_info: TypeInformation, time_zone: str) -> pd.DataFrame:
    """The records as a frame with a column for each field."""
    columns = list(zip(*records, strict=True)) or [()] * len(type_info.children)
    fields = zip(columns, type_info.children, strict=True)
    arrays = [encode_column(column, field) for column, field in fields]
    table = pa.Table.from_arrays(arrays, names=list(type_info.names or ()))
    frame = table.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=True)
    for name, field in zip(type_info.names or (), type_info.children, strict=True):
        if field.name == "TIMESTAMP":
            frame[name] = frame[name].dt.tz_convert(time_zone).dt.tz_localize(None)
    return frame


def from_frame(frame: Any, type_info: TypeInformation, time_zone: str) -> list[Any]:
    """The rows of a frame as records; its columns are found by name, or by position if their labels are no text."""
    names = type_info.names or ()
    if not isinstance(frame, pd.DataFrame):
        raise UnsupportedValueError(f"a pandas DataFrame is expected, not a {type(frame).__name__}")
    by_name = all(isinstance(label, str) for label in frame.columns)
    missing = [name for name in names if name not in frame.columns] if by_name else []
    if missing or len(frame.columns) != len(names):
        raise UnsupportedValueError(
            f"the DataFrame has the columns {list(frame.columns)}, the output type the fields {list(names)}; return "
            f"exactly those columns"
        )
    columns = []
    for index, (name, field) in enumerate(zip(names, type_info.children, strict=True)):
        series = frame[name] if by_name else frame.iloc[:, index]
        columns.append(decode_column(_to_array(series, name, field, time_zone), field))
    return list(zip(*columns, strict=True))


def _to_array(series: Any, name: str, field: TypeInformation, time_zone: str) -> pa.Array:
    if field.name == "TIMESTAMP" and getattr(series.dtype, "kind", "") == "M" and series.dt.tz is None:
        series = series.dt.tz_localize(time_zone, ambiguous=False)  # as in Spark: when clocks go back, winter time
    try:
        return pa.array(series, type=field.arrow, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnsupportedValueError(f"column {name!r} of the DataFrame does not fit {field.text}: {error}") from None
