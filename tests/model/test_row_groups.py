"""Folds within groups of rows are what a loop over the rows computes, bit for bit."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import row_groups
from penstock.model.row_groups import RowGroups

floats = st.floats(width=64) | st.sampled_from([0.0, -0.0, 0.1, 1e16, math.nan])
integers = st.integers(-(2**62), 2**62)
assigned = st.lists(st.integers(0, 4), max_size=60).map(lambda found: [sorted(set(found)).index(n) for n in found])


def groups_of(indices: list[int]) -> RowGroups:
    return RowGroups(np.array(indices, np.int32), len(set(indices)))


def bits(values: Any) -> list[bytes]:
    """The bits of doubles; every NaN is the same."""
    return [b"nan" if value != value else struct.pack("<d", value) for value in values]


@given(indices=assigned, data=st.data(), few=st.sampled_from([0, 1, 16]))
def test_a_running_sum_adds_in_the_order_of_the_rows(indices: list[int], data: st.DataObject, few: int) -> None:
    groups = groups_of(indices)
    values = data.draw(st.lists(floats, min_size=len(indices), max_size=len(indices)))
    before = data.draw(st.lists(floats, min_size=len(groups), max_size=len(groups)))
    sums, expected = list(before), []
    with np.errstate(all="ignore"):
        for index, value in zip(indices, values, strict=True):
            sums[index] = float(np.float64(sums[index]) + np.float64(value))
            expected.append(sums[index])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "FEW_GROUPS", few)
        by_row, by_group = groups.running_sum(np.array(values, np.float64), np.array(before, np.float64))
    assert bits(by_row) == bits(expected) and bits(by_group) == bits(sums)


@given(indices=assigned, data=st.data())
def test_greatest_values_and_counts(indices: list[int], data: st.DataObject) -> None:
    groups = groups_of(indices)
    values = data.draw(st.lists(integers, min_size=len(indices), max_size=len(indices)))
    greatest, counts = [-(2**63)] * len(groups), [7] * len(groups)
    by_row, count_by_row = [], []
    for index, value in zip(indices, values, strict=True):
        greatest[index] = max(greatest[index], value)
        counts[index] += 1
        by_row.append(greatest[index])
        count_by_row.append(counts[index])
    found = groups.accumulate(np.maximum, np.array(values, np.int64), np.full(len(groups), -(2**63)))
    assert [part.tolist() for part in found] == [by_row, greatest]
    assert [part.tolist() for part in groups.running_count(7)] == [count_by_row, counts]


@given(indices=assigned)
def test_rows_of_groups(indices: list[int]) -> None:
    groups = groups_of(indices)
    rows = [[row for row, index in enumerate(indices) if index == group] for group in range(len(groups))]
    assert groups.counts.tolist() == [len(own) for own in rows]
    assert groups.first_rows.tolist() == [own[0] for own in rows]
    assert groups.last_rows.tolist() == [own[-1] for own in rows]
    assert groups.order.tolist() == [row for own in rows for row in own]
    assert groups.row_numbers.tolist() == [rows[index].index(row) for row, index in enumerate(indices)]


def test_more_groups_than_fit_into_sixteen_bits() -> None:
    count = (1 << 16) + 3
    groups = RowGroups(np.arange(count)[::-1], count)
    _, sums = groups.running_sum(np.arange(count), 1)
    assert sums.tolist() == list(range(count, 0, -1))
