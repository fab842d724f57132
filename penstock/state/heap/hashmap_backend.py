"""HashMapBackend: the keyed state of one operator in one subtask as live Python objects (features F1).

An epoch changes live entries in place and saves what was there; `roll_back` undoes it. A seal takes references, never
copies of values, so it costs about 20 ns per key for a full snapshot; what it took is never changed afterwards.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.descriptors import (
    StateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import State
from penstock.model.type_information import parse_type
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.sealed_state import SealedTable, SealedTables
from penstock.state.backend.value_guard import guard_of
from penstock.state.format.opaque_types import opaque_info
from penstock.state.format.table_rows import Rows, decode_rows, encode_rows
from penstock.state.heap.heap_handles import (
    AggregatingHandle,
    HeapListState,
    HeapMapState,
    HeapValueState,
    ReducingHandle,
)
from penstock.state.heap.heap_tables import ListTable, MapTable, Table, ValueTable
from penstock.state.heap.heap_timers import TimerTable
from penstock.state.heap.restored_table import UnclaimedTable
from penstock.state.ttl.stamps import live_rows

COUNTED_KEYS = 65536
"""Keys of a map state whose entries are counted at every seal; it takes about 20 ns per key."""


class HashMapBackend(KeyedBackend):
    """Keyed state for a range of key groups. One thread uses it; sealed tables may be read by another.

    Order of calls: any number of `restore`; then, again and again, `begin_epoch`, work, `finish_epoch`, perhaps `seal`.
    `roll_back` takes back the epoch that is running or has finished last, until the next one begins.
    """

    def __init__(
        self, operator_uid: str, key_codec: KeyCodec, max_parallelism: int, key_groups: tuple[int, int]
    ) -> None:
        super().__init__(operator_uid, key_codec, max_parallelism, key_groups)
        self._unclaimed: dict[str, UnclaimedTable] = {}
        self._is_running = False
        self._sealed: list[CheckpointId] = []
        """Seals taken since the epoch that `roll_back` would take back began."""

    def keys_with(self, name: str) -> list[Any]:
        """The state keys that have something in the state of this name, which a function has asked for."""
        table = self._tables[name]
        assert isinstance(table, ValueTable | ListTable | MapTable)
        return list(table.live)

    def restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Put rows of a snapshot in place, behind those restored before. Before the first epoch."""
        assert not self._is_running
        self._check_keys(info)
        if info.name in self._tables:
            known = self._infos[info.name]
            self._tables[info.name].apply(decode_rows(self._conversion(info, known).rows(rows), known))
            self.ttl.restart()
            return
        unclaimed = self._unclaimed.setdefault(info.name, UnclaimedTable(info))
        unclaimed.add(rows, info)
        self._infos[info.name] = unclaimed.info

    def start_from(self, checkpoint_id: CheckpointId) -> None:
        """Say that what was restored is exactly this checkpoint, so that a delta may build on it."""
        for table in self._every_table().values():
            table.changes.start(checkpoint_id)

    def retain(self, bases: Collection[CheckpointId]) -> None:
        """Only these seals will be named as base from now on."""
        for table in self._every_table().values():
            table.changes.retain(bases)

    def begin_epoch(self) -> None:
        """Start an epoch: the one before it can no longer be taken back."""
        assert not self._is_running
        for table in self._tables.values():
            table.undo.clear()
        self._sealed.clear()
        self._is_running = True
        self.ttl.begin_epoch()

    def finish_epoch(self) -> None:
        """End the epoch: its changes are the state now. Leaves the key context."""
        assert self._is_running
        for table in self._tables.values():
            table.changes.track(table.changed())
        self._is_running = False
        self.ttl.end_epoch()
        self.keys.clear()

    def roll_back(self) -> None:
        """Take back the epoch that is running or has finished last, and forget seals taken after it."""
        for table in self._every_table().values():
            table.roll_back()
            for checkpoint_id in self._sealed:
                table.changes.forget(checkpoint_id)
        self._sealed.clear()
        self._is_running = False
        self.ttl.restart()
        self.keys.clear()

    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables:
        """The state between two epochs: what changed since the seal of `base`, or all of it (PROTOCOL R12, R18).

        A table is sealed whole when `full` is asked for, when `base` is None or no longer known, and when that is no
        more than what changed.
        """
        assert not self._is_running
        tables = []
        for name, table in self._every_table().items():
            changed = None if full or base is None else table.changes.since(base)
            if changed is None or (changed and table.has_at_most(len(changed))):
                sealed = SealedTable(self._infos[name], self._seal_all(name, table), full=True)
            else:
                count = quick_count(table)
                sealed = SealedTable(self._infos[name], table.seal_changes(changed), full=False, entries=count)
            tables.append(sealed)
            table.changes.start(checkpoint_id)
        self._sealed.append(checkpoint_id)
        needed = None if all(sealed.full for sealed in tables) else base
        return SealedTables(
            self.operator_uid, checkpoint_id, needed, self.key_codec, self.max_parallelism, tuple(tables)
        )

    def seal_savepoint(self, number: int, *, native: bool) -> SealedTables:
        """All rows. Nothing is noted: no delta builds on a savepoint."""
        assert not self._is_running
        tables = [
            SealedTable(self._infos[name], self._seal_all(name, table), full=True)
            for name, table in self._every_table().items()
        ]
        return SealedTables(
            self.operator_uid, CheckpointId(number), None, self.key_codec, self.max_parallelism, tuple(tables)
        )

    def _seal_all(self, name: str, table: Table | UnclaimedTable) -> Callable[[], Rows | pa.Table]:
        live = self.ttl.snapshot_filter(name)
        if live is None or isinstance(table, UnclaimedTable):
            return table.seal_all()
        return partial(live_rows, table.seal_all(), live)

    def close(self) -> None:
        """Nothing to let go of: the memory goes with the object."""

    def entry_count(self) -> int:
        """How many rows a full seal has; looks at every key of a map state."""
        return sum(table.entry_count() for table in self._every_table().values())

    def keys_after(self, name: str, cursor: Any, limit: int) -> tuple[list[Any], Any]:
        """Up to `limit` state keys behind a cursor; they are those of the beginning, some may have gone since."""
        keys, start = cursor or (list(self._tables[name].live), 0)
        end = start + limit
        return keys[start:end], (keys, end) if end < len(keys) else None

    def _every_table(self) -> dict[str, Table | UnclaimedTable]:
        return {**self._tables, **self._unclaimed}

    def _claim(self, info: StateTableInfo) -> Table:
        """A live table, with the rows that were restored for it."""
        table = self._new_table(info)
        unclaimed = self._unclaimed.get(info.name)
        if unclaimed is not None:
            conversion = self._conversion(unclaimed.info, info)
            # A user's function is called for entries, not for what earlier parts held of them.
            parts = unclaimed.parts if conversion.migration is None else self._entries(unclaimed)
            for part in parts:
                table.apply(decode_rows(conversion.rows(part), info))
            if unclaimed.info == info:  # otherwise every row has changed, and the next seal is a full one
                table.changes = unclaimed.changes
            del self._unclaimed[info.name]
        self._infos[info.name] = info
        self._tables[info.name] = table
        return table

    def _entries(self, unclaimed: UnclaimedTable) -> list[pa.Table]:
        """The rows of restored parts, one for each entry; pickles stay what they are."""
        info = opaque_info(unclaimed.info)
        table = self._new_table(info)
        for part in unclaimed.parts:
            table.apply(decode_rows(part, info))
        return [pa.Table.from_batches([batch]) for batch in encode_rows(table.seal_all()(), info, self.key_codec)]

    def _new_table(self, info: StateTableInfo) -> Table:
        if info.kind == "list":
            return ListTable()
        if info.kind == "map":
            assert info.map_key_type is not None
            map_keys_of(parse_type(info.map_key_type))  # refuses a type that cannot be one
            return MapTable()
        return TimerTable(self.key_codec.order) if info.kind == "timer" else ValueTable()

    def _new_handle(self, descriptor: StateDescriptor, table: Table) -> State:
        if isinstance(table, MapTable):
            assert descriptor.map_key_type is not None
            return HeapMapState(self.keys, table, map_keys_of(descriptor.map_key_type), guard_of(descriptor.value_type))
        if isinstance(table, ListTable):
            return HeapListState(self.keys, table, guard_of(descriptor.value_type.children[0]))
        assert isinstance(table, ValueTable)
        guard = guard_of(descriptor.value_type)
        if descriptor.kind == "reducing":
            return ReducingHandle(HeapValueState(self.keys, table, guard))
        if descriptor.kind == "aggregating":
            return AggregatingHandle(HeapValueState(self.keys, table, guard))
        return HeapValueState(self.keys, table, guard)


def quick_count(table: Table | UnclaimedTable) -> int | None:
    """How many entries a table has; None for a map with many keys, because each one would have to be looked at."""
    if isinstance(table, UnclaimedTable) or (isinstance(table, MapTable) and len(table.live) > COUNTED_KEYS):
        return None
    return table.entry_count()
