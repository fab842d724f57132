"""HashMapBackend: the keyed state of one operator in one subtask as live Python objects (features F1).

An epoch changes live entries in place and saves what was there; `roll_back` undoes it. A seal takes references, never
copies of values, so it costs about 20 ns per key for a full snapshot; what it took is never changed afterwards.
"""

from typing import Any

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.errors import StateAccessError, TypeMismatchError, UsageError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import State
from penstock.model.type_information import parse_type
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.tables import ListTable, MapTable, Table, ValueTable
from penstock.state.backend.timer_table import TimerTable
from penstock.state.backend.unclaimed import UnclaimedTable
from penstock.state.handles import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapValueState,
)
from penstock.state.map_keys import map_keys_of
from penstock.state.rows import decode_rows
from penstock.state.sealed import SealedTable, SealedTables
from penstock.state.values import guard_of


class HashMapBackend:
    """Keyed state for a range of key groups. One thread uses it; sealed tables may be read by another.

    Order of calls: any number of `restore`; then, again and again, `begin_epoch`, work, `finish_epoch`, perhaps `seal`.
    `roll_back` takes back the epoch that is running or has finished last, until the next one begins.
    """

    def __init__(
        self, operator_uid: str, key_codec: KeyCodec, max_parallelism: int, key_groups: tuple[int, int]
    ) -> None:
        self.operator_uid = operator_uid
        self.key_codec = key_codec
        self.max_parallelism = max_parallelism
        self.key_groups = key_groups
        """First and last, both included."""
        self.keys = CurrentKey()
        self._infos: dict[str, StateTableInfo] = {}
        self._tables: dict[str, Table] = {}
        self._unclaimed: dict[str, UnclaimedTable] = {}
        self._handles: dict[str, State] = {}
        self._is_running = False
        self._sealed: list[CheckpointId] = []
        """Seals taken since the epoch that `roll_back` would take back began."""

    def table(self, descriptor: StateDescriptor) -> Any:
        """The handle of a state; the same one for the same name, kind and type (features B7)."""
        ttl = descriptor.ttl_config
        if ttl is not None and ttl.is_enabled():
            raise UsageError(
                f"state {descriptor.name!r} has a time to live, which is not available yet; remove "
                f"enable_time_to_live and clear old entries with timers"
            )
        info = self._info_of(descriptor)
        if info.name not in self._handles:
            table = self._claim(info)
            self._handles[info.name] = self._new_handle(descriptor, table)
        elif self._infos[info.name] != info:
            raise _name_in_use(self._infos[info.name], info)
        handle = self._handles[info.name]
        # A function that was made anew after a dropped run brings functions of its own (PROTOCOL R11).
        if isinstance(handle, HeapReducingState) and isinstance(descriptor, ReducingStateDescriptor):
            handle.bind(descriptor.get_reduce_function())
        elif isinstance(handle, HeapAggregatingState) and isinstance(descriptor, AggregatingStateDescriptor):
            handle.bind(descriptor.get_agg_function())
        return handle

    def handle(self, name: str) -> Any:
        """The handle of a state that a function has asked for by this name."""
        if name not in self._handles:
            known = ", ".join(map(repr, sorted(self._handles))) or "none"
            raise StateAccessError(f"operator {self.operator_uid!r} has no state {name!r}; its states are: {known}")
        return self._handles[name]

    def timer_table(self, name: str) -> TimerTable:
        """The pending timers kept under this name."""
        table = self._tables.get(name)
        if table is None:
            table = self._claim(StateTableInfo(self.operator_uid, name, "timer", self._key_types(), "LONG"))
        assert isinstance(table, TimerTable)
        return table

    def restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Put rows of a snapshot in place, behind those restored before. Before the first epoch."""
        assert not self._is_running
        if info.key_types != self._key_types():
            raise TypeMismatchError(
                f"state {info.name!r} of operator {self.operator_uid!r} was saved with keys of type "
                f"{', '.join(info.key_types)} and its stream is now keyed by {', '.join(self._key_types())}; restore "
                f"with the old key_by, or give the operator a new uid"
            )
        known = self._infos.get(info.name)
        if known is not None and known != info:
            raise _saved_otherwise(info, known)
        if info.name in self._tables:
            self._tables[info.name].apply(decode_rows(rows, info))
            return
        if known is None:
            self._infos[info.name] = info
            self._unclaimed[info.name] = UnclaimedTable(info)
        self._unclaimed[info.name].parts.append(rows)

    def start_from(self, checkpoint_id: CheckpointId) -> None:
        """Say that what was restored is exactly this checkpoint, so that a delta may build on it."""
        for table in self._every_table().values():
            table.changes.start(checkpoint_id)

    def begin_epoch(self) -> None:
        """Start an epoch: the one before it can no longer be taken back."""
        assert not self._is_running
        for table in self._tables.values():
            table.undo.clear()
        self._sealed.clear()
        self._is_running = True

    def finish_epoch(self) -> None:
        """End the epoch: its changes are the state now. Leaves the key context."""
        assert self._is_running
        for table in self._tables.values():
            table.changes.track(table.changed())
        self._is_running = False
        self.keys.clear()

    def roll_back(self) -> None:
        """Take back the epoch that is running or has finished last, and forget seals taken after it."""
        for table in self._every_table().values():
            table.roll_back()
            for checkpoint_id in self._sealed:
                table.changes.forget(checkpoint_id)
        self._sealed.clear()
        self._is_running = False
        self.keys.clear()

    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables:
        """The state between two epochs: what changed since the seal of `base`, or all of it (PROTOCOL R12, R18).

        A table is sealed whole when `full` is asked for, when `base` is None or no longer known, and when that is no
        more than what changed. Seals older than `base` can no longer be named as base.
        """
        assert not self._is_running
        tables = []
        for name, table in self._every_table().items():
            changed = None if full or base is None else table.changes.since(base)
            if changed is None or (changed and table.has_at_most(len(changed))):
                sealed = SealedTable(self._infos[name], table.seal_all(), full=True)
            else:
                sealed = SealedTable(self._infos[name], table.seal_changes(changed), full=False)
            tables.append(sealed)
            if base is not None:
                table.changes.drop_before(base)
            table.changes.start(checkpoint_id)
        self._sealed.append(checkpoint_id)
        needed = None if all(sealed.full for sealed in tables) else base
        return SealedTables(
            self.operator_uid, checkpoint_id, needed, self.key_codec, self.max_parallelism, tuple(tables)
        )

    def entry_count(self) -> int:
        """How many rows a full seal has; looks at every key of a map state."""
        return sum(table.entry_count() for table in self._every_table().values())

    def _every_table(self) -> dict[str, Table | UnclaimedTable]:
        return {**self._tables, **self._unclaimed}

    def _key_types(self) -> list[str]:
        return [str(type_info) for type_info in self.key_codec.types]

    def _info_of(self, descriptor: StateDescriptor) -> StateTableInfo:
        map_key_type = descriptor.map_key_type
        return StateTableInfo(
            self.operator_uid,
            descriptor.name,
            descriptor.kind,
            self._key_types(),
            str(descriptor.value_type),
            None if map_key_type is None else str(map_key_type),
        )

    def _claim(self, info: StateTableInfo) -> Table:
        """A live table, with the rows that were restored for it."""
        saved = self._infos.get(info.name)
        if saved is not None and saved != info:
            raise _saved_otherwise(saved, info)
        table = self._new_table(info)
        unclaimed = self._unclaimed.get(info.name)
        if unclaimed is not None:
            for part in unclaimed.parts:
                table.apply(decode_rows(part, info))
            table.changes = unclaimed.changes
            del self._unclaimed[info.name]
        self._infos[info.name] = info
        self._tables[info.name] = table
        return table

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
            return HeapReducingState(self.keys, table, guard)
        if descriptor.kind == "aggregating":
            return HeapAggregatingState(self.keys, table, guard)
        return HeapValueState(self.keys, table, guard)


def _name_in_use(known: StateTableInfo, wanted: StateTableInfo) -> TypeMismatchError:
    if known.kind != wanted.kind:
        return TypeMismatchError(f"The state name '{wanted.name}' is already in use and not a {wanted.kind} state.")
    return TypeMismatchError(
        f"State name corrupted: {wanted.name}. It is declared as {_type_text(known)} and as {_type_text(wanted)}; give "
        f"one of them another name"
    )


def _saved_otherwise(saved: StateTableInfo, declared: StateTableInfo) -> TypeMismatchError:
    return TypeMismatchError(
        f"state {saved.name!r} of operator {saved.operator_uid!r} was saved as {_type_text(saved)} and is declared as "
        f"{_type_text(declared)}; restore with the old declaration, or give the new state another name"
    )


def _type_text(info: StateTableInfo) -> str:
    key = "" if info.map_key_type is None else f"{info.map_key_type} to "
    return f"{info.kind} state of {key}{info.value_type}"
