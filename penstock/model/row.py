"""`Row`: a record with named fields, as a tuple. There is one subclass of tuple for each schema.

`r.amount` is as fast as on a namedtuple; `r["amount"]`, `r[1]` and unpacking work too. The values of a row
cannot be changed, and rows are equal and hashed as tuples.
"""

import copy
from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

_RESERVED = frozenset({"_fields"})


class RowKind(Enum):
    """The change that a row makes to a table."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class _RowType(type):
    """The metaclass of rows. It has `make`, so that a field may have that name too."""

    @property
    def make(cls) -> Callable[[Iterable[Any]], Any]:
        """Makes a row of an iterable of values, in field order, as fast as `tuple.__new__`."""
        return partial(tuple.__new__, cls)  # type: ignore[arg-type]


class Row(tuple[Any, ...], metaclass=_RowType):
    """A record.

    >>> r = Row(customer="ada", amount=2.0)
    >>> r.customer, r["amount"], r[1], tuple(r)
    ('ada', 2.0, 2.0, ('ada', 2.0))
    >>> Row("ada", 2.0)
    <Row('ada', 2.0)>
    """

    __slots__ = ()
    _fields: tuple[str, ...] | None = None
    """The field names; None for a row without names."""
    _kind = RowKind.INSERT

    def __new__(cls, *values: Any, **named: Any) -> "Row":
        if values and named:
            raise ValueError("Can not use both args and kwargs to create Row: give values, or values with names")
        fields = cls._fields
        if fields is None:
            return tuple.__new__(row_class(tuple(named)) if named else cls, named.values() if named else values)
        if named:
            if named.keys() != set(fields):
                raise ValueError(f"fields {', '.join(named)} given for a row of {', '.join(fields)}")
            values = tuple(named[name] for name in fields)
        elif len(values) != len(fields):
            raise ValueError(f"{len(values)} values given for a row of {len(fields)} fields: {', '.join(fields)}")
        return tuple.__new__(cls, values)

    def __getitem__(self, item: Any) -> Any:
        if item.__class__ is not str:
            return tuple.__getitem__(self, item)
        fields = self.__class__._fields
        if fields is None or item not in fields:
            raise KeyError(item)
        return tuple.__getitem__(self, fields.index(item))

    def __setitem__(self, item: Any, value: Any) -> NoReturn:
        raise TypeError(
            f"a Row cannot be changed, because state and other operators may hold it too: {self!r}[{item!r}] = "
            f"{value!r}; make a new one, for example Row(*values)"
        )

    @property
    def _values(self) -> list[Any]:
        """PyFlink's name for the values."""
        return list(self)

    if TYPE_CHECKING:  # fields are attributes; which ones is known only at run time

        def __getattr__(self, name: str) -> Any: ...

    def __call__(self, *values: Any) -> "Row":
        """A row of these values with the values of this row as field names: `Row("a", "b")(1, 2)`."""
        names = tuple(map(str, self))
        if len(values) > len(names):
            raise ValueError(f"Can not create Row with fields {self}, expected {len(names)} values but got {values}")
        return make_row(names[: len(values)], values)

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The row as a dictionary; with `recursive`, nested rows too."""
        fields = self.__class__._fields
        if fields is None:
            raise TypeError("cannot convert a Row without field names to a dict")
        values = map(_deep_dict, self) if recursive else iter(self)
        return dict(zip(fields, values, strict=True))

    def get_field_names(self) -> list[str]:
        """The field names, in order; empty for a row without names."""
        return list(self.__class__._fields or ())

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """The values of some fields; all values, in order, of a row without names."""
        fields = self.__class__._fields
        if fields is None:
            return list(self)
        unknown = [name for name in names if name not in fields]
        if unknown:
            raise KeyError(f"there are no fields {', '.join(unknown)} in a row of {', '.join(fields)}")
        return [self[name] for name in names]

    def set_field_names(self, field_names: list[str]) -> None:
        """Name the fields of this row."""
        if len(field_names) != len(self):
            raise ValueError(f"{len(field_names)} names given for a row of {len(self)} values")
        self.__class__ = _class_of(tuple(field_names), self.__class__._kind)

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> "Row":
        """A row of this kind. The kind is lost where the row is stored or sent to another operator's subtasks.

        >>> Row.of_kind(RowKind.DELETE, "ada", 2.0).get_row_kind()
        <RowKind.DELETE: 3>
        """
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def get_row_kind(self) -> RowKind:
        """The change that this row makes: INSERT, unless `set_row_kind` or `of_kind` has set another."""
        return self.__class__._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the change that this row makes, for as long as the row is passed on as an object."""
        self.__class__ = _class_of(self.__class__._fields, row_kind)

    def __contains__(self, item: object) -> bool:
        """Whether there is a field of this name; without names, whether there is this value."""
        fields = self.__class__._fields
        return tuple.__contains__(self, item) if fields is None else item in fields

    def __repr__(self) -> str:
        fields = self.__class__._fields
        if fields is None:
            return f"<Row({', '.join(map(repr, self))})>"
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(fields, self, strict=True))})"

    def __reduce__(self) -> tuple[Any, ...]:
        kind = self.__class__._kind
        given = (self.__class__._fields, tuple(self))
        return make_row, given if kind is RowKind.INSERT else (*given, kind)

    def __copy__(self) -> "Row":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Row":
        return tuple.__new__(self.__class__, [copy.deepcopy(value, memo) for value in self])


@lru_cache(maxsize=4096)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """The class of rows with these field names. The same names give the same class.

    >>> row_class(("a", "b")).make([1, 2])
    Row(a=1, b=2)
    """
    doc = f"A row of {', '.join(names)}."
    members: dict[str, Any] = {"__slots__": (), "__module__": Row.__module__, "__doc__": doc}
    for index, name in enumerate(names):
        if name not in _RESERVED and not name.startswith("__"):
            members[name] = _tuplegetter(index, name)
    members["_fields"] = names
    return _RowType("Row", (Row,), members)  # type: ignore[return-value]


def make_row(names: tuple[str, ...] | None, values: Iterable[Any], kind: RowKind = RowKind.INSERT) -> Row:
    """A row of these values, with names or without."""
    return tuple.__new__(_class_of(names, kind), values)


def _class_of(names: tuple[str, ...] | None, kind: RowKind) -> type[Row]:
    plain = Row if names is None else row_class(names)
    return plain if kind is RowKind.INSERT else _class_of_kind(plain, kind)


@lru_cache(maxsize=4096)
def _class_of_kind(plain: type[Row], kind: RowKind) -> type[Row]:
    members = {"__slots__": (), "__module__": Row.__module__, "__doc__": plain.__doc__, "_kind": kind}
    return _RowType("Row", (plain,), members)  # type: ignore[return-value]


def _deep_dict(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True) if value.__class__._fields is not None else value
    if isinstance(value, list):
        return [_deep_dict(item) for item in value]
    if isinstance(value, dict):
        return {key: _deep_dict(item) for key, item in value.items()}
    return value
