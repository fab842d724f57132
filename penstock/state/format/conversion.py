"""Converts saved rows to the type that the program declares: by Arrow casts, or with the user's function.

`schema_evolution.compare_states` decides which of them applies, if any.
"""

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.errors import UnsupportedValueError, UserFunctionError
from penstock.model.descriptors import Migration
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo
from penstock.model.type_information import TypeInformation, parse_type
from penstock.state.backend.value_guard import storer
from penstock.state.format.schema_evolution import (
    MIGRATES,
    REFUSED,
    StateInfo,
    compare_states,
    incompatible,
    plain_type,
)
from penstock.state.format.table_rows import DELETED_COLUMN, VALUE_COLUMN, key_codec_of
from penstock.state.ttl.stamps import converted, with_ttl, without_ttl

DROPPED = object()


class Conversion:
    """Converts one saved state to the declared one. Raises IncompatibleStateError if that is not possible."""

    def __init__(self, saved: StateInfo, declared: StateInfo, migration: Migration | None) -> None:
        change = compare_states(saved, declared, migration)
        if change.outcome == REFUSED:
            raise incompatible(saved, declared, change.reason)
        self.saved = saved
        self.declared = declared
        self.migration = migration if change.outcome == MIGRATES else None
        """None if casts are enough. Otherwise the user's function is called for each row."""

    def rows(self, rows: pa.Table) -> pa.Table:
        """Rows of a keyed state. An entry that the function drops becomes a delete."""
        saved, declared = self.saved, self.declared
        assert isinstance(saved, StateTableInfo) and isinstance(declared, StateTableInfo)
        if self.migration is None:
            return evolved(rows, saved, declared)
        between = with_ttl(saved) if declared.ttl else without_ttl(saved)
        rows = converted(rows, saved, between)
        calls = MigrationCalls(self.migration, saved, declared, lambda index: repr(_user_key(rows, saved, index)))
        deleted = rows[DELETED_COLUMN].to_numpy().copy()
        old = decode_column(rows[VALUE_COLUMN], parse_type(between.value_type))
        change = calls.elements if declared.kind == "list" else calls.value
        new = [
            None if gone else change(value, index) for index, (value, gone) in enumerate(zip(old, deleted, strict=True))
        ]
        for index, value in enumerate(new):
            if value is DROPPED:
                deleted[index], new[index] = True, None
        rows = _replaced(rows, VALUE_COLUMN, encode_column(new, parse_type(declared.value_type)))
        return _replaced(rows, DELETED_COLUMN, pa.array(deleted))

    def operator_rows(self, rows: pa.Table) -> pa.Table:
        """Elements of a list state or entries of a broadcast state. Entries that the function drops are left out."""
        saved, declared = self.saved, self.declared
        assert isinstance(saved, OperatorStateInfo) and isinstance(declared, OperatorStateInfo)
        old_type, new_type = parse_type(saved.value_type), parse_type(declared.value_type)
        if self.migration is None:
            return evolved_rows(rows, old_type, new_type)
        calls = MigrationCalls(self.migration, saved, declared, lambda index: f"position {index}")
        old = decode_column(rows[VALUE_COLUMN], old_type)
        new = [calls.value(value, index) for index, value in enumerate(old)]
        kept = [index for index, value in enumerate(new) if value is not DROPPED]
        column = encode_column([new[index] for index in kept], new_type)
        return _replaced(rows.take(pa.array(kept, pa.int64())), VALUE_COLUMN, column)


