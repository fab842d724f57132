"""What every keyed state backend does alike: it knows its operator, its key groups, and the states asked for by name.

A backend is a subclass: it keeps tables, makes handles that read and write them for the current key, and moves from
epoch to epoch. `penstock.testing.conformance_state` is the contract as tests.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.errors import StateAccessError, TypeMismatchError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    Migration,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import State
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.sealed_state import SealedFiles, SealedTables
from penstock.state.format.conversion import Conversion
from penstock.state.format.schema_evolution import compare_states, incompatible, state_text
from penstock.state.ttl.backend_ttl import BackendTtl
from penstock.state.ttl.stamps import raw_descriptor


class PendingTimers(Protocol):
    """The timers of one operator and clock."""

    def add(self, timestamp: int, key: Any) -> None:
        """Make a timer pending; one that is pending stays one."""

    def discard(self, timestamp: int, key: Any) -> None:
        """Make a timer not pending; an absent one is fine."""

    def first(self) -> tuple[int, Any] | None:
        """The pending timer that fires first, in the order of (timestamp, key)."""

    def pending(self) -> Iterable[tuple[int, Any]]:
        """All pending timers as (timestamp, state key)."""


class KeyedBackend(ABC):
    """Keyed state of one operator for a range of key groups. One thread uses it; what was sealed another may read.

    Order of calls: any number of `restore`; then, again and again, `begin_epoch`, work, `finish_epoch`, perhaps `seal`.
    `roll_back` takes back the epoch that is running.
    """

    on_disk = False
    """Looking at an entry means reading it from a disk: no access cleans up other keys."""

    def __init__(
        self, operator_uid: str, key_codec: KeyCodec, max_parallelism: int, key_groups: tuple[int, int]
    ) -> None:
        self.operator_uid = operator_uid
        self.key_codec = key_codec
        self.max_parallelism = max_parallelism
        self.key_groups = key_groups
        """First and last, both included."""
        self.keys = CurrentKey()
        self.ttl = BackendTtl(self.keys, self.keys_after, on_disk=self.on_disk)
        """A backend calls its `begin_epoch`, `end_epoch` and `restart` in its own epochs and restores."""
        self._infos: dict[str, StateTableInfo] = {}
        self._tables: dict[str, Any] = {}
        self._handles: dict[str, State] = {}
        self._migrations: dict[str, Migration | None] = {}

    def table(self, descriptor: StateDescriptor) -> Any:
        """The handle of a state; the same one for the same name, kind and type."""
        raw = raw_descriptor(descriptor)
        info = self._info_of(descriptor, raw)
        if info.name not in self._handles:
            self._migrations[info.name] = descriptor.migration
            handle = self._new_handle(raw, self._claim(info))
            self._handles[info.name] = self.ttl.wrap(descriptor, handle) if info.ttl else handle
        elif self._infos[info.name] != info:
            raise _name_in_use(self._infos[info.name], info)
        self.ttl.require_same(descriptor)
        return self._bound(descriptor)

    def _bound(self, descriptor: StateDescriptor) -> Any:
        """The handle; a function that was made anew after a dropped run brings functions of its own (PROTOCOL R11)."""
        handle: Any = self._handles[descriptor.name]
        if isinstance(descriptor, ReducingStateDescriptor):
            handle.bind(descriptor.get_reduce_function())
        elif isinstance(descriptor, AggregatingStateDescriptor):
            handle.bind(descriptor.get_agg_function())
        return handle

    def declared(self) -> list[tuple[StateTableInfo, Migration | None]]:
        """The states that functions have asked for, without timers."""
        return [(self._infos[name], self._migrations.get(name)) for name in self._handles]

    def handle(self, name: str) -> Any:
        """The handle of a state that a function has asked for by this name."""
        if name not in self._handles:
            known = ", ".join(map(repr, sorted(self._handles))) or "none"
            raise StateAccessError(f"operator {self.operator_uid!r} has no state {name!r}; its states are: {known}")
        return self._handles[name]

    def timer_table(self, name: str) -> PendingTimers:
        """The pending timers kept under this name."""
        table: Any = self._tables.get(name)
        if table is None:
            table = self._claim(StateTableInfo(self.operator_uid, name, "timer", self._key_types(), "LONG"))
        timers: PendingTimers = table
        return timers

    @abstractmethod
    def restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Put rows of a snapshot in place, behind those restored before. Before the first epoch."""

    def expect(self, keys: Sequence[Any]) -> None:
        """These state keys are used next; a backend may prepare for them."""
        return

    @abstractmethod
    def begin_epoch(self) -> None:
        """Start an epoch."""

    @abstractmethod
    def finish_epoch(self) -> None:
        """End the epoch: its changes are the state now. Leaves the key context."""

    @abstractmethod
    def roll_back(self) -> None:
        """Take back the epoch that is running."""

    @abstractmethod
    def start_from(self, checkpoint_id: CheckpointId) -> None:
        """Say that what was restored is exactly this checkpoint, so that the next one may build on it."""

    @abstractmethod
    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables | SealedFiles:
        """The state between two epochs: what changed since the seal of `base`, or all of it (PROTOCOL R12, R18)."""

    @abstractmethod
    def seal_savepoint(self, number: int, *, native: bool) -> SealedTables | SealedFiles:
        """All of the state between two epochs: rows, or for a native savepoint what this backend restores fastest.

        Beside a `seal` of the same epoch or without one; no later seal builds on it.
        """

    def retain(self, bases: Collection[CheckpointId]) -> None:
        """Only these seals will be named as base from now on: what is kept for others can go."""
        return None

    @abstractmethod
    def keys_with(self, name: str) -> list[Any]:
        """The state keys that have something in the state of this name, which a function has asked for."""

    @abstractmethod
    def entry_count(self) -> int:
        """How many rows a full seal has."""

    @abstractmethod
    def keys_after(self, name: str, cursor: Any, limit: int) -> tuple[Sequence[Any], Any]:
        """Up to `limit` state keys of a state behind a cursor, None at first; and the next cursor, None at the end.

        In any order that stays the same. Between two calls the state may change: a key that was there all the time is
        given once, one that came or went is given or not.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of files and memory; nothing becomes durable by it."""

    @abstractmethod
    def _claim(self, info: StateTableInfo) -> Any:
        """The table of a state, with the rows that were restored for it."""

    @abstractmethod
    def _new_handle(self, descriptor: StateDescriptor, table: Any) -> State:
        """A handle on the table for the current key."""

    def _check_keys(self, info: StateTableInfo) -> None:
        """Raise unless the rows of a snapshot have this operator's keys."""
        if info.key_types != self._key_types():
            declared = msgspec.structs.replace(info, key_types=self._key_types())
            raise incompatible(info, declared, compare_states(info, declared).reason)

    def _conversion(self, saved: StateTableInfo, wanted: StateTableInfo) -> Conversion:
        """How rows of a snapshot become rows of the state that a function has asked for."""
        return Conversion(saved, wanted, self._migrations.get(wanted.name))

    def _key_types(self) -> list[str]:
        return [str(type_info) for type_info in self.key_codec.types]

    def _info_of(self, descriptor: StateDescriptor, raw: StateDescriptor) -> StateTableInfo:
        map_key_type = descriptor.map_key_type
        return StateTableInfo(
            self.operator_uid,
            descriptor.name,
            descriptor.kind,
            self._key_types(),
            str(raw.value_type),
            None if map_key_type is None else str(map_key_type),
            ttl=raw is not descriptor,
        )


def _name_in_use(known: StateTableInfo, wanted: StateTableInfo) -> TypeMismatchError:
    if known.kind != wanted.kind:
        return TypeMismatchError(f"The state name '{wanted.name}' is already in use and not a {wanted.kind} state.")
    return TypeMismatchError(
        f"State name corrupted: {wanted.name}. It is declared as {state_text(known)} and as {state_text(wanted)}; give "
        f"one of them another name"
    )
