"""The rows of a state for readers: typed columns as they are stored, untyped values as JSON text."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State
from penstock.checkpoint.snapshot.table_reader import SUBTASK_COLUMN
from penstock.codec.readable import has_untyped, readable_type, to_declared, to_readable
from penstock.errors import UsageError
from penstock.model.type_information import TypeInformation, parse_type, scalar, tuple_of
from penstock.state.format.keyed_parquet import EXPIRES, EXPIRES_COLUMN, KEY_COLUMN
from penstock.state.format.operator_parquet import POSITION_COLUMN
from penstock.state.format.table_rows import MAP_KEY_COLUMN, NAMESPACE_COLUMN, VALUE_COLUMN
from penstock.state.operator.operator_file import KEY_GROUP_COLUMN
from penstock.state.ttl.stamps import without_ttl
from penstock.storage.storage import Storage

LAST_ACCESS_COLUMN = "last_access"
"""Instead of `expires_at`, in a snapshot that does not say how long entries live."""


@dataclass(frozen=True)
class ReadColumn:
    """One column of a state."""

    name: str
    stored: str
    """Its name in a savepoint's file."""
    type: TypeInformation
    declared: TypeInformation | None = None
    """The type that the user declares for untyped values."""

    @property
    def arrow(self) -> pa.DataType:
        """Its type for the reader."""
        if self.stored == EXPIRES_COLUMN:
            return pa.list_(EXPIRES) if self.type.name == "LIST" else EXPIRES
        return (self.declared or readable_type(self.type)).arrow

    @property
    def is_as_stored(self) -> bool:
        """Its values are shown as they are stored."""
        return self.declared is None and not has_untyped(self.type)

    def of(self, table: pa.Table) -> pa.Array:
        """The column of some stored rows."""
        column = table[self.stored].combine_chunks()
        if self.is_as_stored:
            return column
        return (
            to_readable(column, self.type) if self.declared is None else to_declared(column, self.type, self.declared)
        )


@dataclass(frozen=True)
class ReadableState:
    """A state and its columns."""

    state: State
    columns: tuple[ReadColumn, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns for readers, without the hash of the keys."""
        return pa.schema([(column.name, column.arrow) for column in self.columns])

    @property
    def is_as_stored(self) -> bool:
        """Any Parquet reader sees the same rows in a canonical savepoint's files."""
        return self.state.is_uniform and all(column.is_as_stored for column in self.columns)

    def of(self, table: pa.Table) -> pa.Table:
        """The stored rows in the columns for readers."""
        return pa.Table.from_arrays([column.of(table) for column in self.columns], schema=self.schema)

    def read(self, storage: Storage, key_groups: tuple[int, int] | None = None) -> Iterator[pa.Table]:
        """All rows, or those of some key groups, in portions."""
        return map(self.of, self.state.read(storage, key_groups))


@dataclass(frozen=True)
class DeclaredTypes:
    """The types that the user declares for untyped keys, map keys and values."""

    key: TypeInformation | None = None
    map_key: TypeInformation | None = None
    value: TypeInformation | None = None
    namespace: TypeInformation | None = None


def readable(state: State, declared: DeclaredTypes | None = None) -> ReadableState:
    """The state with its columns for readers."""
    types = declared or DeclaredTypes()
    columns = _keyed_columns(state, types) if isinstance(state, KeyedState) else _operator_columns(state, types)
    for column in columns:
        if column.declared is not None and not has_untyped(column.type) and column.declared != column.type:
            raise UsageError(
                f"column {column.name!r} of state {state.name!r} has the type {column.type.text}, so it cannot be "
                f"read as {column.declared.text}; cast it afterwards"
            )
    return ReadableState(state, tuple(columns))


def key_type_of(key_types: list[str]) -> TypeInformation:
    """The type of the key column: a tuple where the stream has several key columns."""
    types = [parse_type(text) for text in key_types]
    return types[0] if len(types) == 1 else tuple_of(types)


def _keyed_columns(state: KeyedState, declared: DeclaredTypes) -> list[ReadColumn]:
    info = without_ttl(state.info)
    value_type = parse_type(info.value_type)
    columns = [
        ReadColumn(KEY_GROUP_COLUMN, KEY_GROUP_COLUMN, scalar("INT")),
        ReadColumn(KEY_COLUMN, KEY_COLUMN, key_type_of(info.key_types), declared.key),
    ]
    if info.namespace is not None:
        columns.append(ReadColumn(NAMESPACE_COLUMN, NAMESPACE_COLUMN, parse_type(info.namespace), declared.namespace))
    if info.map_key_type is not None:
        columns.append(ReadColumn(MAP_KEY_COLUMN, MAP_KEY_COLUMN, parse_type(info.map_key_type), declared.map_key))
    columns.append(ReadColumn(VALUE_COLUMN, VALUE_COLUMN, value_type, declared.value))
    if state.info.ttl:
        name = EXPIRES_COLUMN if state.ttl_ms else LAST_ACCESS_COLUMN
        stamp = parse_type("LIST<TIMESTAMP>") if state.kind == "list" else scalar("TIMESTAMP")
        columns.append(ReadColumn(name, EXPIRES_COLUMN, stamp))
    return columns


def _operator_columns(state: State, declared: DeclaredTypes) -> list[ReadColumn]:
    info = state.info
    columns = [
        ReadColumn(SUBTASK_COLUMN, SUBTASK_COLUMN, scalar("INT")),
        ReadColumn(POSITION_COLUMN, POSITION_COLUMN, scalar("LONG")),
    ]
    if info.map_key_type is not None:
        columns.append(ReadColumn(MAP_KEY_COLUMN, MAP_KEY_COLUMN, parse_type(info.map_key_type), declared.map_key))
    if state.mode == "raw_keyed":
        columns.append(ReadColumn(KEY_GROUP_COLUMN, KEY_GROUP_COLUMN, scalar("INT")))
    return [*columns, ReadColumn(VALUE_COLUMN, VALUE_COLUMN, parse_type(info.value_type), declared.value)]
