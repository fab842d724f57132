"""Checks of the types of records and keys, made while the program is built."""

import pyarrow as pa

from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.model.type_information import as_key_type
from penstock.model.types import TypeInformation, resolve_type, to_ddl

_NO_KEYS = ("ROW", "TUPLE", "LIST", "MAP")


def record_schema(record_type: TypeInformation) -> pa.Schema:
    """The fields of a record. A record that is not a row has a single field, `value`."""
    if record_type.names is None:
        return pa.schema([pa.field("value", record_type.arrow)])
    return pa.schema(list(record_type.arrow))


def schema_tree(record_type: TypeInformation) -> str:
    """The fields of a record as a tree, in the form of Spark's `printSchema`."""
    if record_type.names is None:
        fields = [("value", record_type)]
    else:
        fields = list(zip(record_type.names, record_type.children, strict=True))
    lines = [f" |-- {name}: {_readable_type(field)}\n" for name, field in fields]
    return "root\n" + "".join(lines)


def _readable_type(type_info: TypeInformation) -> str:
    if type_info.kind == "tagged":
        return "untyped (any plain Python value; output_type= makes it faster)"
    return "pickle" if type_info.kind == "pickle" else to_ddl(type_info) or type_info.text


def column_key_types(columns: tuple[str, ...], record_type: TypeInformation) -> tuple[TypeInformation, ...]:
    """The types of key columns. Raises if a column does not exist or cannot be a key."""
    if record_type.names is None:
        raise UsageError(
            f"key_by({', '.join(map(repr, columns))}) needs records with named columns, but they are of type "
            f"{record_type.text}; declare them with output_type='customer string, ...', or key by a function"
        )
    for column in columns:
        if not isinstance(column, str):
            raise ArgumentError(f"key_by() takes column names or one function, not {column!r} among the names")
        if column not in record_type.names:
            raise UsageError(
                f"there is no column {column!r} to key by; the records have {', '.join(map(repr, record_type.names))}"
            )
        if record_type.field(column).kind == "tagged":
            raise UsageError(
                f"column {column!r} is untyped, and equal values of it may be stored in different ways; declare its "
                f"type, or key by a function: key_by(lambda row: row[{column!r}])"
            )
        if as_key_type(record_type.field(column)) != record_type.field(column):
            raise UsageError(
                f"column {column!r} is of type {record_type.field(column).text}, which the JVM cannot hash as a "
                f"number; declare it as decimal(38,18), or key by a function: key_by(lambda row: row[{column!r}], "
                f"Types.BIG_DEC())"
            )
    return tuple(_as_key(record_type.field(column), f"column {column!r}") for column in columns)


def selector_key_types(key_type: object) -> tuple[TypeInformation, ...]:
    """The types of the key that a function returns: one type, or one for each part of a tuple."""
    resolved = as_key_type(resolve_type(key_type))
    if resolved.name in ("TUPLE", "ROW") and len(resolved.children) > 1:
        return tuple(_as_key(child, f"part {index} of the key") for index, child in enumerate(resolved.children))
    return (_as_key(resolved, "the key"),)


def _as_key(type_info: TypeInformation, what: str) -> TypeInformation:
    if type_info.uses_pickle:
        raise UsageError(
            f"{what} is of type {type_info.text}: equal keys may have different pickles; leave key_type out, or give a "
            f"plain type such as Types.STRING()"
        )
    if type_info.name in _NO_KEYS:
        raise UsageError(
            f"{what} is of type {type_info.text}, which cannot be a key; use numbers, text, dates, timestamps or "
            f"decimals, or a function without key_type="
        )
    return type_info


def check_same_type(first: TypeInformation, other: TypeInformation) -> None:
    """Raise unless `union` can combine streams of these types."""
    if first != other:
        raise TypeMismatchError(
            f"Cannot union streams of different types: {first.text} and {other.text}; map one of them to the other's "
            f"type with output_type="
        )
