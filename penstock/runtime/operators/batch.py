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

    def extend(self, other: "Batch") -> None:
        """Append the records of another batch that has no keys. Records have timestamps once some have."""
        if self.timestamps is not None or other.timestamps is not None:
            self.timestamps = [*_timestamps(self), *_timestamps(other)]
        self.records.extend(other.records)
        for tag, part in (other.side or {}).items():
            self.side = self.side or {}
            self.side.setdefault(tag, Batch([])).extend(part)

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


def _timestamps(batch: Batch) -> list[int | None]:
    return [None] * len(batch.records) if batch.timestamps is None else batch.timestamps
