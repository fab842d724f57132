"""PyFlink's classes of types, for `isinstance`. All types here are `TypeInformation`; `Types` makes them."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.model.types import TypeInformation, Types


class _TypeClass(type):
    """The class of the classes below: an instance of one is a TypeInformation of one of its `names`."""

    names: frozenset[str]
    make: Callable[..., TypeInformation]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypeInformation) and instance.name in cls.names

    def __call__(cls, *args: Any, **kwargs: Any) -> TypeInformation:
        return cls.make(*args, **kwargs)


def _row(field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> TypeInformation:
    if field_names is None:
        return Types.ROW(list(field_types))
    return Types.ROW_NAMED(list(field_names), list(field_types))


class BasicTypeInfo(metaclass=_TypeClass):
    """Text, numbers and booleans."""

    names = frozenset("STRING BOOLEAN BYTE SHORT INT LONG FLOAT DOUBLE BIG_INT BIG_DEC".split())


class RowTypeInfo(metaclass=_TypeClass):
    """Rows: `RowTypeInfo([Types.INT()], ["a"])` is `Types.ROW_NAMED(["a"], [Types.INT()])`."""

    names = frozenset({"ROW"})
    make = staticmethod(_row)


class TupleTypeInfo(metaclass=_TypeClass):
    """Tuples of a fixed length."""

    names = frozenset({"TUPLE"})
    make = staticmethod(Types.TUPLE)


class ListTypeInfo(metaclass=_TypeClass):
    """Lists and arrays, which are one type here."""

    names = frozenset({"LIST"})
    make = staticmethod(Types.LIST)


PrimitiveArrayTypeInfo = BasicArrayTypeInfo = ObjectArrayTypeInfo = ListTypeInfo


class MapTypeInfo(metaclass=_TypeClass):
    """Dictionaries."""

    names = frozenset({"MAP"})
    make = staticmethod(Types.MAP)


class PickledBytesTypeInfo(metaclass=_TypeClass):
    """Values of undeclared types and pickled ones."""

    names = frozenset({"TAGGED", "PICKLE"})
    make = staticmethod(Types.PICKLED_BYTE_ARRAY)


class DateTypeInfo(metaclass=_TypeClass):
    """Dates."""

    names = frozenset({"DATE"})
    make = staticmethod(Types.SQL_DATE)


class TimeTypeInfo(metaclass=_TypeClass):
    """Times of the day."""

    names = frozenset({"TIME"})
    make = staticmethod(Types.SQL_TIME)


class TimestampTypeInfo(metaclass=_TypeClass):
    """Dates with a time."""

    names = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"})
    make = staticmethod(Types.SQL_TIMESTAMP)


class InstantTypeInfo(metaclass=_TypeClass):
    """Points in time."""

    names = frozenset({"INSTANT"})
    make = staticmethod(Types.INSTANT)
