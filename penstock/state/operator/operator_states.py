"""The operator state of one operator in one subtask: in memory, rolled back with its epoch, sealed without a copy.

List states and broadcast states have separate names (features C6); there is raw state too. Restored states that no
function declares are copied to snapshots as they were read.
"""

from typing import Any, cast

import pyarrow as pa

from penstock.codec.columns import decode_column
from penstock.errors import StateLostError, TypeMismatchError, UsageError
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, Migration, StateDescriptor
from penstock.model.operator_state import BroadcastState, OperatorStateStore
from penstock.model.snapshot import OperatorStateInfo
from penstock.model.state import ListState
from penstock.model.type_information import parse_type
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.value_guard import guard_of
from penstock.state.format.conversion import Conversion
from penstock.state.format.schema_evolution import common_operator_info, kind_of, state_text
from penstock.state.heap.copy_on_write import CopyOnWrite
from penstock.state.operator.operator_file import KEY_GROUP_COLUMN, MAP_KEY_COLUMN, VALUE_COLUMN, SealedOperatorState
from penstock.state.operator.operator_handles import OperatorBroadcastState, OperatorListState
from penstock.state.operator.raw_state import OperatorRawState

RAW, RAW_KEYED = "raw", "raw_keyed"


class OperatorStates(OperatorStateStore):
    """Handles for the function, epochs for the subtask. Used by one thread; sealed state may be read by another.

    Order of calls: any number of `restore`; then, repeatedly, `begin_epoch`, state accesses, `finish_epoch`, and
    optionally `seal`.
    """

    def __init__(self, operator_uid: str, subtask_index: int, key_groups: tuple[int, int] | None) -> None:
        self.operator_uid = operator_uid
        self._index = subtask_index
        self._infos: dict[tuple[str, str], OperatorStateInfo] = {}
        """("list" or "broadcast", name) -> its description; `count` is not maintained."""
        self._states: dict[tuple[str, str], CopyOnWrite[Any]] = {}
        self._migrations: dict[tuple[str, str], Migration | None] = {}
        self._restored: dict[tuple[str, str], list[pa.Table]] = {}
        self.raw = OperatorRawState(key_groups)
        self.epochs = 0
        """Epochs finished since the subtask was deployed."""

    # ---- handles

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list_state(state_descriptor, "split")

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list_state(state_descriptor, "union")

    def _list_state(self, descriptor: ListStateDescriptor, mode: str) -> ListState[Any]:
        _require(descriptor, ListStateDescriptor)
        info = OperatorStateInfo(self.operator_uid, descriptor.name, mode, descriptor.element_type.text, None, 0)
        return OperatorListState(self._open_state(info, descriptor.migration), guard_of(descriptor.element_type))

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        descriptor = state_descriptor
        _require(descriptor, MapStateDescriptor)
        types = descriptor.value_type.text, descriptor.map_key_type.text
        info = OperatorStateInfo(self.operator_uid, descriptor.name, "broadcast", *types, 0)
        keys = map_keys_of(descriptor.map_key_type)  # raises for a type that cannot be a map key
        return OperatorBroadcastState(
            self._open_state(info, descriptor.migration), keys, guard_of(descriptor.value_type)
        )

    def _open_state(self, info: OperatorStateInfo, migration: Migration | None) -> CopyOnWrite[Any]:
        """The state, including its restored elements."""
        place = _place(info)
        known = self._infos.get(place, info)
        if place in self._states and known != info:
            raise _other_kind(known, info)
        if place not in self._states:
            conversion = Conversion(known, info, migration)
            content: Any = {} if info.mode == "broadcast" else []
            for table in map(conversion.operator_rows, self._restored.get(place, [])):
                if info.mode == "broadcast":
                    content.update(_entries(table, info))
                else:
                    content += decode_column(table[VALUE_COLUMN], parse_type(info.value_type))
            self._restored.pop(place, None)
            self._infos[place], self._migrations[place] = info, migration
            self._states[place] = CopyOnWrite(content)
        return self._states[place]

    def declared(self) -> list[tuple[OperatorStateInfo, Migration | None]]:
        """The declared states."""
        return [(self._infos[place], self._migrations[place]) for place in self._states]

    # ---- restore

    def restore(self, info: OperatorStateInfo, rows: pa.Table) -> None:
        """Add a share of an old snapshot to those restored before. Called before the function is opened."""
        if info.mode == RAW:
            self.raw.restore_partitions(rows[VALUE_COLUMN].to_pylist())
            return
        if info.mode == RAW_KEYED:
            groups = zip(rows[KEY_GROUP_COLUMN].to_pylist(), rows[VALUE_COLUMN].to_pylist(), strict=True)
            self.raw.restore_key_groups(groups)
            return
        place = _place(info)
        info = _uncounted(info)
        known = self._infos.get(place, info)
        merged = self._infos[place] = common_operator_info(known, info)
        parts = [Conversion(known, merged, None).operator_rows(part) for part in self._restored.get(place, [])]
        self._restored[place] = [*parts, Conversion(info, merged, None).operator_rows(rows)]

    # ---- epochs

    def begin_epoch(self) -> None:
        """Nothing to do: changes by `initialize_state` belong to the following epoch."""

    def finish_epoch(self) -> None:
        """Commit the epoch: `roll_back` now returns to this state."""
        for state in self._every_container():
            state.commit()
        self.epochs += 1

    def roll_back(self) -> None:
        """Undo the running epoch, for a new function object (PROTOCOL R11).

        The elements of the other subtasks at the parent version are not known here, so a function with union list
        state can only be started again by a restore.
        """
        union = [name for (_, name), info in self._infos.items() if info.mode == "union"]
        declared = [name for name in union if ("list", name) in self._states]
        if declared and self.epochs:
            raise StateLostError(
                f"operator {self.operator_uid!r} has the union list state {declared[0]!r}, which only a restore "
                f"provides in full, so a lost task of it ends the attempt"
            )
        for state in self._every_container():
            state.roll_back()

    def start_function(self) -> None:
        """Prepare for a new function object, which has not used any raw state yet."""
        self.raw.start_function()

    def _every_container(self) -> list[CopyOnWrite[Any]]:
        return [*self._states.values(), self.raw.partitions, self.raw.key_groups]

    # ---- snapshots

    def seal(self) -> list[SealedOperatorState]:
        """All states between two epochs. Later changes do not affect the result."""
        sealed = [_sealed(self._infos[place], state.share()) for place, state in self._states.items()]
        for place, tables in self._restored.items():
            info = self._infos[place]
            # Every subtask has all elements of a union state, so only one of them writes them.
            if info.mode != "union" or self._index == 0:
                sealed.append(_sealed(info, pa.concat_tables(tables)))
        raw: list[tuple[str, CopyOnWrite[Any]]] = [(RAW, self.raw.partitions), (RAW_KEYED, self.raw.key_groups)]
        for mode, state in raw:
            if state.live:
                info = OperatorStateInfo(self.operator_uid, "", mode, "BINARY", None, 0)
                sealed.append(_sealed(info, state.share()))
        return sealed

    def content(self, name: str, *, broadcast: bool = False) -> Any:
        """The elements of a list state or the dictionary of a broadcast state, for tests and queries."""
        place = ("broadcast" if broadcast else "list", name)
        state = self._states.get(place)
        if state is None:
            known = ", ".join(sorted(repr(name) for _, name in self._states)) or "none"
            raise UsageError(f"operator {self.operator_uid!r} has no operator state {name!r}; its states are: {known}")
        if not broadcast:
            return list(state.live)
        to_user = map_keys_of(parse_type(cast(str, self._infos[place].map_key_type))).to_user
        return {key if to_user is None else to_user(key): value for key, value in state.live.items()}


