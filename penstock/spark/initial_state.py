"""The initial state of a Spark stateful processor: the rows of a batch DataFrame with their keys."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, GroupedData

from penstock.errors import ArgumentError, UsageError
from penstock.model.row import row_class
from penstock.model.types import TypeInformation
from penstock.spark.dataframe_checks import describe
from penstock.spark.processor_values import struct_reader

MAX_INITIAL_ROWS = 100_000
"""They travel with the plan to every TaskManager."""


def read_initial_state(
    initial_state: Any, columns: Sequence[str] | None, selector: Any
) -> tuple[TypeInformation, tuple[tuple[Any, Any], ...]]:
    """The type of the rows, and each row with its key, collected in the driver.

    The key is made of the same columns as that of the stream, or by the same function.
    """
    frame = initial_state._df if isinstance(initial_state, GroupedData) else initial_state
    if not isinstance(frame, DataFrame) or frame.isStreaming:
        raise ArgumentError(
            f"initial_state= takes a batch DataFrame, grouped or not, not {initial_state!r}; read it with spark.read"
        )
    missing = [column for column in columns or () if column not in frame.columns]
    if missing:
        raise UsageError(
            f"the initial state has no column {missing[0]!r}, by which the stream is keyed; it has {frame.columns}: "
            f"rename a column with withColumnRenamed"
        )
    found = frame.limit(MAX_INITIAL_ROWS + 1).collect()
    if len(found) > MAX_INITIAL_ROWS:
        raise UsageError(
            f"the initial state has more than {MAX_INITIAL_ROWS:,} rows, which are sent to every TaskManager; write a "
            f"savepoint of it instead, with Savepoint.new(spark).with_keyed_state(…), and start the job with -s"
        )
    record_type = describe(frame)
    read, make = struct_reader(record_type), row_class(record_type.names or ()).make
    rows = [make(read(row)) for row in found]
    return record_type, tuple((_key_of(row, columns, selector), row) for row in rows)


def _key_of(row: Any, columns: Sequence[str] | None, selector: Any) -> Any:
    if columns is None:
        return selector.get_key(row)
    return row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)
