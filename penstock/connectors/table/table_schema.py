"""How the columns of records fit a table: what is added, what is widened, and what is refused.

Schemas are Arrow schemas of plain types: a table format's own large strings, large lists and field numbers are left
out, so that equal types compare equal.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from penstock.connectors.record_columns import columns_of
from penstock.errors import TypeMismatchError, UsageError
from penstock.model.type_information import TypeInformation

_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_FLOATS = [pa.float32(), pa.float64()]


@dataclass(frozen=True)
class Evolution:
    """The table's schema with the columns of the records, and what it has to change for them."""

    schema: pa.Schema
    """Every column of the table after the change: rows are written with all of them."""
    added: tuple[pa.Field, ...] = ()
    widened: tuple[pa.Field, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the table has to change."""
        return bool(self.added or self.widened)


def evolve(table: pa.Schema, records: pa.Schema, where: str, *, widens: bool) -> Evolution:
    """How the table must change to take the records. Columns that the records lack stay null.

    Args:
        where: names the table in messages.
        widens: whether the table format can widen a column of numbers.

    Raises TypeMismatchError, with both schemas, if a column has another type.
    """
    known = {name.lower(): name for name in table.names}
    added, widened, problems = [], [], []
    for field in records:
        name = known.get(field.name.lower())
        if name is None:
            added.append(pa.field(field.name, field.type))
        elif name != field.name:
            problems.append(f"column {field.name!r} is called {name!r} there")
        elif not is_wider(table.field(name).type, field.type):
            if is_wider(field.type, table.field(name).type) and widens:
                widened.append(pa.field(name, field.type, table.field(name).nullable))
            else:
                problems.append(f"column {name!r} is {table.field(name).type} there and {field.type} in the records")
    written = set(records.names)
    problems += [
        f"column {field.name!r} takes no null and is not in the records"
        for field in table
        if field.name not in written and not field.nullable
    ]
    if problems:
        raise TypeMismatchError(
            f"records do not fit {where}: {'; '.join(problems)}. The table has ({schema_text(table)}), the records "
            f"have ({schema_text(records)}); change the record type, or write to another table"
        )
    wider = {field.name: field for field in widened}
    return Evolution(
        pa.schema([*(wider.get(field.name, field) for field in table), *added]), tuple(added), tuple(widened)
    )


def is_wider(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether the first type holds every value of the second, in a way that table formats can convert.

    >>> is_wider(pa.int64(), pa.int32()), is_wider(pa.int32(), pa.int64()), is_wider(pa.float64(), pa.int32())
    (True, False, False)
    """
    for family in (_INTEGERS, _FLOATS):
        if wide in family and narrow in family:
            return family.index(wide) >= family.index(narrow)
    if pt.is_decimal(wide) and pt.is_decimal(narrow):
        return bool(wide.scale == narrow.scale and wide.precision >= narrow.precision)
    return bool(plain_type(wide) == plain_type(narrow))


def record_schema(record_type: TypeInformation, what: str) -> pa.Schema:
    """The columns of records; UsageError if they have none, or if table formats have no such type."""
    columns = columns_of(record_type, what)
    fields = zip(columns.names, columns.children, strict=True) if columns.names is not None else [("value", columns)]
    schema = pa.schema([pa.field(name, field.arrow) for name, field in fields])
    for field in schema:
        if _has_duration(field.type):
            raise UsageError(
                f"{what} has no column type for a duration (column {field.name!r}); write a number, such as its seconds"
            )
    lower = [name.lower() for name in schema.names]
    for name in schema.names:
        if lower.count(name.lower()) > 1:
            raise UsageError(f"{what} has two columns {name!r}, whatever their case; rename one of them")
    return schema


def require_columns(names: Iterable[str], schema: pa.Schema, where: str) -> None:
    """Raise UsageError unless the columns by which a table is to be partitioned exist."""
    for name in names:
        if name not in schema.names:
            raise UsageError(
                f"{where} is to be partitioned by {name!r}, which is not a column of ({schema_text(schema)}); "
                f"choose one of them"
            )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without anything that is specific to one table format."""
    return pa.schema([pa.field(field.name, plain_type(field.type), field.nullable) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The same type in one form: small offsets, UTC by that name, no field metadata."""
    return with_leaves(kind, _plain_leaf)


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with every type in it changed that is not a list, map or struct."""
    if pt.is_map(kind):
        return pa.map_(with_leaves(kind.key_type, change), with_leaves(kind.item_type, change))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.list_(with_leaves(kind.value_type, change))
    if pt.is_struct(kind):
        return pa.struct([pa.field(child.name, with_leaves(child.type, change)) for child in kind])
    return change(kind)


def _plain_leaf(kind: pa.DataType) -> pa.DataType:
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, tz="UTC")
    return kind


def schema_text(schema: pa.Schema) -> str:
    """The schema in one line.

    >>> schema_text(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    'id int64, name string'
    """
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _has_duration(kind: pa.DataType) -> bool:
    if pt.is_map(kind):
        return _has_duration(kind.key_type) or _has_duration(kind.item_type)
    return pt.is_duration(kind) or any(_has_duration(kind.field(index).type) for index in range(kind.num_fields))
