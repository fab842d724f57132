"""`KeyedBackend`: what all keyed state backends have in common, and the seven methods that each of them implements.

A backend creates tables and the handles that read and write them for the current key, begins, finishes and undoes
epochs, lists keys, and seals all rows. Further methods have defaults that a backend may improve on. The tests in
`penstock.testing.conformance_state` are the contract.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from penstock.codec.columns import decode_column
from penstock.codec.keys import KeyCodec
from penstock.errors import StateAccessError, TypeMismatchError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    Migration,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import State
from penstock.model.time import MAX_WATERMARK
from penstock.model.type_information import TypeInformation, parse_type
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.bulk_values import BulkValues, StoredBulkValues, load_each, store_each
from penstock.state.backend.current_key import NO_NAMESPACE, CurrentKey
from penstock.state.backend.namespace_values import NamespaceValues, StoredNamespaceValues
from penstock.state.backend.restored_table import RestoredTable
from penstock.state.backend.sealed_state import SealedFiles, SealedTable, SealedTables
from penstock.state.format.conversion import Conversion
from penstock.state.format.schema_evolution import compare_states, incompatible, state_text
from penstock.state.format.table_rows import Rows, decode_rows
from penstock.state.ttl.backend_ttl import BackendTtl
from penstock.state.ttl.stamps import raw_descriptor


class StateTable(Protocol):
    """The entries of one state for all keys of the subtask. How handles access it is up to the backend."""

    def apply(self, rows: Rows) -> None:
        """Insert restored rows in order, outside of epochs."""


class PendingTimers(Protocol):
    """The timers of one operator and time domain: the table of a state of kind "timer"."""

    def add(self, timestamp: int, key: Any) -> None:
        """Add a timer if it is not pending. `key` is a pair of key and namespace if the timers have namespaces."""

    def discard(self, timestamp: int, key: Any) -> None:
        """Remove a timer if it is pending."""

    def first(self, limit: int = MAX_WATERMARK) -> tuple[int, Any] | None:
        """The pending timer that fires first, in the order of (timestamp, key), if its time is not after `limit`."""

    def next_timestamp(self) -> int | None:
        """When the first pending timer fires."""

    def pending(self) -> Iterable[tuple[int, Any]]:
        """All pending timers as (timestamp, state key)."""


class KeyedBackend(ABC):
    """Keyed state of one operator for a range of key groups. Used by one thread; sealed state may be read by another.

    Order of calls: any number of `restore`; then, repeatedly, `begin_epoch`, state accesses, `finish_epoch`, and
    optionally `seal`. `roll_back` undoes the running epoch.
    """

    on_disk = False
    """Entries are read from disk, so state accesses do not clean up expired entries of other keys."""
    native_name = ""
    """`NativeName.backend` of the files in its incremental checkpoints; empty if they hold rows."""

    def __init__(self, place: BackendPlace) -> None:
        self.operator_uid = place.operator_uid
        self.key_codec = place.key_codec
        self.max_parallelism = place.max_parallelism
        self.key_groups = place.key_groups
        """First and last, inclusive."""
        self.keys = CurrentKey()
        self.scope = CurrentKey(NO_NAMESPACE)
        """The current key and namespace as a pair, for states with namespaces; `set_current_namespace` sets it."""
        self.namespace_codec: KeyCodec | None = None
        """For the namespaces of this operator, which all have the same type; None if no state has namespaces."""
        self.ttl = BackendTtl(self.keys_after, on_disk=self.on_disk)
        self._infos: dict[str, StateTableInfo] = {}
        self._tables: dict[str, Any] = {}
        self._restored: dict[str, RestoredTable] = {}
        self._handles: dict[str, State] = {}
        self._raw: dict[str, State] = {}
        """The handles of stored entries: with a time to live without the wrapper that reads stamps."""
        self._bulk: set[str] = set()
        """States that are accessed for many keys at once."""
        self._migrations: dict[str, Migration | None] = {}
        self._queryable: dict[str, str] = {}
        self._is_running = False

    # ---- what every backend implements

    @abstractmethod
    def _new_table(self, info: StateTableInfo) -> Any:
        """An empty StateTable. For the kind "timer" it also implements PendingTimers."""

    @abstractmethod
    def _new_handle(self, descriptor: StateDescriptor, table: Any, current: CurrentKey) -> State:
        """A handle that reads and writes the table for `current.key`, which changes between accesses."""

    @abstractmethod
    def _begin(self) -> None:
        """Start an epoch."""

    @abstractmethod
    def _finish(self) -> None:
        """End the epoch and keep its changes."""

    @abstractmethod
    def _take_back(self) -> None:
        """Undo the running epoch."""

    @abstractmethod
    def keys_with(self, name: str) -> list[Any]:
        """The state keys that have entries in a declared state.

        For a state with namespaces: pairs of state key and namespace.
        """

    @abstractmethod
    def seal_all(self, number: int) -> SealedTables:
        """All rows between two epochs, for the checkpoint or savepoint of this number.

        Independent of `seal`, and no later seal builds on it.
        """

    # ---- what a backend may improve on

    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables | SealedFiles:
        """The state between two epochs: the changes since the seal of `base`, or all of it (PROTOCOL R12, R18)."""
        return self.seal_all(checkpoint_id)

    def seal_native(self, number: int) -> SealedTables | SealedFiles:
        """All of the state, in the form that this backend restores fastest."""
        return self.seal_all(number)

    def start_from(self, checkpoint_id: CheckpointId) -> None:
        """Record that the restored state is exactly this checkpoint, so that the next seal may build on it."""
        return None

    def retain(self, bases: Collection[CheckpointId]) -> None:
        """Only these seals may be named as base from now on. Data that is kept for others can be dropped."""
        return None

    def get_many(self, name: str, addresses: Sequence[Any]) -> pa.Array:
        """The stored values of a declared value state at these addresses, null where there is none.

        An address is a state key, or for a state with namespaces a pair of state key and namespace; no two are equal.
        With a time to live the stored values are pairs of stamp and value.
        """
        return load_each(self._raw[name], self._current_of(name), addresses, self._value_type(name))

    def put_many(self, name: str, addresses: Sequence[Any], values: pa.Array) -> None:
        """Replace the stored values of a declared value state at these addresses; null removes one."""
        store_each(self._raw[name], self._current_of(name), addresses, decode_column(values, self._value_type(name)))

    def expect(self, keys: Sequence[Any]) -> None:
        """Prepare for accesses to these state keys."""
        return None

    def keys_after(self, name: str, cursor: Any, limit: int) -> tuple[Sequence[Any], Any]:
        """Up to `limit` state keys after a cursor, and the next cursor. The cursor is None at the start and at the end.

        The order is arbitrary but stable. The state may change between two calls: a key that exists all the time is
        returned once, others may or may not be.
        """
        keys, start = cursor or (self.keys_with(name), 0)
        end = start + limit
        return keys[start:end], (keys, end) if end < len(keys) else None

    def close(self) -> None:
        """Release files and memory. Nothing is persisted."""
        return None

    # ---- epochs

    def begin_epoch(self) -> None:
        """Start an epoch."""
        assert not self._is_running
        self._begin()
        self._is_running = True
        self.ttl.begin_epoch()

    def finish_epoch(self) -> None:
        """End the epoch and keep its changes. There is no current key afterwards."""
        assert self._is_running
        self._finish()
        self._is_running = False
        self.ttl.end_epoch()
        self._leave_key()

    def roll_back(self) -> None:
        """Undo the running epoch. There is no current key afterwards."""
        self._take_back()
        self._is_running = False
        self.ttl.restart()
        self._leave_key()

    def _leave_key(self) -> None:
        self.keys.clear()
        self.scope.clear()

    # ---- states by name

    def table(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> Any:
        """The handle of a state; the same one for the same name, kind and type.

        With `namespace_type`, there is one state for each key and namespace.
        """
        raw = raw_descriptor(descriptor)
        info = self._info_of(descriptor, raw, namespace_type)
        if info.name not in self._handles:
            current = self._use_namespaces(info)
            self._migrations[info.name] = descriptor.migration
            handle = self._raw[info.name] = self._new_handle(raw, self._open_table(info), current)
            self._handles[info.name] = self.ttl.wrap(descriptor, handle, current) if info.ttl else handle
            self._publish(descriptor)
        elif self._infos[info.name] != info:
            raise _name_in_use(self._infos[info.name], info)
        self.ttl.require_same(descriptor)
        return self._bound(descriptor)

    def bulk_values(
        self, descriptor: ValueStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> BulkValues:
        """The values of a state for many keys at once; the same state as `table` returns."""
        self._bulk.add(descriptor.name)
        self.table(descriptor, namespace_type)
        stored = StoredBulkValues(self, descriptor.name, self._value_type(descriptor.name))
        return self.ttl.bulk_values(stored) if self._infos[descriptor.name].ttl else stored

    def namespace_values(self, descriptor: ValueStateDescriptor, namespace_type: TypeInformation) -> NamespaceValues:
        """The values of a state by namespace, for many keys at once; the same state as `table` returns."""
        self._bulk.add(descriptor.name)
        self.table(descriptor, namespace_type)
        return StoredNamespaceValues(self, descriptor.name, self._value_type(descriptor.name))

    def _value_type(self, name: str) -> TypeInformation:
        return parse_type(self._infos[name].value_type)

    def _current_of(self, name: str) -> CurrentKey:
        return self.keys if self._infos[name].namespace is None else self.scope

    def _bound(self, descriptor: StateDescriptor) -> Any:
        """The handle, with the function of this descriptor: a repeated run has new function objects (PROTOCOL R11)."""
        handle: Any = self._handles[descriptor.name]
        if isinstance(descriptor, ReducingStateDescriptor):
            handle.bind(descriptor.get_reduce_function())
        elif isinstance(descriptor, AggregatingStateDescriptor):
            handle.bind(descriptor.get_agg_function())
        return handle

    def _publish(self, descriptor: StateDescriptor) -> None:
        """Note under which name queries may read a state."""
        name = descriptor.get_queryable_state_name()
        if name is not None:
            self._queryable[descriptor.name] = name

    def queryable_name(self, name: str) -> str | None:
        """The name that queries use for a state; None if it is not queryable."""
        return self._queryable.get(name)

    def declared(self) -> list[tuple[StateTableInfo, Migration | None]]:
        """The declared states, without timers."""
        return [(self._infos[name], self._migrations.get(name)) for name in list(self._handles)]

    def info(self, name: str) -> StateTableInfo | None:
        """What is known about a state, declared or only restored; None if there is none of this name."""
        return self._infos.get(name)

    def is_declared(self, name: str) -> bool:
        """Whether there is a handle of the state."""
        return name in self._handles

    def handle(self, name: str) -> Any:
        """The handle of a declared state."""
        if name not in self._handles:
            known = ", ".join(map(repr, sorted(self._handles))) or "none"
            raise StateAccessError(f"operator {self.operator_uid!r} has no state {name!r}; its states are: {known}")
        return self._handles[name]

    def timer_table(self, name: str, namespace_type: TypeInformation | None = None) -> PendingTimers:
        """The pending timers that are stored under this name; with `namespace_type`, timers of keys and namespaces."""
        info = _with_namespaces(
            StateTableInfo(self.operator_uid, name, "timer", self._key_types(), "LONG"), namespace_type
        )
        if name not in self._tables:
            self._use_namespaces(info)
            self._open_table(info)
        elif self._infos[name] != info:
            raise _name_in_use(self._infos[name], info)
        timers: PendingTimers = self._tables[name]
        return timers

    # ---- namespaces

    def set_current_namespace(self, namespace: Any) -> None:
        """Select a namespace of the current key for all states with namespaces.

        `namespace` is in the form that `namespace_codec.to_state_key` returns. Call this again after every change of
        the current key.
        """
        self.scope.key = (self.keys.key, namespace)

    def enter(self, address: tuple[Any, Any]) -> None:
        """Select a key and a namespace, as a pair that `Timers.due` or `keys_with` returned."""
        self.keys.key = address[0]
        self.scope.key = address

    def namespaces_with(self, name: str) -> list[Any]:
        """The namespaces in which the current key has entries in a state."""
        current = self.keys.key
        return [namespace for key, namespace in self.keys_with(name) if key == current]

    def _use_namespaces(self, info: StateTableInfo) -> CurrentKey:
        """What holds the current key of a state. The first state with namespaces determines the type of namespaces."""
        if info.namespace is None:
            return self.keys
        codec = KeyCodec([parse_type(info.namespace)])
        if self.namespace_codec is not None and self.namespace_codec.types != codec.types:
            raise TypeMismatchError(
                f"the namespaces of operator {self.operator_uid!r} are {self.namespace_codec.types[0].text}, and state "
                f"{info.name!r} has namespaces of {codec.types[0].text}; an operator has one type of namespaces"
            )
        self.namespace_codec = codec
        return self.scope

    def _open_table(self, info: StateTableInfo) -> Any:
        """The table of a state, including its restored rows."""
        restored = self._restored.get(info.name)
        conversion = None if restored is None else self._conversion(restored.info, info)
        table: StateTable = self._new_table(info)
        if restored is not None and conversion is not None:
            for rows in restored.converted(conversion, self.max_parallelism):
                table.apply(decode_rows(rows, info))
            del self._restored[info.name]
        self._infos[info.name] = info
        self._tables[info.name] = table
        return table

    # ---- snapshots

    def restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Add rows of a snapshot to those restored before. Called before the first epoch.

        Rows of a state that no function has declared yet are kept as they are.
        """
        assert not self._is_running
        self._check_keys(info)
        known = self._infos.get(info.name)
        if info.name in self._tables and known is not None:
            self._tables[info.name].apply(decode_rows(self._conversion(info, known).rows(rows), known))
            self.ttl.restart()
            return
        restored = self._restored.setdefault(info.name, RestoredTable(info))
        restored.add(rows, info)
        self._infos[info.name] = restored.info

    def _sealed(
        self, checkpoint_id: int, tables: Iterable[SealedTable], base: CheckpointId | None = None
    ) -> SealedTables:
        """These tables, and the restored ones that no function has declared."""
        waiting = [SealedTable(table.info, table.seal(), full=True) for table in self._restored.values()]
        every = (*tables, *waiting)
        return SealedTables(
            self.operator_uid, CheckpointId(checkpoint_id), base, self.key_codec, self.max_parallelism, every
        )

    def _check_keys(self, info: StateTableInfo) -> None:
        """Raise if the rows of a snapshot have other key types than this operator."""
        if info.key_types != self._key_types():
            declared = msgspec.structs.replace(info, key_types=self._key_types())
            raise incompatible(info, declared, compare_states(info, declared).reason)

    def _conversion(self, saved: StateTableInfo, declared: StateTableInfo) -> Conversion:
        """How to convert rows of a snapshot to the declared state."""
        return Conversion(saved, declared, self._migrations.get(declared.name))

    def _key_types(self) -> list[str]:
        return [each.text for each in self.key_codec.types]

    def _info_of(
        self, descriptor: StateDescriptor, raw: StateDescriptor, namespace_type: TypeInformation | None
    ) -> StateTableInfo:
        map_key_type = descriptor.map_key_type
        info = StateTableInfo(
            self.operator_uid,
            descriptor.name,
            descriptor.kind,
            self._key_types(),
            raw.value_type.text,
            None if map_key_type is None else map_key_type.text,
            ttl=raw is not descriptor,
        )
        return _with_namespaces(info, namespace_type)


def _with_namespaces(info: StateTableInfo, namespace_type: TypeInformation | None) -> StateTableInfo:
    return info if namespace_type is None else msgspec.structs.replace(info, namespace_type=namespace_type.text)


def _name_in_use(known: StateTableInfo, declared: StateTableInfo) -> TypeMismatchError:
    if known.kind != declared.kind:
        return TypeMismatchError(f"The state name '{declared.name}' is already in use and not a {declared.kind} state.")
    return TypeMismatchError(
        f"State name corrupted: {declared.name}. It is declared as {state_text(known)} and as {state_text(declared)}; "
        f"give one of them another name"
    )
