"""Rolling sum, min, max, min_by and max_by of a keyed stream, as reduce functions.

A record is a tuple, row or list with the field at a position, or a plain value, which is its own field 0. sum, min
and max keep the other fields of the key's first record; min_by and max_by keep the whole record, the first of equals.
"""

from collections.abc import Callable
from typing import Any

from penstock.errors import UsageError
from penstock.model.functions import ReduceFunction
from penstock.model.types import TypeInformation


class FieldReduce(ReduceFunction):
    """Folds one field of the records with a function of two values: sum, min and max."""

    def __init__(self, fold: Callable[[Any, Any], Any], position: int | str) -> None:
        self.fold = fold
        self.position = position

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The first record with the field folded."""
        if not isinstance(value1, (tuple, list)):
            _require_whole(self.position)
            return self.fold(value1, value2)
        position = self.position if self.position.__class__ is int else index_in(value1, self.position)
        values = [*value1]  # Row.__getitem__ is a Python function: a list is faster
        values[position] = self.fold(values[position], [*value2][position])
        return tuple.__new__(value1.__class__, values) if isinstance(value1, tuple) else values


class RecordReduce(ReduceFunction):
    """Keeps the record with the least or greatest field: min_by and max_by."""

    def __init__(self, wins: Callable[[Any, Any], bool], position: int | str) -> None:
        self.wins = wins
        self.position = position

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The second record if its field is less or greater, as asked; otherwise the first."""
        if not isinstance(value1, (tuple, list)):
            _require_whole(self.position)
            return value2 if self.wins(value2, value1) else value1
        position = self.position if self.position.__class__ is int else index_in(value1, self.position)
        return value2 if self.wins([*value2][position], [*value1][position]) else value1


def index_in(record: Any, position: int | str) -> int:
    """The index of a field given by index or name."""
    if isinstance(position, int):
        return position
    fields = getattr(record, "_fields", None) or ()
    if position not in fields:
        raise UsageError(
            f"no field {position!r} in {record!r}; aggregate by position, or name the fields of the records"
        )
    return int(fields.index(position))


def resolve_position(position: object, record_type: TypeInformation) -> int | str:
    """The field as an index if the type of the records is known, checked against that type.

    Raises TypeError, as PyFlink does, for anything but a number or a name.
    """
    if isinstance(position, bool) or not isinstance(position, int | str):
        raise TypeError(
            f"The field position must be of int or str type to locate the value to calculate for min, max, min_by, "
            f"max_by and sum. The given type is: {type(position)}"
        )
    if isinstance(position, str):
        if record_type.kind != "arrow":
            return position
        record_type.field(position)
        return (record_type.names or ()).index(position)
    if record_type.name in ("ROW", "TUPLE") and not 0 <= position < len(record_type.children):
        raise UsageError(
            f"no field {position} in records of type {record_type.text}; they have {len(record_type.children)} fields, "
            f"counted from 0"
        )
    if record_type.kind == "arrow" and record_type.name not in ("ROW", "TUPLE", "LIST"):
        _require_whole(position)
    return position


def _require_whole(position: int | str) -> None:
    if position != 0:
        raise TypeError(
            f"The {position} field selected on a basic type. A field expression on a basic type can only select the "
            f"0th field (which means selecting the entire basic type)."
        )
