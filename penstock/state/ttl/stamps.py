"""How a state with a time to live is stored: each entry with a stamp; and conversion from and to one without.

An entry is stored as a pair (stamp, entry). The stamp is the time of the last access in milliseconds, or None for an
entry that was saved before its state had a time to live; such an entry does not expire until it gets one
(features D14). Values of value, reducing and aggregating states, list elements and map values are stored as pairs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.errors import TypeMismatchError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import list_of, parse_type, scalar, tuple_of
from penstock.state.format.table_rows import VALUE_COLUMN, Rows
from penstock.state.ttl.rules import TtlRules

STAMP = scalar("LONG")


def raw_descriptor(descriptor: StateDescriptor) -> StateDescriptor:
    """The state that a backend keeps for this one: the same, or with a time to live a state of pairs.

    Reducing and aggregating states are kept as value states, because pairs cannot be reduced.
    """
    if TtlRules.of(descriptor) is None:
        return descriptor
    raw: StateDescriptor
    if isinstance(descriptor, ListStateDescriptor):
        raw = ListStateDescriptor(descriptor.name, tuple_of([STAMP, descriptor.element_type]))
    elif isinstance(descriptor, MapStateDescriptor):
        value_type = tuple_of([STAMP, descriptor.value_type])
        raw = MapStateDescriptor(descriptor.name, descriptor.map_key_type, value_type)
    else:
        raw = ValueStateDescriptor(descriptor.name, tuple_of([STAMP, descriptor.value_type]))
    parse_type(raw.value_type.text)  # raises for a type that is nested too deep to be read back
    return raw


def without_ttl(info: StateTableInfo) -> StateTableInfo:
    """The table as it would be stored without a time to live."""
    if not info.ttl:
        return info
    stored = parse_type(info.value_type)
    stamped = stored.children[0] if info.kind == "list" and stored.name == "LIST" else stored
    if stamped.name != "TUPLE" or len(stamped.children) != 2 or stamped.children[0] != STAMP:
        raise TypeMismatchError(
            f"state {info.name!r} of operator {info.operator_uid!r} was saved with a time to live, but its entries are "
            f"{info.value_type}, without a stamp; the snapshot was not written by this program, restore another one"
        )
    entry = stamped.children[1]
    return msgspec.structs.replace(info, value_type=(list_of(entry) if info.kind == "list" else entry).text, ttl=False)


def with_ttl(info: StateTableInfo) -> StateTableInfo:
    """The table as it would be stored with a time to live."""
    if info.ttl:
        return info
    plain = parse_type(info.value_type)
    if info.kind == "list":
        stamped = list_of(tuple_of([STAMP, plain.children[0]]))
    else:
        stamped = tuple_of([STAMP, plain])
    return msgspec.structs.replace(info, value_type=stamped.text, ttl=True)


def converted(rows: pa.Table, saved: StateTableInfo, declared: StateTableInfo) -> pa.Table:
    """Rows of the saved table in the form of the declared one, with or without stamps."""
    if saved.ttl == declared.ttl:
        return rows
    column = rows[VALUE_COLUMN].combine_chunks()
    change = _with_stamps if declared.ttl else _without_stamps
    column = map_lists(column, change) if declared.kind == "list" else change(column)
    index = rows.schema.get_field_index(VALUE_COLUMN)
    return rows.set_column(index, pa.field(VALUE_COLUMN, parse_type(declared.value_type).arrow), column)


def _with_stamps(entries: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([pa.nulls(len(entries), STAMP.arrow), entries], names=["f0", "f1"])


def _without_stamps(pairs: pa.Array) -> pa.Array:
    return pairs.flatten()[1]


def map_lists(lists: pa.Array, change: Any) -> pa.Array:
    """Apply a change to the elements of all lists. Deleted rows have no list."""
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), change(lists.flatten()), mask=lists.is_null())


def without_expired(rules: TtlRules, now_ms: int, *, is_list: bool) -> Callable[[Any], Any]:
    """A function that returns the part of a stored value that has not expired; None if nothing is left."""

    def live_list(pairs: Any) -> Any:
        return [pair for pair in pairs if not rules.is_expired(pair[0], now_ms)] or None

    def live_pair(pair: Any) -> Any:
        return None if rules.is_expired(pair[0], now_ms) else pair

    return live_list if is_list else live_pair


def live_rows(seal: Callable[[], Rows], live: Callable[[Any], Any]) -> Rows:
    """Rows of a full seal without what `live` drops."""
    rows = seal()
    values = [live(value) for value in rows.values]
    kept = [index for index, value in enumerate(values) if value is not None]
    map_keys = None if rows.map_keys is None else _at(rows.map_keys, kept)
    return Rows(_at(rows.keys, kept), map_keys, _at(values, kept), None)


def _at(column: Sequence[Any], indices: list[int]) -> list[Any]:
    return [column[index] for index in indices]
