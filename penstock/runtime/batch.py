"""Records on their way through the operators of one subtask."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Batch:
    """Some records of an epoch, in order. Keys are there only where the stage's current key applies."""

    records: list[Any]
    timestamps: list[int | None] | None = None
    """Milliseconds, one per record; None in jobs without event time."""
    keys: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.records)


@dataclass(slots=True)
class EdgeBatch:
    """What arrived on one input edge of the stage."""

    edge: int
    """Position in the stage's `inputs`."""
    batch: Batch
    """Empty if nothing reads the edge."""
    rows: int
    dropped: int = 0
    """Rows that were left out because they had no event time."""
