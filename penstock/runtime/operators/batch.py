"""Batches of records between the operators of one subtask."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(slots=True)
class Batch:
    """Some records of an epoch, in order. `keys` is set only where the stage's current key applies."""

    records: list[Any]
    timestamps: list[int | None] | None = None
    """Milliseconds, one per record; None in jobs without event time."""
    keys: list[Any] | None = None
    side: "dict[str, Batch] | None" = None
    """Records of side outputs, by the id of their tag."""

    def __len__(self) -> int:
        return len(self.records)

    def slice(self, start: int, stop: int) -> "Batch":
        """Some of the records, with their timestamps and keys."""
        timestamps = None if self.timestamps is None else self.timestamps[start:stop]
        return Batch(self.records[start:stop], timestamps, None if self.keys is None else self.keys[start:stop])


@dataclass(slots=True)
class EdgeBatch:
    """What arrived on one input edge of the stage."""

    edge: int
    """Position in the stage's `inputs`."""
    batch: Batch
    """Empty if nothing reads the edge."""
    rows: int
    dropped: int = 0
    """Rows that were dropped because they had no event time."""
    columns: pa.RecordBatch | None = None
    """The rows as they arrived, if they arrived as Arrow columns."""

    def slice(self, start: int, stop: int) -> "EdgeBatch":
        """Some of the rows, of a batch that is read."""
        batch = self.batch.slice(start, stop)
        columns = None if self.columns is None else self.columns.slice(start, len(batch))
        return EdgeBatch(self.edge, batch, len(batch), 0, columns)
