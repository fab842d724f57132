"""The rows of a batch by group, and folds of values within each group, in numpy.

Folds give what a loop over the rows would give, bit for bit: the values of a group are combined one after the other, in
the order of the rows. A cumulative sum over all rows from which the sum before the group is subtracted would round
differently.
"""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]
Indices: TypeAlias = npt.NDArray[np.int64]

FEW_GROUPS = 16
"""So many groups or fewer are folded one by one; more of them row by row, all groups at once."""


class RowGroups:
    """Which group each row belongs to. Groups are numbered from 0."""

    def __init__(self, indices: Numbers, count: int) -> None:
        self.indices = indices
        """For each row the number of its group."""
        self.count = count
        """The number of groups."""

    def __len__(self) -> int:
        return self.count

    @cached_property
    def counts(self) -> Indices:
        """For each group the number of its rows."""
        return np.bincount(self.indices, minlength=self.count)

    @cached_property
    def order(self) -> Indices:
        """The rows sorted by group; those of a group stay in order."""
        # numpy sorts numbers of 16 bits without comparisons.
        indices = self.indices.astype(np.uint16) if self.count <= 1 << 16 else self.indices
        order: Indices = np.argsort(indices, kind="stable")
        return order

    @cached_property
    def starts(self) -> Indices:
        """For each group where its rows begin in `order`."""
        starts: Indices = np.cumsum(self.counts) - self.counts
        return starts

    @cached_property
    def first_rows(self) -> Indices:
        """For each group its first row. Every group must have one."""
        return self.order[self.starts]

    @cached_property
    def last_rows(self) -> Indices:
        """For each group its last row. Every group must have one."""
        rows: Indices = self.order[self.starts + self.counts - 1]
        return rows

    @cached_property
    def row_numbers(self) -> Indices:
        """For each row how many rows of its group come before it."""
        numbers = np.empty(len(self.indices), np.int64)
        numbers[self.order] = np.arange(len(self.indices)) - np.repeat(self.starts, self.counts)
        return numbers

    def running_count(self, before: Numbers | int = 0) -> tuple[Indices, Indices]:
        """For each row the number of rows of its group up to it, and for each group that of its last row.

        `before`: for each group the number to begin with.
        """
        start = np.broadcast_to(np.asarray(before, np.int64), (self.count,))
        return start[self.indices] + self.row_numbers + 1, start + self.counts

    def running_sum(self, values: Numbers, before: Numbers | float = 0) -> tuple[Numbers, Numbers]:
        """For each row the sum of its group's values up to it, and for each group the sum of all.

        `before`: for each group the sum to begin with. Integers that overflow wrap around, as in numpy.
        """
        return self.accumulate(np.add, values, before)

    def accumulate(self, fold: np.ufunc, values: Numbers, before: Numbers | float) -> tuple[Numbers, Numbers]:
        """For each row `fold` of the values of its group up to it, and for each group that of its last row.

        `fold` is a function of two numbers, such as `np.add` or `np.maximum`; `before` is for each group the value to
        begin with.
        """
        kind = np.result_type(values, before) if isinstance(before, np.ndarray) else values.dtype
        ordered = values[self.order].astype(kind, copy=False)
        largest_first = np.argsort(-self.counts, kind="stable")
        sizes, starts = self.counts[largest_first], self.starts[largest_first]
        state = np.array(np.broadcast_to(np.asarray(before, kind), (self.count,))[largest_first])
        folded = np.empty(len(ordered), kind)
        done = 0
        active = int(np.count_nonzero(sizes))
        with np.errstate(all="ignore"):
            while active > FEW_GROUPS:
                rows = starts[:active] + done
                folded[rows] = state[:active] = fold(state[:active], ordered[rows])
                done += 1
                active = int(np.searchsorted(-sizes, -done, side="left"))
            for group in range(active):
                start, end = starts[group] + done, starts[group] + sizes[group]
                steps = fold.accumulate(np.concatenate([state[group : group + 1], ordered[start:end]]))
                folded[start:end], state[group] = steps[1:], steps[-1]
        by_row, by_group = np.empty_like(folded), np.empty_like(state)
        by_row[self.order], by_group[largest_first] = folded, state
        return by_row, by_group
