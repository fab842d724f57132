"""RocksDBBackend: the keyed state of one operator in one subtask on local disk (features G1 to G11).

The changes of an epoch stay in memory until it ends and are then one write batch; `roll_back` drops them. An
incremental snapshot is a RocksDB checkpoint, of which only new files are stored; any other snapshot holds all rows.
"""

import sys
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.codec.columns import decode_column, encode_column
from penstock.errors import StateBackendError
from penstock.model.descriptors import StateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import AppendingState, ListState, MapState, State, ValueState
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_spec import StoredFiles
from penstock.state.backend.current_key import CurrentKey
from penstock.state.backend.folding_handles import AggregatingHandle, ReducingHandle
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.map_handle import MapHandle
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.sealed_state import SealedFiles, SealedTable, SealedTables
from penstock.state.backend.value_guard import guard_of
from penstock.state.format.conversion import Conversion, evolved
from penstock.state.format.opaque_types import opaque_info
from penstock.state.format.schema_evolution import common_info
from penstock.state.format.table_rows import decode_rows
from penstock.state.rocksdb.compaction import Compaction
from penstock.state.rocksdb.key_bytes import KeyBytes, NamespacedKeyBytes, row_bytes
from penstock.state.rocksdb.live_rows import LiveRows
from penstock.state.rocksdb.native_files import LinkedFiles, fetch_files
from penstock.state.rocksdb.rocksdb_handles import RocksListState, RocksValueState
from penstock.state.rocksdb.rocksdb_rows import RocksTable, SealedRows, all_rows, open_table
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.rocksdb_tables import RocksListTable, RocksMapTable, RocksValueTable
from penstock.state.rocksdb.store import Store, WriteBatch
from penstock.state.rocksdb.store_sizes import StoreSizes

RESTORE_ROWS = 65536


