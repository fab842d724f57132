"""The writer of a staged sink: rows in memory as Arrow batches, made durable at a checkpoint (PROTOCOL R28)."""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.codec.row_codec import RowCodec
from penstock.connectors.staged.staged_files import Description, stage
from penstock.model.sink import SinkContext, SinkWriter
from penstock.model.types import TypeInformation

PART_BYTES = 32 * 1024 * 1024
"""Rows of this size are staged before the checkpoint, so that a writer's memory is bounded."""


class StagedEncoder(Protocol):
    """Turns records into the columns that a sink publishes."""

    def encode(self, records: Sequence[Any]) -> pa.RecordBatch: ...


class ColumnEncoder:
    """The columns of the record type: one per field of a row, or one named `value`."""

    def __init__(self, record_type: TypeInformation) -> None:
        self._codec = RowCodec(record_type)
        self.schema = pa.schema([pa.field(name, arrow) for name, arrow in self._codec.fields])

    def encode(self, records: Sequence[Any]) -> pa.RecordBatch:
        """One batch; a record that does not fit its type is an UnsupportedValueError."""
        return pa.RecordBatch.from_arrays(self._codec.encode(records), schema=self.schema)


class StagedWriter(SinkWriter):
    """Holds the rows since the last checkpoint. The rows of the running epoch come last and can be dropped."""

    def __init__(self, encoder: StagedEncoder, context: SinkContext) -> None:
        self._encoder = encoder
        self._context = context
        self._rows = _Rows()
        self._at_epoch_start = _Rows()
        self._sequence = 0

    def begin_epoch(self) -> None:
        self._at_epoch_start = self._rows.copy()

    def write(self, records: Sequence[Any]) -> None:
        if not records:
            return
        self._rows.batches.append(self._encoder.encode(records))
        if sum(batch.nbytes for batch in self._rows.batches) >= PART_BYTES:
            self._stage_all()

    def roll_back(self) -> None:
        self._rows = self._at_epoch_start.copy()

    def pre_commit(self) -> list[tuple[str, Description]]:
        self._stage_all()
        staged, self._rows = self._rows.staged, _Rows()
        return staged

    def close(self) -> None:
        self._rows = self._at_epoch_start = _Rows()

    def _stage_all(self) -> None:
        if not self._rows.batches:
            return
        self._sequence += 1
        part = stage(self._rows.batches, self._context, self._sequence)
        self._rows = _Rows([], [*self._rows.staged, part])


class _Rows:
    """Rows in memory, which follow those that are staged."""

    def __init__(
        self,
        batches: list[pa.RecordBatch] | None = None,
        staged: list[tuple[str, Description]] | None = None,
    ) -> None:
        self.batches = batches if batches is not None else []
        self.staged = staged if staged is not None else []

    def copy(self) -> "_Rows":
        return _Rows(list(self.batches), list(self.staged))
