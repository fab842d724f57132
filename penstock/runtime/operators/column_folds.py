"""How aggregates of columns are computed, for all groups of a batch at once.

An accumulator is one Arrow array for each field of `BoundAggregate.fields`. Results are those of a loop over the rows:
a sum of doubles is rounded after each row, in the order of the rows.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec import arrow_functions as pc
from penstock.errors import UnsupportedValueError
from penstock.model.column_aggregates import BoundAggregate
from penstock.model.row_groups import Indices, Numbers, RowGroups

Fields: TypeAlias = list[pa.Array]
Mask: TypeAlias = npt.NDArray[np.bool_]

SAFE_SUM = 2.0**62
"""Sums of magnitudes below this cannot overflow, whatever their rounding error is."""
GREATEST = 2**63 - 1


def fold_rows(
    aggregate: BoundAggregate, groups: RowGroups, rows: pa.RecordBatch, before: Fields
) -> tuple[Fields, Fields]:
    """The accumulator after each row, and that of each group after its last row; `before` is that of each group."""
    if aggregate.column is None:
        by_row, by_group = groups.running_count(_filled(before[0], 0))
        return [pa.array(by_row)], [pa.array(by_group)]
    column = rows.column(aggregate.column)
    match aggregate.kind:
        case "count":
            return _both(_count(groups, column, before[0]))
        case "sum":
            return _both(_sum(groups, column, before[0], aggregate))
        case "avg":
            sums = _sum(groups, column.cast(pa.float64(), safe=False), before[0], aggregate)
            counts = _count(groups, column, before[1])
            return [sums[0], counts[0]], [sums[1], counts[1]]
        case "min" | "max":
            return _both(_extreme(groups, column, before[0], np.minimum if aggregate.kind == "min" else np.maximum))
        case _:
            return _both(_pick(groups, column, before[0], is_first=aggregate.kind == "first"))


def merged(aggregate: BoundAggregate, groups: RowGroups, accumulators: Fields) -> Fields:
    """One accumulator for each group of accumulators, null for a group without any. Not for first and last values."""
    empty = [pa.nulls(groups.count, field.type) for field in accumulators]
    if aggregate.kind in ("min", "max"):
        choose = np.minimum if aggregate.kind == "min" else np.maximum
        return [_extreme(groups, accumulators[0], empty[0], choose)[1]]
    sums = zip(accumulators, empty, strict=True)
    return [_sum(groups, field, nothing, aggregate)[1] for field, nothing in sums]


def results(aggregate: BoundAggregate, accumulator: Fields) -> pa.Array:
    """The results of accumulators."""
    if aggregate.kind != "avg":
        return accumulator[0]
    sums, counts = accumulator[0], accumulator[1].cast(pa.float64(), safe=False)
    return pc.divide(sums, pc.if_else(pc.greater(counts, 0), counts, None))


def fields_of(aggregates: Sequence[BoundAggregate], state: pa.Array) -> list[Fields]:
    """The fields of each aggregate in the values of a state, null where there is no value."""
    fields = iter(range(state.type.num_fields))
    return [[pc.struct_field(state, [next(fields)]) for _ in aggregate.fields] for aggregate in aggregates]


def _both(folded: tuple[pa.Array, pa.Array]) -> tuple[Fields, Fields]:
    return [folded[0]], [folded[1]]


def _filled(column: pa.Array, value: float) -> Numbers:
    """A column in numpy, with a value in the place of null."""
    filled: Numbers = (column.fill_null(value) if column.null_count else column).to_numpy(zero_copy_only=False)
    return filled


def _valid(column: pa.Array) -> Mask | None:
    """Which values are not null; None: all of them."""
    return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def _count(groups: RowGroups, column: pa.Array, before: pa.Array) -> tuple[pa.Array, pa.Array]:
    valid, start = _valid(column), _filled(before, 0)
    if valid is None:
        by_row, by_group = groups.running_count(start)
    else:
        by_row, by_group = groups.running_sum(valid.astype(np.int64), start)
    return pa.array(by_row), pa.array(by_group)


def _seen(groups: RowGroups, column: pa.Array, before: pa.Array) -> tuple[Mask | None, Mask | None]:
    """After each row and after each group, whether there was a value that is not null; None: always."""
    valid = _valid(column)
    if valid is None and groups.counts.all():
        return None, None
    valid = np.ones(len(column), np.bool_) if valid is None else valid
    had = before.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    by_row, by_group = groups.running_sum(valid.astype(np.int64), had)
    return by_row > 0, by_group > 0


def _masked(values: Numbers, seen: Mask | None, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind, mask=None if seen is None else ~seen, from_pandas=False)


def _sum(groups: RowGroups, column: pa.Array, before: pa.Array, aggregate: BoundAggregate) -> tuple[pa.Array, pa.Array]:
    seen_by_row, seen_by_group = _seen(groups, column, before)
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        nothing = -0.0  # 0.0 would make 0.0 of a sum that is -0.0
        by_row, by_group = groups.running_sum(_filled(column, nothing), _filled(before, nothing))
    else:
        by_row, by_group = _sum_integers(groups, _filled(column.cast(pa.int64()), 0), _filled(before, 0), aggregate)
    return _masked(by_row, seen_by_row, before.type), _masked(by_group, seen_by_group, before.type)


def _sum_integers(
    groups: RowGroups, values: Numbers, before: Numbers, aggregate: BoundAggregate
) -> tuple[Numbers, Numbers]:
    most = np.abs(values.astype(np.float64)).sum() + np.abs(before.astype(np.float64)).max(initial=0)
    if most < SAFE_SUM:
        return groups.running_sum(values, before)
    exact, by_group = groups.running_sum(values.astype(object), before.astype(object))
    if len(exact) and (max(exact) > GREATEST or min(exact) < -GREATEST - 1):
        raise UnsupportedValueError(
            f"the sum {aggregate.name!r} of column {aggregate.column!r} does not fit into a bigint; cast the column to "
            f"double, or sum smaller numbers"
        )
    return exact.astype(np.int64), by_group.astype(np.int64)


def _extreme(groups: RowGroups, column: pa.Array, before: pa.Array, choose: np.ufunc) -> tuple[pa.Array, pa.Array]:
    """The smallest or greatest values."""
    seen_by_row, seen_by_group = _seen(groups, column, before)
    kind = column.type
    ordered, started = _ordered(column), _ordered(before)
    limits = np.iinfo(np.int64)
    nothing = limits.max if choose is np.minimum else limits.min
    by_row, by_group = groups.accumulate(choose, _filled(ordered, nothing), _filled(started, nothing))
    return _masked_ordered(by_row, seen_by_row, kind), _masked_ordered(by_group, seen_by_group, kind)


def _ordered(column: pa.Array) -> pa.Array:
    """The values as 64-bit integers that have the same order, with NaN at the end."""
    if not pa.types.is_floating(column.type):
        width = 32 if pa.types.is_date32(column.type) else 64
        is_integer = pa.types.is_integer(column.type)
        return (column if is_integer else column.view(pa.int32() if width == 32 else pa.int64())).cast(pa.int64())
    values = _filled(column.cast(pa.float64()), 0.0)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return pa.array(_flipped(bits), mask=None if (valid := _valid(column)) is None else ~valid)


def _flipped(bits: Numbers) -> Numbers:
    """The bits of doubles as integers of the same order, and back."""
    flipped: Numbers = bits ^ ((bits >> 63) & np.int64(GREATEST))
    return flipped


def _masked_ordered(values: Numbers, seen: Mask | None, kind: pa.DataType) -> pa.Array:
    mask = None if seen is None else ~seen
    if pa.types.is_floating(kind):
        with np.errstate(all="ignore"):  # where nothing was seen
            numbers = _flipped(values).view(np.float64)
            return pa.array(numbers, pa.float64(), mask=mask, from_pandas=False).cast(kind, safe=False)
    if pa.types.is_integer(kind):
        return pa.array(values if seen is None else np.where(seen, values, 0), mask=mask).cast(kind)
    plain = pa.array(values if seen is None else np.where(seen, values, 0), mask=mask)
    return plain.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else plain.view(kind)


def _pick(groups: RowGroups, column: pa.Array, before: pa.Array, *, is_first: bool) -> tuple[pa.Array, pa.Array]:
    """The first or last values that are not null."""
    count, numbers = len(column), np.arange(len(column))
    values = pa.concat_arrays([column, before])
    own = np.arange(groups.count) + count
    """Where the value of `before` of each group is."""
    valid, had = _valid(column), before.is_valid().to_numpy(zero_copy_only=False)
    by_row: Indices
    if is_first:
        nothing = len(values)
        rows = numbers if valid is None else np.where(valid, numbers, nothing)
        by_row, by_group = groups.accumulate(np.minimum, rows, np.where(had, -1, nothing))
        is_before_row, is_before_group = (by_row < 0) | (by_row == nothing), (by_group < 0) | (by_group == nothing)
    else:
        rows = numbers if valid is None else np.where(valid, numbers, -1)
        by_row, by_group = groups.accumulate(np.maximum, rows, np.full(groups.count, -1))
        is_before_row, is_before_group = by_row < 0, by_group < 0
    chosen_rows = np.where(is_before_row, own[groups.indices], by_row)
    chosen_groups = np.where(is_before_group, own, by_group)
    return values.take(pa.array(chosen_rows)), values.take(pa.array(chosen_groups))