class RocksDBBackend(KeyedBackend):
    """Keyed state in RocksDB. Used by one thread; sealed state may be read by another."""

    on_disk = True

    def __init__(self, place: BackendPlace, spec: RocksDBSpec) -> None:
        super().__init__(place)
        self._spec = spec
        self.native_name = spec.name if place.incremental else ""
        self._folder = place.folder / f"rocksdb-{uuid.uuid4().hex}"
        self._rows = KeyBytes(self.key_codec, self.max_parallelism)
        self._sizes = StoreSizes(self._rows, self.key_codec, self.key_groups)
        self._store: Store | None = None
        self._compaction = Compaction()
        self._live = LiveRows(self.key_codec, self.max_parallelism)
        self._half_converted: str | None = None
        """A state of which some rows have the old type and some the new one, after a failed conversion."""

    @property
    def store(self) -> Store:
        """The database, opened on first use."""
        if self._store is None:
            self._store = Store(self._folder, self._spec)
        return self._store

    def adopt(self, stored: StoredFiles) -> None:
        """Continue with the files of a RocksDB checkpoint that holds exactly this backend's key groups."""
        assert self._store is None
        fetch_files(stored, self._spec.transfer_threads)
        self._folder = stored.folder
        for info in stored.infos:
            self._check_keys(info)
            self._new_table(info)

    # ---- epochs

    def _begin(self) -> None:
        """There are no changes yet."""
        self._live.begin()

    def expect(self, keys: Sequence[Any]) -> None:
        """Prepare for accesses to these state keys."""
        self._rows.expect(keys)

    def _finish(self) -> None:
        for name in self._live.watched():
            self._live.keep(self.store, self._infos[name], list(self._tables[name].delta))
        batch = WriteBatch()
        for table in self._tables.values():
            table.commit(batch)
        if len(batch):
            self.store.write(batch)
        self._take_back()  # its changes are written
        self._compaction.start(self.compact, self.ttl.take_swept())

    def _take_back(self) -> None:
        for table in self._tables.values():
            table.forget()
        self._rows.forget()

    # ---- snapshots

    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables | SealedFiles:
        """The state between two epochs (PROTOCOL R12): RocksDB's files, or all rows without increments."""
        if not self.native_name:
            return self.seal_all(checkpoint_id)
        return self._seal_files(f"chk-{checkpoint_id}", base)

    def seal_native(self, number: int) -> SealedFiles:
        """RocksDB's files."""
        return self._seal_files(f"savepoint-{number}", None)

    def _seal_files(self, name: str, base: CheckpointId | None) -> SealedFiles:
        files = LinkedFiles(self.operator_uid, self._linked(name), self._spec.transfer_threads)
        states = [(self._infos[name], table.family) for name, table in self._tables.items()]
        sizes = self._sizes.seal(self.store.live_files, states)
        return SealedFiles(self.operator_uid, base, tuple(self._infos.values()), files.store, sizes)

    def seal_all(self, number: int) -> SealedTables:
        """All rows, read later from hard links to RocksDB's files."""
        infos = tuple(self._infos.values())
        rows = SealedRows(self._linked(f"rows-{number}"), self._spec, infos, self._rows, self.key_codec)
        return self._sealed(
            number,
            [
                SealedTable(info, partial(rows.read, info, self.ttl.snapshot_filter(info.name)), full=True)
                for info in infos
            ],
        )

    def _linked(self, name: str) -> Path:
        """A new folder with hard links to the present files."""
        assert not self._is_running
        self._require_whole()
        folder = self._folder.with_name(f"{self._folder.name}-{name}")
        self.store.link_checkpoint(folder)
        return folder

    def restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Write rows of a snapshot to disk at once, because all of them may not fit into memory."""
        assert not self._is_running
        self._check_keys(info)
        known = self._infos.get(info.name)
        if info.name in self._handles:
            assert known is not None
            rows, info = self._conversion(info, known).rows(rows), known
        elif known is not None:
            merged = common_info(known, info)
            if merged != known:
                self._convert(Conversion(known, merged, None))
            rows, info = evolved(rows, info, merged), merged
        table = self._tables.get(info.name) or self._new_table(info)
        self.ttl.restart()
        for start in range(0, len(rows), RESTORE_ROWS):
            self._apply(table, rows.slice(start, RESTORE_ROWS), info)

    def _open_table(self, info: StateTableInfo) -> RocksTable:
        self._require_whole()
        saved = self._infos.get(info.name)
        if saved is not None and saved != info:
            self._convert(self._conversion(saved, info))
        table: RocksTable = self._tables.get(info.name) or self._new_table(info)
        return table

    def _convert(self, conversion: Conversion) -> None:
        """Rewrite all rows of a state. After an error the state is never sealed."""
        saved, declared = conversion.saved, conversion.declared
        assert isinstance(saved, StateTableInfo) and isinstance(declared, StateTableInfo)
        old, self._half_converted = self._tables[saved.name], saved.name
        table = self._new_table(declared)
        for record_batch in all_rows(old, old.family.scan(b"", None), saved, self.key_codec):
            self._apply(table, conversion.rows(pa.Table.from_batches([record_batch])), declared)
        self._half_converted = None

    def _apply(self, table: RocksTable, rows: pa.Table, info: StateTableInfo) -> None:
        part = decode_rows(rows, opaque_info(info))
        self._rows.expect(part.keys if info.namespace is None else [key for key, _ in part.keys])
        batch = WriteBatch()
        table.apply(part, batch)
        self.store.write(batch)
        self._rows.forget()

    def _require_whole(self) -> None:
        if self._half_converted is not None:
            raise StateBackendError(
                f"state {self._half_converted!r} of operator {self.operator_uid!r} could not be converted to its new "
                f"type, so it is unusable until it is restored again"
            )

    # ---- tables

    def _new_table(self, info: StateTableInfo) -> RocksTable:
        """The table, with the rows that are stored under this name."""
        table = open_table(info, self.store, self._rows, self.key_groups)
        self._infos[info.name] = info
        self._tables[info.name] = table
        return table

    def _new_handle(self, descriptor: StateDescriptor, table: RocksTable, current: CurrentKey) -> State:
        if isinstance(table, RocksMapTable):
            assert descriptor.map_key_type is not None
            return MapHandle(current, table, map_keys_of(descriptor.map_key_type), guard_of(descriptor.value_type))
        if isinstance(table, RocksListTable):
            return RocksListState(current, table, guard_of(descriptor.value_type.children[0]))
        assert isinstance(table, RocksValueTable)
        value = RocksValueState(current, table, guard_of(descriptor.value_type))
        if descriptor.kind == "reducing":
            return ReducingHandle(value)
        return AggregatingHandle(value) if descriptor.kind == "aggregating" else value

    # ---- many keys at once

    def get_many(self, name: str, addresses: Sequence[Any]) -> pa.Array:
        """The stored values of a value state, read with one call of RocksDB."""
        table = self._tables[name]
        assert isinstance(table, RocksValueTable)
        self._expect_addresses(name, [address for address in addresses if address not in table.delta])
        return encode_column(table.load_many(addresses), self._value_type(name))

    def put_many(self, name: str, addresses: Sequence[Any], values: pa.Array) -> None:
        """Replace stored values of a value state in the changes of the epoch; null removes one."""
        self._expect_addresses(name, addresses)
        self._tables[name].delta.update(zip(addresses, decode_column(values, self._value_type(name)), strict=True))

    def _expect_addresses(self, name: str, addresses: Sequence[Any]) -> None:
        self._rows.expect(addresses if self._infos[name].namespace is None else [key for key, _ in addresses])

    # ---- queries

    def read_live(self, name: str, addresses: Sequence[Any], *, before: bool) -> list[Any] | None:
        """`LiveReads`: from RocksDB, which does not have the running epoch."""
        info = self._infos[name]
        return self._live.read(self.store, info, addresses, before=before, is_running=self._is_running)

    def list_live(self, name: str, limit: int, *, before: bool) -> list[Any] | None:
        """`LiveReads`: the first addresses in RocksDB's order."""
        return self._live.addresses(self.store, self._infos[name], limit, before=before, is_running=self._is_running)

    # ---- keys and sizes

    def keys_after(self, name: str, cursor: bytes | None, limit: int) -> tuple[list[Any], bytes | None]:
        """Up to `limit` state keys after a cursor, and the next cursor; None at the end."""
        table = self._tables[name]
        start = b"" if cursor is None else cursor + b"\0"
        found: dict[Any, bytes] = {}
        for row, data in table.family.scan(start, None):
            key = next(table.entries(iter([(row, data)])))[0]
            if key not in found and len(found) == limit:
                return list(found), found[next(reversed(found))]
            found[key] = row
        return list(found), None

    def keys_with(self, name: str) -> list[Any]:
        """The state keys that have entries in a state. Reads all of its rows."""
        stored, _ = self.keys_after(name, None, sys.maxsize)
        return self._with_changes(name, stored)

    def namespaces_with(self, name: str) -> list[Any]:
        """The namespaces in which the current key has entries in a state. Reads only the rows of the key."""
        table, key = self._tables[name], self.keys.key
        rows = row_bytes(self._rows, self._infos[name])
        assert isinstance(rows, NamespacedKeyBytes)
        entries = table.entries(table.family.scan_prefix(rows.every_namespace(key)))
        addresses = dict.fromkeys(address for address, _, _ in entries)
        return [namespace for own, namespace in self._with_changes(name, addresses) if own == key]

    def _with_changes(self, name: str, stored: Iterable[Any]) -> list[Any]:
        """The stored keys and the keys changed by the epoch that have entries in a state."""
        handle, changed = self.handle(name), self._tables[name].delta
        kept = [key for key in stored if key not in changed]
        current = self.keys if self._infos[name].namespace is None else self.scope
        before = current.key
        for current.key in list(changed):
            if has_content(handle):
                kept.append(current.key)
        current.key = before
        return kept

    def stored_bytes(self, name: str) -> int:
        """The approximate size of a state."""
        return int(self._tables[name].family.stored_bytes())

    def compact(self, name: str) -> None:
        """Free the space of a state's removed entries."""
        self._tables[name].family.compact()

    def close(self) -> None:
        """Close the database and remove its files."""
        if self._store is not None:
            if self._compaction.is_running:
                self._store.cancel_compaction()
                self._compaction.wait()
            self._store.close()
            self._store = None


def has_content(handle: State) -> bool:
    """Whether the current key has entries in the state."""
    if isinstance(handle, ValueState):
        return handle.value() is not None
    if isinstance(handle, MapState):
        return not handle.is_empty()
    assert isinstance(handle, AppendingState)
    content = handle.get()
    return bool(content) if isinstance(handle, ListState) else content is not None
