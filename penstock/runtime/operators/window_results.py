"""What windows emit, as columns, and the arithmetic of their times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import UnsupportedValueError
from penstock.model.row_groups import Indices
from penstock.model.time import MAX_WATERMARK
from penstock.runtime.operators.column_folds import Fields

MICROSECONDS = 1000


@dataclass(frozen=True)
class WindowResults:
    """The keys, bounds and accumulators of windows, one row for each result."""

    keys: list[pa.Array]
    starts: Indices
    ends: Indices
    fields: list[Fields]
    """For each aggregate its accumulators."""

    @staticmethod
    def of_one(keys: list[pa.Array], window: tuple[int, int], fields: list[Fields]) -> "WindowResults":
        """Results of one window, of several keys."""
        count = len(keys[0])
        return WindowResults(keys, np.full(count, window[0]), np.full(count, window[1]), fields)

    @staticmethod
    def joined(parts: Sequence["WindowResults"]) -> "WindowResults":
        """Several results as one."""
        if len(parts) == 1:
            return parts[0]
        return WindowResults(
            _joined([part.keys for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            [_joined(own) for own in zip(*(part.fields for part in parts), strict=True)],
        )

    def take(self, rows: Indices) -> "WindowResults":
        """Some of the results, in this order."""
        chosen = pa.array(rows)
        fields = [[field.take(chosen) for field in own] for own in self.fields]
        return WindowResults([key.take(chosen) for key in self.keys], self.starts[rows], self.ends[rows], fields)

    def bounds(self) -> list[pa.Array]:
        """Start and end as columns of timestamps."""
        return [_timestamps(self.starts), _timestamps(self.ends)]


def _joined(parts: Sequence[Fields]) -> Fields:
    return [pa.concat_arrays(list(columns)) for columns in zip(*parts, strict=True)]


def _timestamps(times: Indices) -> pa.Array:
    if np.abs(times).max(initial=0) > MAX_WATERMARK // MICROSECONDS:
        raise UnsupportedValueError(
            f"a window from {int(times.min())} to {int(times.max())} ms since 1970 is out of the range of timestamps; "
            f"use aggregate() with an AggregateFunction, whose windows have no such columns"
        )
    return pa.array(times * MICROSECONDS).view(pa.timestamp("us", "UTC"))


def window_ends(starts: Indices, size: int) -> Indices:
    """The ends of windows; none is after the end of time."""
    return np.where(starts > MAX_WATERMARK - size, MAX_WATERMARK, starts + size)


def later(times: Indices, milliseconds: int) -> Indices:
    """Times plus a duration; none is after the end of time."""
    return np.minimum(times, MAX_WATERMARK - milliseconds) + milliseconds