def _place(info: OperatorStateInfo) -> tuple[str, str]:
    return "broadcast" if info.mode == "broadcast" else "list", info.name


def _uncounted(info: OperatorStateInfo) -> OperatorStateInfo:
    return OperatorStateInfo(info.operator_uid, info.name, info.mode, info.value_type, info.map_key_type, 0)


def _sealed(info: OperatorStateInfo, content: Any) -> SealedOperatorState:
    counted = OperatorStateInfo(
        info.operator_uid, info.name, info.mode, info.value_type, info.map_key_type, len(content)
    )
    return SealedOperatorState(counted, content)


def _entries(table: pa.Table, info: OperatorStateInfo) -> dict[Any, Any]:
    assert info.map_key_type is not None
    keys = map_keys_of(parse_type(info.map_key_type)).decode(table[MAP_KEY_COLUMN].combine_chunks())
    return dict(zip(keys, decode_column(table[VALUE_COLUMN], parse_type(info.value_type)), strict=True))


def _require(descriptor: StateDescriptor, kind: type[StateDescriptor]) -> None:
    if not isinstance(descriptor, kind):
        raise TypeError(f"expected a {kind.__name__}, got an object of type {type(descriptor).__name__}")
    ttl = descriptor.ttl_config
    if ttl is not None and ttl.is_enabled():
        raise UsageError(
            f"operator state {descriptor.name!r} has a time to live, which only keyed state can have; remove "
            f"enable_time_to_live, and remove old entries in the function"
        )


def _other_kind(known: OperatorStateInfo, declared: OperatorStateInfo) -> TypeMismatchError:
    if known.mode != declared.mode:
        return TypeMismatchError(
            f"The state name '{declared.name}' is already in use and not a {kind_of(declared)} state."
        )
    return TypeMismatchError(
        f"State name corrupted: {declared.name}. It is declared as {state_text(known)} and as {state_text(declared)}; "
        f"give one of them another name"
    )
