"""Batches of records between the operators of one subtask: as Python objects, as Arrow columns, or both."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.codec.keys import KeyCodec
from penstock.codec.row_codec import RowCodec
from penstock.model.type_information import TypeInformation


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows as Arrow columns. They become Python objects only where an operator asks for records."""

    rows: pa.RecordBatch
    """The columns of `RowCodec(record_type)`."""
    record_type: TypeInformation
    timestamps: pa.Array | None = None
    """Milliseconds, null for a row without one; None in jobs without event time."""
    keys: tuple[pa.Array, ...] | None = None
    """The key columns, without nulls, where the stage's current key applies."""
    key_codec: KeyCodec | None = None

    def slice(self, start: int, stop: int) -> "ColumnRows":
        """Some of the rows."""
        count = stop - start
        timestamps = None if self.timestamps is None else self.timestamps.slice(start, count)
        keys = None if self.keys is None else tuple(key.slice(start, count) for key in self.keys)
        return ColumnRows(self.rows.slice(start, count), self.record_type, timestamps, keys, self.key_codec)

    def records(self) -> list[Any]:
        """The rows as Python objects."""
        return RowCodec(self.record_type).decode_batch(self.rows.columns)

    def state_keys(self) -> list[Any] | None:
        """The state key of each row."""
        return None if self.keys is None or self.key_codec is None else self.key_codec.decode(self.keys)


class Batch:
    """Some records of an epoch, in order. `keys` is set only where the stage's current key applies."""

    __slots__ = ("_keys", "_records", "_timestamps", "columns", "side")

    def __init__(
        self,
        records: list[Any] | None,
        timestamps: list[int | None] | None = None,
        keys: list[Any] | None = None,
        side: "dict[str, Batch] | None" = None,
        columns: ColumnRows | None = None,
    ) -> None:
        self._records = records
        self._timestamps = timestamps
        self._keys = keys
        self.side = side
        """Records of side outputs, by the id of their tag."""
        self.columns = columns
        """The same records as columns, if they came so."""

    @staticmethod
    def of_columns(columns: ColumnRows, side: "dict[str, Batch] | None" = None) -> "Batch":
        """A batch whose records are decoded when they are asked for."""
        return Batch(None, side=side, columns=columns)

    @property
    def records(self) -> list[Any]:
        """The records as Python objects."""
        if self._records is None:
            assert self.columns is not None
            self._records = self.columns.records()
        return self._records

    @property
    def timestamps(self) -> list[int | None] | None:
        """Milliseconds, one per record; None in jobs without event time."""
        if self._timestamps is None and self.columns is not None and self.columns.timestamps is not None:
            self._timestamps = listed_timestamps(self.columns.timestamps)
        return self._timestamps

    @property
    def keys(self) -> list[Any] | None:
        """The state key of each record."""
        if self._keys is None and self.columns is not None:
            self._keys = self.columns.state_keys()
        return self._keys

    @property
    def has_keys(self) -> bool:
        """Whether `keys` is set."""
        return self._keys is not None or (self.columns is not None and self.columns.keys is not None)

    def newest_timestamp(self) -> int | None:
        """The greatest timestamp."""
        if self._timestamps is None and self.columns is not None:
            times = self.columns.timestamps
            return None if times is None else pc.max(times).as_py()
        return max((time for time in self._timestamps or () if time is not None), default=None)

    def __len__(self) -> int:
        if self._records is not None:
            return len(self._records)
        assert self.columns is not None
        return int(self.columns.rows.num_rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        mine = self.records, self.timestamps, self.keys, self.side
        return mine == (other.records, other.timestamps, other.keys, other.side)

    __hash__ = None  # type: ignore[assignment]  # it is changed in place

    def __repr__(self) -> str:
        return f"Batch({self.records!r}, {self.timestamps!r}, {self.keys!r}, {self.side!r})"

    def extend(self, other: "Batch") -> None:
        """Append the records of another batch that has no keys. Records have timestamps once some have."""
        if self.timestamps is not None or other.timestamps is not None:
            self._timestamps = [*_timestamps(self), *_timestamps(other)]
        self.records.extend(other.records)
        self.columns = None
        for tag, part in (other.side or {}).items():
            self.side = self.side or {}
            self.side.setdefault(tag, Batch([])).extend(part)

    def slice(self, start: int, stop: int) -> "Batch":
        """Some of the records, with their timestamps and keys."""
        if self._records is None and self.columns is not None:
            return Batch.of_columns(self.columns.slice(start, min(stop, len(self))))
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


def listed_timestamps(column: pa.Array) -> list[int | None] | None:
    """The timestamps of a column as a list; None if no row has one."""
    if column.null_count == len(column):
        return None
    values: list[int | None] = column.to_pylist() if column.null_count else column.to_numpy().tolist()
    return values


def _timestamps(batch: Batch) -> list[int | None]:
    return [None] * len(batch.records) if batch.timestamps is None else batch.timestamps
