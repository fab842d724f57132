"""The ways to declare a type: PyFlink's `Types`, Spark DDL and schemas, Arrow types. `resolve_type` accepts all."""

from typing import Any

import pyarrow as pa

from penstock import compat
from penstock.errors import UsageError
from penstock.model import type_information as ti
from penstock.model.ddl import parse_ddl, to_ddl
from penstock.model.type_information import TypeInformation, parse_type

__all__ = ["TAGGED", "TypeInformation", "Types", "parse_type", "record_type", "resolve_type", "to_ddl"]

TAGGED = ti.scalar("TAGGED")
"""The type of values without a declared type, which the tagged codec of plain Python values stores."""


class Types:
    """PyFlink's constructors of types.

    >>> str(Types.ROW_NAMED(["customer", "total"], [Types.STRING(), Types.DOUBLE()]))
    'RowTypeInfo(customer: String, total: Double)'
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """Text."""
        return ti.scalar("STRING")

    @staticmethod
    def BYTE() -> TypeInformation:
        """Integers of 8 bits."""
        return ti.scalar("BYTE")

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True and False."""
        return ti.scalar("BOOLEAN")

    @staticmethod
    def SHORT() -> TypeInformation:
        """Integers of 16 bits."""
        return ti.scalar("SHORT")

    @staticmethod
    def INT() -> TypeInformation:
        """Integers of 32 bits."""
        return ti.scalar("INT")

    @staticmethod
    def LONG() -> TypeInformation:
        """Integers of 64 bits."""
        return ti.scalar("LONG")

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Floating point numbers of 32 bits."""
        return ti.scalar("FLOAT")

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Floating point numbers of 64 bits."""
        return ti.scalar("DOUBLE")

    @staticmethod
    def CHAR() -> TypeInformation:
        """Text of one character, stored as text."""
        return ti.scalar("STRING")

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Integers of up to 38 digits."""
        return ti.scalar("BIG_INT")

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """`Decimal` of any size, read back with the scale it was written with: `1.50` stays `1.50`.

        Spark sees its digits as text; for a decimal column declare `decimal(38,18)`. As a key it is that type.
        """
        return ti.scalar("BIG_DEC")

    @staticmethod
    def INSTANT() -> TypeInformation:
        """`Instant`, with a precision of microseconds."""
        return ti.scalar("INSTANT")

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """`datetime.date`."""
        return ti.scalar("DATE")

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """`datetime.time` without a time zone."""
        return ti.scalar("TIME")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """`datetime.datetime`. A value without a time zone is taken as UTC; all are read back with the zone UTC.

        Spark's `timestamp` stores the same and refuses values without a time zone; `timestamp_ntz` stores those. In a
        program written for PyFlink it is `timestamp_ntz`: values have no time zone there.
        """
        return ti.scalar("TIMESTAMP_NTZ") if compat.is_installed() else ti.SQL_TIMESTAMP

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any object, as a pickle. Never for keys."""
        return ti.scalar("PICKLE")

    @staticmethod
    def ROW(field_types: list[Any]) -> TypeInformation:
        """Rows whose fields are called f0, f1, …"""
        return ti.row_of([f"f{index}" for index in range(len(field_types))], [resolve_type(t) for t in field_types])

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[Any]) -> TypeInformation:
        """Rows with named fields."""
        return ti.row_of(field_names, [resolve_type(t) for t in field_types])

    @staticmethod
    def TUPLE(field_types: list[Any]) -> TypeInformation:
        """Plain tuples."""
        return ti.tuple_of([resolve_type(t) for t in field_types])

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation:
        """Lists of numbers; `bytes` if the element type is BYTE."""
        element = resolve_type(element_type)
        return ti.scalar("BINARY") if element.name == "BYTE" else ti.list_of(element)

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInformation:
        """Lists."""
        return ti.list_of(resolve_type(element_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> TypeInformation:
        """Lists."""
        return ti.list_of(resolve_type(element_type))

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> TypeInformation:
        """Dictionaries."""
        return ti.map_of(ti.as_key_type(resolve_type(key_type_info)), resolve_type(value_type_info))

    @staticmethod
    def LIST(element_type_info: Any) -> TypeInformation:
        """Lists."""
        return ti.list_of(resolve_type(element_type_info))


def resolve_type(spec: object | None) -> TypeInformation:
    """The type that `spec` stands for.

    `spec` is a type of `Types`, Spark DDL text, a Spark or Arrow schema or type, or None for untyped values.
    """
    if spec is None:
        return TAGGED
    if isinstance(spec, TypeInformation):
        return spec
    if isinstance(spec, str):
        return parse_ddl(spec)
    if isinstance(spec, pa.Schema):
        return ti.row_of(spec.names, [from_arrow(field.type) for field in spec])
    if isinstance(spec, pa.DataType):
        return from_arrow(spec)
    json_value = getattr(spec, "jsonValue", None)
    if callable(json_value) and hasattr(spec, "simpleString") and not isinstance(spec, type):
        return _from_spark_json(json_value())
    raise UsageError(
        f"{spec!r} is not a type; write Types.STRING(), Spark DDL such as 'name string, amount double', "
        f"a Spark StructType, or a pyarrow type or schema"
    )


def record_type(spec: object | None) -> TypeInformation:
    """The type of records that `spec` stands for. Undeclared records are plain Python values.

    In a program written for PyFlink they are whatever can be pickled, as there: objects of classes too.
    """
    if spec is None and compat.is_installed():
        return ti.scalar("PICKLE")
    return resolve_type(spec)


def from_arrow(arrow: pa.DataType) -> TypeInformation:
    """The type that stores the values of an Arrow type. Large, view and dictionary types become plain ones."""
    p = pa.types
    for name, plain in ti.SCALARS.items():
        if arrow == plain and name not in ("TIME", "INSTANT", "BIG_INT", "BIG_DEC", "TAGGED", "PICKLE"):
            return ti.scalar(name)
    if p.is_large_string(arrow) or p.is_string_view(arrow):
        return ti.scalar("STRING")
    if p.is_large_binary(arrow) or p.is_binary_view(arrow):
        return ti.scalar("BINARY")
    if p.is_timestamp(arrow):
        return ti.scalar("TIMESTAMP_NTZ" if arrow.tz is None else "TIMESTAMP")
    if p.is_time(arrow):
        return ti.scalar("TIME")
    if p.is_duration(arrow):
        return ti.scalar("DURATION")
    if p.is_date(arrow):
        return ti.scalar("DATE")
    if p.is_decimal(arrow):
        return ti.decimal(arrow.precision, arrow.scale)
    if p.is_list(arrow) or p.is_large_list(arrow) or p.is_fixed_size_list(arrow):
        return ti.list_of(from_arrow(arrow.value_type))
    if p.is_map(arrow):
        return ti.map_of(from_arrow(arrow.key_type), from_arrow(arrow.item_type))
    if p.is_struct(arrow):
        return ti.row_of([field.name for field in arrow], [from_arrow(field.type) for field in arrow])
    if p.is_dictionary(arrow):
        return from_arrow(arrow.value_type)
    raise UsageError(f"the Arrow type {arrow} is not supported; cast it to a number, text, binary, date or timestamp")


def _from_spark_json(value: Any) -> TypeInformation:
    """The type of a Spark type's `jsonValue()`."""
    if isinstance(value, str):
        return parse_ddl(value)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "struct":
        fields = value["fields"]
        return ti.row_of([f["name"] for f in fields], [_from_spark_json(f["type"]) for f in fields])
    if kind == "array":
        return ti.list_of(_from_spark_json(value["elementType"]))
    if kind == "map":
        return ti.map_of(_from_spark_json(value["keyType"]), _from_spark_json(value["valueType"]))
    raise UsageError(f"the Spark type {kind or value!r} is not supported; cast the column to a plain type first")
