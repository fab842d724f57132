"""The table that a sink writes to, and the columns that a record type needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.codec.row_codec import VALUE_COLUMN
from penstock.errors import ArgumentValueError, ConnectorRefusedError, UsageError
from penstock.model.type_information import row_of
from penstock.model.types import TypeInformation

NESTED = ("LIST", "MAP", "ROW", "TUPLE")
"""Types whose values are stored as JSON."""


@dataclass(frozen=True)
class DatabaseTable:
    """What a sink writes, and how."""

    name: str
    """`table` or `schema.table`."""
    key: tuple[str, ...] = ()
    """Columns by which a row replaces an older one. Without a key each row is added."""
    create: bool = True
    """Create the table from the record type if it is missing."""
    columns: tuple[str, ...] | None = None
    """Names of the columns in the order of the record's fields, if they are not those of the fields."""
    statement: str = ""
    """An SQL statement with a `?` per column that replaces the sink's own, for example with arithmetic in it."""

    def __post_init__(self) -> None:
        if not self.name or not all(self.name.split(".")):
            raise ArgumentValueError(f"{self.name!r} is not the name of a table; write 'table' or 'schema.table'")


@dataclass(frozen=True)
class Column:
    """A column of the record type."""

    name: str
    type: TypeInformation


@dataclass(frozen=True)
class FoundColumn:
    """A column that a table in the database has."""

    sql_type: str
    """As the database writes it."""
    is_required: bool = False
    """Whether a row must have a value for it."""


def row_type(record_type: TypeInformation) -> TypeInformation:
    """The record type as a type with named fields. Raises UsageError if its fields are not declared."""
    if record_type.kind != "arrow":
        raise UsageError(
            "a table needs the type of its records, but these have none; declare it with output_type= on the "
            "operator before the sink, for example output_type='name string, total double'"
        )
    if record_type.names is not None:
        return record_type
    if record_type.name == "TUPLE":
        return row_of([f"f{index}" for index in range(len(record_type.children))], record_type.children)
    return row_of([VALUE_COLUMN], [record_type])


def columns_of(record_type: TypeInformation, table: DatabaseTable) -> list[Column]:
    """The columns in which records of this type are stored."""
    rows = row_type(record_type)
    fields, names = rows.get_field_types(), table.columns or tuple(rows.get_field_names())
    if len(names) != len(fields):
        raise UsageError(
            f"the statement for {table.name!r} has {len(names)} columns, the record type {rows.text} {len(fields)}"
        )
    untyped = [name for name, field in zip(names, fields, strict=True) if field.kind != "arrow"]
    if untyped:
        raise UsageError(f"column {untyped[0]!r} of {rows.text} has no type that a database could store; declare one")
    missing = [name for name in table.key if name not in names]
    if missing:
        raise UsageError(
            f"key column {missing[0]!r} of table {table.name!r} is not a field of the records: {rows.text}"
        )
    return [Column(name, field) for name, field in zip(names, fields, strict=True)]


def require_fit(
    table: DatabaseTable,
    columns: list[Column],
    found: Mapping[str, FoundColumn],
    accepts: Callable[[str, TypeInformation], bool],
    column_type: Callable[[TypeInformation], str],
) -> None:
    """Return if the table can take all rows of the columns; otherwise ConnectorRefusedError with both schemas."""
    problems = []
    for column in columns:
        there = found.get(column.name)
        if there is None:
            problems.append(f"it has no column {column.name!r}")
        elif not accepts(there.sql_type, column.type):
            problems.append(f"column {column.name!r} is {there.sql_type} and cannot store {column.type.text}")
    names = {column.name for column in columns}
    problems += [
        f"column {name!r} needs a value, but the records have no such field"
        for name, there in found.items()
        if there.is_required and name not in names
    ]
    if problems:
        has = ", ".join(f"{name} {there.sql_type}" for name, there in found.items())
        needs = ", ".join(f"{column.name} {column_type(column.type)}" for column in columns)
        raise ConnectorRefusedError(
            f"table {table.name!r} does not fit the records: {'; '.join(problems)}\n  the table has ({has})\n"
            f"  the records need ({needs})\n  change the table, rename or convert fields before the sink, or write to "
            f"another table"
        )