class MigrationCalls:
    """Calls the user's function, and takes care of stamps, lists and errors."""

    def __init__(
        self, migration: Migration, saved: StateInfo, declared: StateInfo, place: Callable[[int], str]
    ) -> None:
        self._function = migration.function
        self._has_stamps = isinstance(declared, StateTableInfo) and declared.ttl
        self._state = saved
        self._place = place
        entry = plain_type(declared)
        self._store = storer(
            entry.children[0] if isinstance(declared, StateTableInfo) and declared.kind == "list" else entry
        )

    def value(self, value: Any, index: int) -> Any:
        """The new stored value of a row, DROPPED for none."""
        if not self._has_stamps:
            return self._call(value, index)
        entry = self._call(value[1], index)
        return DROPPED if entry is DROPPED else (value[0], entry)

    def elements(self, values: Sequence[Any], index: int) -> Any:
        """The new stored list of a row, DROPPED for an empty one."""
        found = [self.value(value, index) for value in values]
        return [value for value in found if value is not DROPPED] or DROPPED

    def _call(self, value: Any, index: int) -> Any:
        if value is None:  # only a map can contain it
            return None
        try:
            new = self._function(value)
        except Exception as error:
            raise UserFunctionError(self._state.operator_uid, self._where(index), traceback.format_exc()) from error
        try:
            return DROPPED if new is None else self._store(new)
        except UnsupportedValueError as error:
            raise UnsupportedValueError(
                f"{self._where(index)} of operator {self._state.operator_uid!r}: {error}"
            ) from error

    def _where(self, index: int) -> str:
        return f"in the migrate function of state {self._state.name!r} at {self._place(index)}"


def evolved(rows: pa.Table, saved: StateTableInfo, declared: StateTableInfo) -> pa.Table:
    """Rows of a saved table in the declared type, if the rules allow it; pickles are not loaded."""
    if saved == declared:
        return rows
    between = with_ttl(saved) if declared.ttl else without_ttl(saved)
    rows = converted(rows, saved, between)
    return evolved_rows(rows, parse_type(between.value_type), parse_type(declared.value_type))


def evolved_rows(rows: pa.Table, old: TypeInformation, new: TypeInformation) -> pa.Table:
    """The same for two types of the value column."""
    if old == new:
        return rows
    chunks = [evolve_column(chunk, old, new) for chunk in rows[VALUE_COLUMN].chunks]
    return _replaced(rows, VALUE_COLUMN, pa.chunked_array(chunks, type=new.arrow))


def evolve_column(column: pa.Array, old: TypeInformation, new: TypeInformation) -> pa.Array:
    """A column of one type in another, field by field; a new field is null."""
    if old == new:
        return column
    if old.name == "ROW":
        return _evolve_row(column, old, new)
    if old.name == "TUPLE":
        pairs = zip(old.children, new.children, strict=True)
        children = [evolve_column(column.field(index), *pair) for index, pair in enumerate(pairs)]
        return pa.StructArray.from_arrays(children, fields=list(new.arrow), mask=_mask(column))
    if old.name == "LIST":
        offsets, first, last = _offsets(column)
        child = evolve_column(column.values[first:last], old.children[0], new.children[0])
        return pa.ListArray.from_arrays(offsets, child, type=new.arrow, mask=_mask(column))
    if old.name == "MAP":
        offsets, first, last = _offsets(column)
        items = evolve_column(column.items[first:last], old.children[1], new.children[1])
        return pa.MapArray.from_arrays(offsets, column.keys[first:last], items, type=new.arrow, mask=_mask(column))
    return column.cast(new.arrow)


def _evolve_row(column: pa.Array, old: TypeInformation, new: TypeInformation) -> pa.Array:
    places = {name: index for index, name in enumerate(old.names or ())}
    children = []
    for name, child in zip(new.names or (), new.children, strict=True):
        index = places.get(name)
        if index is None:
            children.append(pa.nulls(len(column), child.arrow))
        else:
            children.append(evolve_column(column.field(index), old.children[index], child))
    return pa.StructArray.from_arrays(children, fields=list(new.arrow), mask=_mask(column))


def _offsets(column: pa.Array) -> tuple[pa.Array, int, int]:
    """The offsets of lists or maps from the first one, and the range of elements that they cover."""
    offsets = np.asarray(column.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return pa.array(offsets - first, pa.int32()), first, last


def _mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _replaced(rows: pa.Table, name: str, column: Any) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(name).with_type(column.type), column)


def _user_key(rows: pa.Table, info: StateTableInfo, index: int) -> Any:
    codec = key_codec_of(info)
    row = rows.slice(index, 1)
    keys = codec.decode([row[name].combine_chunks() for name, _ in codec.fields])
    return codec.to_user_key(keys[0])
