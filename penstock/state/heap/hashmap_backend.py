"""HashMapBackend: the keyed state of one operator in one subtask as live Python objects (features F1).

An epoch changes live entries in place and saves their old values, so that `roll_back` can undo it. A seal takes
references, never copies of values, so a full snapshot costs about 20 ns per key; sealed values are never modified.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.model.descriptors import StateDescriptor, ValueStateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import State
from penstock.model.type_information import TypeInformation, parse_type
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.folding_handles import AggregatingHandle, ReducingHandle
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.namespace_values import NamespaceValues
from penstock.state.backend.sealed_state import SealedTable, SealedTables
from penstock.state.backend.value_guard import guard_of
from penstock.state.format.entry_bytes import address_order
from penstock.state.format.table_rows import Rows, empty_table
from penstock.state.heap.change_log import ChangeLog
from penstock.state.heap.column_handle import ColumnValueState
from penstock.state.heap.column_table import ColumnTable
from penstock.state.heap.heap_handles import HeapListState, HeapMapState, HeapValueState
from penstock.state.heap.heap_tables import ListTable, MapTable, Table, ValueTable
from penstock.state.heap.heap_timers import TimerTable
from penstock.state.heap.live_entries import list_entries, read_entries
from penstock.state.heap.namespace_table import NamespaceTable
from penstock.state.heap.value_columns import is_fixed_width
from penstock.state.ttl.stamps import live_rows

COLUMN_TABLES = (ColumnTable, NamespaceTable)
COUNTED_KEYS = 65536
"""Entries of a map state are counted at every seal up to this number of keys. It takes about 20 ns per key."""


class HashMapBackend(KeyedBackend):
    """Keyed state in memory. `roll_back` undoes the running epoch, or else the last finished one."""

    def __init__(self, place: BackendPlace) -> None:
        super().__init__(place)
        self._restored_changes: dict[str, ChangeLog] = {}
        """For restored tables that no function has declared: they do not change, but deltas build on them too."""
        self._shared_namespaces: set[str] = set()
        """States whose namespaces are shared by many keys."""
        self._sealed_since: list[CheckpointId] = []
        """Seals taken since the start of the epoch that `roll_back` would undo."""

    # ---- epochs

    def _begin(self) -> None:
        """Discard the undo data of the previous epoch."""
        for table in self._tables.values():
            table.begin()
        self._sealed_since.clear()

    def _finish(self) -> None:
        for table in self._tables.values():
            table.changes.track(table.changed())

    def _take_back(self) -> None:
        """Also undo the seals that were taken since then."""
        for table in self._tables.values():
            table.roll_back()
        for changes in self._change_logs():
            for checkpoint_id in self._sealed_since:
                changes.forget(checkpoint_id)
        self._sealed_since.clear()

    # ---- batch mode

    def accept_timers(self, *, accepted: bool) -> None:
        """Ignore timers that are registered from now on, or accept them again."""
        for table in self._tables.values():
            if isinstance(table, TimerTable):
                table.is_closed = not accepted

    def drop_keys(self, kept: Any = None) -> None:
        """Forget the state and the timers of all keys but one. It cannot be undone: `roll_back` brings nothing back.

        Only in batch mode, where an epoch starts without state and keys do not come back.
        """
        for name, table in self._tables.items():
            has_namespaces = self._infos[name].namespace is not None
            if isinstance(table, TimerTable):
                table.drop()
            elif isinstance(table, COLUMN_TABLES):
                table.drop(kept, has_namespaces=has_namespaces)
            else:
                assert isinstance(table, ValueTable | ListTable | MapTable)
                for entries in (table.live, table.undo):
                    _keep(entries, kept, has_namespaces=has_namespaces)

    # ---- snapshots

    def start_from(self, checkpoint_id: CheckpointId) -> None:
        """Record that the restored state is exactly this checkpoint, so that a delta may build on it."""
        for changes in self._change_logs():
            changes.start(checkpoint_id)

    def retain(self, bases: Collection[CheckpointId]) -> None:
        """Only these seals may be named as base from now on."""
        for changes in self._change_logs():
            changes.retain(bases)

    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables:
        """The state between two epochs: the changes since the seal of `base`, or all of it (PROTOCOL R12, R18).

        A table is sealed in full if `full` is set, if `base` is None or no longer known, or if it has no more entries
        than have changed.
        """
        assert not self._is_running
        known = None if full else base
        tables = [self._seal_table(name, table, known) for name, table in self._tables.items()]
        tables += [self._seal_restored(name, known) for name in self._restored]
        for changes in self._change_logs():
            changes.start(checkpoint_id)
        self._sealed_since.append(checkpoint_id)
        needed = None if all(sealed.full for sealed in tables) else base
        return SealedTables(
            self.operator_uid, checkpoint_id, needed, self.key_codec, self.max_parallelism, tuple(tables)
        )

    def _seal_table(self, name: str, table: Table, base: CheckpointId | None) -> SealedTable:
        changed = None if base is None else table.changes.since(base)
        if changed is None or (changed and table.has_at_most(len(changed))):
            return self._seal_whole(name, table)
        return SealedTable(self._infos[name], table.seal_changes(changed), full=False, entries=quick_count(table))

    def _seal_restored(self, name: str, base: CheckpointId | None) -> SealedTable:
        restored = self._restored[name]
        if base is None or self._changes_of_restored(name).since(base) is None:
            return SealedTable(restored.info, restored.seal(), full=True)
        return SealedTable(restored.info, partial(empty_table, restored.info), full=False)

    def seal_all(self, number: int) -> SealedTables:
        """All rows. Nothing is recorded: no delta builds on them."""
        assert not self._is_running
        return self._sealed(number, [self._seal_whole(name, table) for name, table in self._tables.items()])

    def _seal_whole(self, name: str, table: Table) -> SealedTable:
        live = self.ttl.snapshot_filter(name)
        rows = table.seal_objects() if live is not None and isinstance(table, COLUMN_TABLES) else table.seal_all()
        kept: Callable[[], Rows] = rows if live is None else partial(live_rows, rows, live)
        return SealedTable(self._infos[name], kept, full=True)

    def _change_logs(self) -> list[ChangeLog]:
        restored = [self._changes_of_restored(name) for name in self._restored]
        return [*(table.changes for table in self._tables.values()), *restored]

    def _changes_of_restored(self, name: str) -> ChangeLog:
        return self._restored_changes.setdefault(name, ChangeLog())

    # ---- tables

    def _open_table(self, info: StateTableInfo) -> Table:
        restored = self._restored.get(info.name)
        table: Table = super()._open_table(info)
        changes = self._restored_changes.pop(info.name, None)
        if changes is not None and restored is not None and restored.info == info:
            table.changes = changes  # otherwise every row has changed, and the next seal is a full one
        return table

    def _new_table(self, info: StateTableInfo) -> Table:
        if info.kind == "list":
            return ListTable()
        if info.kind == "map":
            assert info.map_key_type is not None
            map_keys_of(parse_type(info.map_key_type))  # raises for a type that cannot be a map key
            return MapTable()
        if info.kind == "timer":
            return TimerTable(address_order(info))
        value_type = parse_type(info.value_type)
        if info.name not in self._bulk or not is_fixed_width(value_type):
            return ValueTable()
        return NamespaceTable(value_type) if info.name in self._shared_namespaces else ColumnTable(value_type)

    def _new_handle(self, descriptor: StateDescriptor, table: Table, current: CurrentKey) -> State:
        if isinstance(table, MapTable):
            assert descriptor.map_key_type is not None
            return HeapMapState(current, table, map_keys_of(descriptor.map_key_type), guard_of(descriptor.value_type))
        if isinstance(table, ListTable):
            return HeapListState(current, table, guard_of(descriptor.value_type.children[0]))
        guard = guard_of(descriptor.value_type)
        if isinstance(table, COLUMN_TABLES):
            return ColumnValueState(current, table, guard)
        assert isinstance(table, ValueTable)
        value = HeapValueState(current, table, guard)
        if descriptor.kind == "reducing":
            return ReducingHandle(value)
        return AggregatingHandle(value) if descriptor.kind == "aggregating" else value

    def keys_with(self, name: str) -> list[Any]:
        """The state keys that have entries in a declared state."""
        table = self._tables[name]
        if isinstance(table, COLUMN_TABLES):
            return table.keys()
        assert isinstance(table, ValueTable | ListTable | MapTable)
        return list(table.live)

    # ---- many keys at once

    def get_many(self, name: str, addresses: Sequence[Any]) -> pa.Array:
        """The stored values of a value state."""
        table = self._tables[name]
        if isinstance(table, COLUMN_TABLES):
            return table.get_many(addresses)
        return encode_column(table.get_many(addresses), self._value_type(name))

    def put_many(self, name: str, addresses: Sequence[Any], values: pa.Array) -> None:
        """Replace stored values of a value state; null removes one."""
        table = self._tables[name]
        if isinstance(table, COLUMN_TABLES):
            table.put_many(addresses, values)
        else:
            table.put_many(addresses, decode_column(values, self._value_type(name)))

    def namespace_values(self, descriptor: ValueStateDescriptor, namespace_type: TypeInformation) -> NamespaceValues:
        """The values of a state by namespace: its table, if values are of fixed width."""
        self._shared_namespaces.add(descriptor.name)
        values = super().namespace_values(descriptor, namespace_type)
        table = self._tables[descriptor.name]
        return table if isinstance(table, NamespaceTable) else values

    # ---- queries

    def read_live(self, name: str, addresses: Sequence[Any], *, before: bool) -> list[Any]:
        """`LiveReads`: from the entries and what the epoch would need to undo its changes."""
        return read_entries(self._tables[name], addresses, before=before)

    def list_live(self, name: str, limit: int, *, before: bool) -> list[Any]:
        """`LiveReads`: the first addresses."""
        return list_entries(self._tables[name], limit, before=before)


def quick_count(table: Table) -> int | None:
    """The number of entries of a table; None for a map with many keys, because counting visits every key."""
    if isinstance(table, MapTable) and len(table.live) > COUNTED_KEYS:
        return None
    return table.entry_count()


def _keep(entries: dict[Any, Any], kept: Any, *, has_namespaces: bool) -> None:
    """Remove the entries of all keys but one, from the same dictionary: handles refer to it."""
    found = {
        address: entry for address, entry in entries.items() if (address[0] if has_namespaces else address) == kept
    }
    entries.clear()
    entries.update(found)
