"""The operator of a BatchProcessFunction: Arrow columns in, Arrow columns out, one call for each batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec.columns import cast_column
from penstock.codec.key_dictionary import key_slots
from penstock.codec.keys import KeyCodec
from penstock.codec.row_codec import RowCodec
from penstock.errors import UnsupportedValueError
from penstock.graph.job_graph import OperatorPlan
from penstock.model.batch_functions import BatchProcessFunction
from penstock.model.row_groups import Numbers
from penstock.model.type_information import TypeInformation
from penstock.model.types import resolve_type
from penstock.runtime.operators.batch import Batch, ColumnRows
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.record_operators import Operator

BatchTimes = BatchProcessFunction.Context


class KeyedBatch(Operator):
    """Calls `process_batch` with the rows of a batch and their distinct keys."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._call_context = _BatchContext(self)
        self._reader = ColumnReader(plan, context.backend().key_codec)

    def process(self, batch: Batch) -> Batch | None:
        if not len(batch):
            return None
        columns = self._reader.columns_of(batch)
        assert columns.keys is not None
        context = self._call_context
        context.begin(columns.timestamps)
        keys = key_slots(self._reader.key_codec, columns.keys)
        emitted = self.function.process_batch(columns.rows, keys, context)
        if emitted is None:
            return None
        rows, record_type = checked_output(emitted, self.plan.output_type)
        timestamps = context.timestamps_of(rows.num_rows, columns.rows.num_rows)
        return Batch.of_columns(ColumnRows(rows, record_type, timestamps)) if rows.num_rows else None

    def place_in(self, batch: Batch, before: int) -> str:
        return f"records {before + 1} to {before + len(batch)}"


class ColumnReader:
    """The columns of the batches that an operator gets."""

    def __init__(self, plan: OperatorPlan, key_codec: KeyCodec) -> None:
        self._codec = RowCodec(plan.input_type)
        self.key_codec = key_codec

    def columns_of(self, batch: Batch) -> ColumnRows:
        """The rows with their keys as columns. Records that are Python objects are encoded."""
        if batch.columns is not None and batch.columns.keys is not None:
            return batch.columns
        assert batch.keys is not None
        rows = pa.RecordBatch.from_arrays(self._codec.encode(batch.records), [name for name, _ in self._codec.fields])
        timestamps = None if batch.timestamps is None else pa.array(batch.timestamps, pa.int64())
        keys = tuple(self.key_codec.encode(batch.keys))
        return ColumnRows(rows, self._codec.type_info, timestamps, keys, self.key_codec)


class _BatchContext(BatchTimes):
    """The context of the batch that is being processed."""

    def __init__(self, operator: KeyedBatch) -> None:
        self._operator = operator
        self._timestamps: pa.Array | None = None
        self._source_rows: Numbers | None = None

    def begin(self, timestamps: pa.Array | None) -> None:
        """Set the timestamps of the next batch."""
        self._timestamps, self._source_rows = timestamps, None

    @property
    def timestamps(self) -> pa.Array | None:
        return self._timestamps

    def current_watermark(self) -> int:
        return self._operator.watermark

    def current_processing_time(self) -> int:
        return self._operator.context.subtask.now_ms

    def set_source_rows(self, rows: Sequence[int] | Numbers) -> None:
        self._source_rows = np.asarray(rows, np.int64)

    def timestamps_of(self, count: int, row_count: int) -> pa.Array | None:
        """The timestamps of the rows of a result."""
        if self._timestamps is None:
            return None
        rows = self._source_rows
        if rows is None and count == row_count:
            return self._timestamps
        if rows is None or len(rows) != count:
            given = "set_source_rows() was not called" if rows is None else f"set_source_rows() got {len(rows)} rows"
            raise UnsupportedValueError(
                f"process_batch() returned {count} rows for a batch of {row_count}, and {given}; call "
                f"ctx.set_source_rows(rows) with the row of the batch that each row of the result comes from, so that "
                f"it has a timestamp"
            )
        return self._timestamps.take(pa.array(rows))


def checked_output(emitted: Any, declared: TypeInformation) -> tuple[pa.RecordBatch, TypeInformation]:
    """What a function has returned, as rows of the declared type. Columns are matched by name."""
    if isinstance(emitted, pa.Table):
        emitted = pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in emitted.columns], emitted.schema.names
        )
    if not isinstance(emitted, pa.RecordBatch):
        raise UnsupportedValueError(
            f"process_batch() returned an object of type {type(emitted).__name__}; return a pyarrow.RecordBatch, such "
            f'as pa.record_batch({{"customer": names, "total": totals}}), or None'
        )
    if declared.kind == "tagged":
        declared = resolve_type(emitted.schema)
    codec = RowCodec(declared)
    names = [name for name, _ in codec.fields]
    if sorted(names) != sorted(emitted.schema.names):
        raise UnsupportedValueError(
            f"process_batch() returned the columns {', '.join(emitted.schema.names) or 'none'}; output_type declares "
            f"{', '.join(names)}"
        )
    columns = [_owned(cast_column(emitted.column(name), kind)) for name, kind in zip(names, codec.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names), declared


def _owned(column: pa.Array) -> pa.Array:
    """A copy of numbers: Arrow shares them with the numpy array of the function, which may change it (PROTOCOL R10)."""
    if not pa.types.is_primitive(column.type):
        return column
    buffers = [None if buffer is None else pa.py_buffer(buffer.to_pybytes()) for buffer in column.buffers()]
    return pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset)
