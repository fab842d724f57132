"""The operator state of one operator in one subtask: live in memory, taken back with its epoch, sealed without a copy.

Two registries, as a list state and a broadcast state may share a name (features C6), and raw state beside them.
States that were restored and that no function asks for are carried on as they were read.
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
from penstock.state.heap.copy_on_write import Held
from penstock.state.operator.operator_file import KEY_GROUP_COLUMN, MAP_KEY_COLUMN, VALUE_COLUMN, SealedOperatorState
from penstock.state.operator.operator_handles import OperatorBroadcastState, OperatorListState
from penstock.state.operator.raw_state import OperatorRawState

RAW, RAW_KEYED = "raw", "raw_keyed"


class OperatorStates(OperatorStateStore):
    """Handles for the function, epochs for the subtask. One thread uses it; what is sealed may be read by another.

    Order of calls: any number of `restore`; then, again and again, `begin_epoch`, work, `finish_epoch`, perhaps `seal`.
    """

    def __init__(self, operator_uid: str, subtask_index: int, key_groups: tuple[int, int] | None) -> None:
        self.operator_uid = operator_uid
        self._index = subtask_index
        self._infos: dict[tuple[str, str], OperatorStateInfo] = {}
        """(registry, name) -> what it is; `count` is not kept up."""
        self._states: dict[tuple[str, str], Held[Any]] = {}
        self._migrations: dict[tuple[str, str], Migration | None] = {}
        self._unclaimed: dict[tuple[str, str], list[pa.Table]] = {}
        self.raw = OperatorRawState(key_groups)
        self.epochs = 0
        """Finished since the subtask was deployed."""

    # ---- handles

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list_state(state_descriptor, "split")

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list_state(state_descriptor, "union")

    def _list_state(self, descriptor: ListStateDescriptor, mode: str) -> ListState[Any]:
        _require(descriptor, ListStateDescriptor)
        info = OperatorStateInfo(self.operator_uid, descriptor.name, mode, str(descriptor.element_type), None, 0)
        return OperatorListState(self._claim(info, descriptor.migration), guard_of(descriptor.element_type))

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        descriptor = state_descriptor
        _require(descriptor, MapStateDescriptor)
        types = str(descriptor.value_type), str(descriptor.map_key_type)
        info = OperatorStateInfo(self.operator_uid, descriptor.name, "broadcast", *types, 0)
        keys = map_keys_of(descriptor.map_key_type)  # refuses a type that cannot be one
        return OperatorBroadcastState(self._claim(info, descriptor.migration), keys, guard_of(descriptor.value_type))

    def _claim(self, info: OperatorStateInfo, migration: Migration | None) -> Held[Any]:
        """The live state, with the elements that were restored for it."""
        place = _place(info)
        known = self._infos.get(place, info)
        if place in self._states and known != info:
            raise _other_kind(known, info)
        if place not in self._states:
            conversion = Conversion(known, info, migration)
            content: Any = {} if info.mode == "broadcast" else []
            for table in map(conversion.operator_rows, self._unclaimed.get(place, [])):
                if info.mode == "broadcast":
                    content.update(_entries(table, info))
                else:
                    content += decode_column(table[VALUE_COLUMN], parse_type(info.value_type))
            self._unclaimed.pop(place, None)
            self._infos[place], self._migrations[place] = info, migration
            self._states[place] = Held(content)
        return self._states[place]

    def declared(self) -> list[tuple[OperatorStateInfo, Migration | None]]:
        """The states that the function has asked for."""
        return [(self._infos[place], self._migrations[place]) for place in self._states]

    # ---- restore

    def restore(self, info: OperatorStateInfo, rows: pa.Table) -> None:
        """Put a share of an old snapshot behind those restored before. Before the function is opened."""
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
        parts = [Conversion(known, merged, None).operator_rows(part) for part in self._unclaimed.get(place, [])]
        self._unclaimed[place] = [*parts, Conversion(info, merged, None).operator_rows(rows)]

    # ---- epochs

    def begin_epoch(self) -> None:
        """Nothing to note: what a new function has done in `initialize_state` is a change of the epoch that follows."""

    def finish_epoch(self) -> None:
        """The epoch can no longer be taken back: what is here now is what `roll_back` goes back to."""
        for state in self._every_held():
            state.keep()
        self.epochs += 1

    def roll_back(self) -> None:
        """Take the running epoch back, for a function that is made anew (PROTOCOL R11).

        What the other subtasks held at the parent version is not known here, so a function with union list state can
        start again only from a restore.
        """
        union = [name for (_, name), info in self._infos.items() if info.mode == "union"]
        claimed = [name for name in union if ("list", name) in self._states]
        if claimed and self.epochs:
            raise StateLostError(
                f"operator {self.operator_uid!r} has the union list state {claimed[0]!r}, which only a restore hands "
                f"out in full, so a lost task of it ends the attempt"
            )
        for state in self._every_held():
            state.roll_back()

    def start_function(self) -> None:
        """A new function object: it has asked for nothing yet."""
        self.raw.start_function()

    def _every_held(self) -> list[Held[Any]]:
        return [*self._states.values(), self.raw.partitions, self.raw.key_groups]

    # ---- snapshots

    def seal(self) -> list[SealedOperatorState]:
        """Everything as it is between two epochs; nothing that happens later changes it."""
        sealed = [_sealed(self._infos[place], state.hold()) for place, state in self._states.items()]
        for place, tables in self._unclaimed.items():
            info = self._infos[place]
            # Every subtask has all elements of a union: it is one of them that carries them on.
            if info.mode != "union" or self._index == 0:
                sealed.append(_sealed(info, pa.concat_tables(tables)))
        raw: list[tuple[str, Held[Any]]] = [(RAW, self.raw.partitions), (RAW_KEYED, self.raw.key_groups)]
        for mode, state in raw:
            if state.live:
                info = OperatorStateInfo(self.operator_uid, "", mode, "BINARY", None, 0)
                sealed.append(_sealed(info, state.hold()))
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
        raise TypeError(f"expected a {kind.__name__}, got a {type(descriptor).__name__}")
    ttl = descriptor.ttl_config
    if ttl is not None and ttl.is_enabled():
        raise UsageError(
            f"operator state {descriptor.name!r} has a time to live, which only keyed state can have; remove "
            f"enable_time_to_live, and remove old entries in the function"
        )


def _other_kind(known: OperatorStateInfo, wanted: OperatorStateInfo) -> TypeMismatchError:
    if known.mode != wanted.mode:
        return TypeMismatchError(f"The state name '{wanted.name}' is already in use and not a {kind_of(wanted)} state.")
    return TypeMismatchError(
        f"State name corrupted: {wanted.name}. It is declared as {state_text(known)} and as {state_text(wanted)}; give "
        f"one of them another name"
    )
