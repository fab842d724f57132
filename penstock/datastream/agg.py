"""Aggregates of columns, for `keyed.running(...)` and `keyed.window(...).agg(...)`.

    orders.key_by("customer").running(total=agg.sum("amount"), n=agg.count())

Null is skipped by all of them but `count()`. An aggregate of no values is null.
"""

from penstock.errors import ArgumentError
from penstock.model.column_aggregates import AggregateKind, ColumnAggregate

__all__ = ["avg", "count", "first", "last", "max", "min", "sum"]


def count(column: str | None = None) -> ColumnAggregate:
    """The number of rows, or of values in a column that are not null."""
    return ColumnAggregate("count") if column is None else _of("count", column)


def sum(column: str) -> ColumnAggregate:
    """The sum. That of integers is a bigint, and an overflow is an error; that of other numbers is a double."""
    return _of("sum", column)


def min(column: str) -> ColumnAggregate:
    """The smallest value. NaN is greater than every number, and -0.0 smaller than 0.0."""
    return _of("min", column)


def max(column: str) -> ColumnAggregate:
    """The greatest value. NaN is greater than every number, and -0.0 smaller than 0.0."""
    return _of("max", column)


def avg(column: str) -> ColumnAggregate:
    """The mean: the sum as a double, divided by the number of values."""
    return _of("avg", column)


def first(column: str) -> ColumnAggregate:
    """The first value that is not null, in the order of arrival."""
    return _of("first", column)


def last(column: str) -> ColumnAggregate:
    """The last value that is not null, in the order of arrival."""
    return _of("last", column)


def _of(kind: AggregateKind, column: str) -> ColumnAggregate:
    if not isinstance(column, str):
        raise ArgumentError(f'agg.{kind}() takes the name of a column, not {column!r}; write agg.{kind}("amount")')
    return ColumnAggregate(kind, column)
