"""Records with fields: rows and tuples to columns of values, and back."""

from collections.abc import Sequence
from typing import Any

from penstock.codec.declared_values import misfit
from penstock.model.row import row_class
from penstock.model.type_information import TypeInformation


def transpose(values: Sequence[Any], type_info: TypeInformation, *, nullable: bool = False) -> list[tuple[Any, ...]]:
    """Rows or tuples as one tuple of values per field. Rows with another order of fields are matched by name."""
    width = len(type_info.children)
    kinds = set(map(type, values))
    if kinds - {tuple}:
        values = _align(values, kinds, type_info, nullable=nullable)
    _check_width(values, type_info)
    return list(zip(*values, strict=True)) if values else [()] * width


def to_rows(records: Sequence[Any], type_info: TypeInformation) -> list[Any]:
    """The records as rows of a type with named fields; one that does not fit is an UnsupportedValueError."""
    cls = row_class(type_info.names or ())
    kinds = set(map(type, records))
    if kinds - {cls, tuple}:
        records = _align(records, kinds, type_info, nullable=False)
    if kinds != {cls}:
        _check_width(records, type_info)
    make = cls.make
    return [record if record.__class__ is cls else make(record) for record in records]


def make_records(columns: list[list[Any]], type_info: TypeInformation, count: int) -> list[Any]:
    """Columns of values as rows, or as plain tuples if the type is a tuple."""
    tuples = zip(*columns, strict=True) if columns else iter([()] * count)
    return list(tuples) if type_info.names is None else list(map(row_class(type_info.names).make, tuples))


def _check_width(values: Sequence[Any], type_info: TypeInformation) -> None:
    width = len(type_info.children)
    if set(map(len, values)) - {width}:
        wrong = next(value for value in values if len(value) != width)
        raise misfit(wrong, type_info, f"number of fields: {len(wrong)} instead of {width}")


def _align(values: Sequence[Any], kinds: set[type], type_info: TypeInformation, *, nullable: bool) -> Sequence[Any]:
    """The values as tuples in field order: rows and dictionaries by name, other sequences by position."""
    names = type_info.names
    by_name: set[type] = set()
    for kind in dict.fromkeys(map(type, values)):
        fields = getattr(kind, "_fields", None)
        if issubclass(kind, dict) and names is not None:
            by_name.add(kind)
        elif issubclass(kind, tuple):
            if names is not None and fields not in (None, names) and set(fields) == set(names):
                by_name.add(kind)
        elif not issubclass(kind, list) and not (nullable and kind is type(None)):
            raise misfit(next(value for value in values if type(value) is kind), type_info)
    if not by_name and type(None) not in kinds:
        return values
    empty = (None,) * len(type_info.children)
    return [empty if v is None else _by_name(v, type_info) if type(v) in by_name else v for v in values]


def _by_name(value: Any, type_info: TypeInformation) -> tuple[Any, ...]:
    names = type_info.names or ()
    if isinstance(value, dict):
        if value.keys() != set(names):
            raise misfit(value, type_info, f"its keys are not exactly {', '.join(names)}")
        return tuple(value[name] for name in names)
    place = type(value)._fields.index
    return tuple(value[place(name)] for name in names)
