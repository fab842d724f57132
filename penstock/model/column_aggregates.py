"""Aggregates of columns, such as `agg.sum("amount")`: as a program writes them, and with the types of the columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.errors import ArgumentError, UsageError
from penstock.model.type_information import TypeInformation, row_of, scalar

AggregateKind = Literal["count", "sum", "min", "max", "avg", "first", "last"]
_INTEGERS = ("BYTE", "SHORT", "INT", "LONG")
_FLOATS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "INSTANT", "DURATION")
_ACCEPTED: dict[str, tuple[str, ...]] = {
    "sum": (*_INTEGERS, *_FLOATS),
    "avg": (*_INTEGERS, *_FLOATS),
    "min": (*_INTEGERS, *_FLOATS, *_TIMES),
    "max": (*_INTEGERS, *_FLOATS, *_TIMES),
}
"""Aggregates that do not take every type of column."""


@dataclass(frozen=True)
class ColumnAggregate:
    """An aggregate of a column. `agg.sum("amount")` and its like make it."""

    kind: AggregateKind
    column: str | None = None
    """None: the rows themselves are counted."""

    def __repr__(self) -> str:
        return f"agg.{self.kind}({'' if self.column is None else repr(self.column)})"


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate with its name in the result, and its types."""

    name: str
    kind: AggregateKind
    column: str | None
    result_type: TypeInformation
    fields: tuple[tuple[str, TypeInformation], ...]
    """What is kept in the state: names and types of fields."""


def bind_aggregates(
    given: Mapping[str, Any], record_type: TypeInformation, operator: str
) -> tuple[BoundAggregate, ...]:
    """The aggregates of columns of this type. Raises if a column does not exist or has the wrong type."""
    if not given:
        raise UsageError(f'{operator} has no aggregates; write {operator.split("(")[0]}(total=agg.sum("amount"))')
    return tuple(_bind(name, aggregate, record_type, operator) for name, aggregate in given.items())


def _bind(name: str, aggregate: Any, record_type: TypeInformation, operator: str) -> BoundAggregate:
    if not isinstance(aggregate, ColumnAggregate):
        raise ArgumentError(
            f'{operator}: {name}= is {aggregate!r}; give an aggregate of a column, such as agg.sum("amount") or '
            f"agg.count(), with `from penstock.datastream import agg`"
        )
    kind, column = aggregate.kind, aggregate.column
    column_type = None if column is None else _column_type(record_type, column, f"{operator}: {name}={aggregate!r}")
    accepted = _ACCEPTED.get(kind)
    if accepted is not None and column_type is not None and column_type.name not in accepted:
        wanted = "numbers or times" if kind in ("min", "max") else "numbers"
        raise UsageError(
            f"{operator}: {name}={aggregate!r} needs a column of {wanted}, but {column!r} is of type "
            f"{column_type.text}; convert it before key_by, for example with .with_column({column!r}, "
            f'"cast({column} as double)"), or use agg.first, agg.last or agg.count'
        )
    if kind == "count":
        result = scalar("LONG")
    elif kind == "avg":
        result = scalar("DOUBLE")
    else:
        assert column_type is not None
        result = _sum_type(column_type) if kind == "sum" else column_type
    fields = ((f"{name}.sum", scalar("DOUBLE")), (f"{name}.count", scalar("LONG")))
    return BoundAggregate(name, kind, column, result, fields if kind == "avg" else ((name, result),))


def _column_type(record_type: TypeInformation, column: str, what: str) -> TypeInformation:
    names = record_type.names or ()
    if column not in names:
        known = ", ".join(map(repr, names)) or "no named columns"
        raise UsageError(f"{what}: there is no column {column!r}; the records have {known}")
    return record_type.field(column)


def _sum_type(column_type: TypeInformation) -> TypeInformation:
    return scalar("LONG" if column_type.name in _INTEGERS else "DOUBLE")


def state_type(aggregates: tuple[BoundAggregate, ...], *others: tuple[str, TypeInformation]) -> TypeInformation:
    """The type of the state of all aggregates of a key or window, with other fields behind them."""
    fields = [*(field for aggregate in aggregates for field in aggregate.fields), *others]
    return row_of([name for name, _ in fields], [kind for _, kind in fields])
