"""RocksDBBackend: the keyed state of one operator in one subtask on local disk (features G1 to G11).

An epoch's changes stay in memory until it ends and are then one write batch; `roll_back` forgets them. An incremental
snapshot is a RocksDB checkpoint, of which only new files are stored; any other one holds all rows.
"""

import shutil
import sys
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.errors import StateBackendError
from penstock.model.descriptors import StateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.state import AppendingState, ListState, MapState, State, ValueState
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.backend.sealed_state import SealedFiles, SealedTable, SealedTables
from penstock.state.backend.value_guard import guard_of
from penstock.state.format.conversion import Conversion, evolved
from penstock.state.format.opaque_types import opaque_info
from penstock.state.format.schema_evolution import common_info
from penstock.state.format.table_rows import BATCH_ROWS, Rows, decode_rows, encode_rows
from penstock.state.heap.heap_handles import AggregatingHandle, ReducingHandle
from penstock.state.rocksdb.compaction import Compaction
from penstock.state.rocksdb.key_bytes import KeyBytes
from penstock.state.rocksdb.rocksdb_handles import RocksListState, RocksMapState, RocksValueState
from penstock.state.rocksdb.rocksdb_tables import RocksListTable, RocksMapTable, RocksValueTable
from penstock.state.rocksdb.rocksdb_timers import RocksTimerTable
from penstock.state.rocksdb.store import Store, WriteBatch
from penstock.state.rocksdb.store_sizes import StoreSizes

RocksTable = RocksValueTable | RocksListTable | RocksMapTable | RocksTimerTable
RESTORE_ROWS = 65536
BATCH_BYTES = 32 * 1024 * 1024
"""Of values as they are stored; decoded they take a few times as much."""


class RocksDBBackend(KeyedBackend):
    """Keyed state in RocksDB. One thread uses it; sealed tables may be read by another."""

    on_disk = True

    def __init__(
        self,
        operator_uid: str,
        key_codec: KeyCodec,
        max_parallelism: int,
        key_groups: tuple[int, int],
        settings: BackendSettings,
        folder: Path,
    ) -> None:
        super().__init__(operator_uid, key_codec, max_parallelism, key_groups)
        self._settings = settings
        self._folder = folder / f"rocksdb-{uuid.uuid4().hex}"
        self._rows = KeyBytes(key_codec, max_parallelism)
        self._sizes = StoreSizes(self._rows, key_codec, key_groups)
        self._store: Store | None = None
        self._compaction = Compaction()
        self._is_running = False
        self._half_done: str | None = None
        """The state whose rows are partly of its old type, partly of its new one."""

    @property
    def store(self) -> Store:
        """The RocksDB, opened when it is first needed."""
        if self._store is None:
            self._store = Store(self._folder, self._settings)
        return self._store

    def adopt(self, folder: Path, infos: Sequence[StateTableInfo]) -> None:
        """Go on with the files of a RocksDB checkpoint that holds exactly this backend's key groups."""
        assert self._store is None
        self._folder = folder
        for info in infos:
            self._check_keys(info)
            self._open(info)

    def restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        """Put rows of a snapshot in place, behind those restored before. Before the first epoch."""
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
        table = self._tables.get(info.name) or self._open(info)
        self.ttl.restart()
        for start in range(0, len(rows), RESTORE_ROWS):
            self._apply(table, rows.slice(start, RESTORE_ROWS), info)

    def start_from(self, checkpoint_id: CheckpointId) -> None:
        """Nothing to note: which files are stored already is the writer's knowledge."""

    def begin_epoch(self) -> None:
        """Start an epoch."""
        assert not self._is_running
        self._is_running = True
        self.ttl.begin_epoch()

    def expect(self, keys: Sequence[Any]) -> None:
        """These state keys are used next."""
        self._rows.expect(keys)

    def finish_epoch(self) -> None:
        """End the epoch: its changes are the state now. Leaves the key context."""
        assert self._is_running
        batch = WriteBatch()
        for table in self._tables.values():
            table.commit(batch)
        if len(batch):
            self.store.write(batch)
        self.ttl.end_epoch()
        self._end_epoch()
        self._compaction.start(self.compact, self.ttl.take_swept())

    def roll_back(self) -> None:
        """Take back the epoch that is running."""
        self.ttl.restart()
        self._end_epoch()

    def _end_epoch(self) -> None:
        for table in self._tables.values():
            table.forget()
        self._rows.forget()
        self._is_running = False
        self.keys.clear()

    def seal(self, checkpoint_id: CheckpointId, base: CheckpointId | None, *, full: bool) -> SealedTables | SealedFiles:
        """The state between two epochs (PROTOCOL R12): RocksDB's files, or all rows where increments are off."""
        folder = self._folder.with_name(f"{self._folder.name}-chk-{checkpoint_id}")
        return self._seal(folder, checkpoint_id, base, native=self._settings.incremental)

    def seal_savepoint(self, number: int, *, native: bool) -> SealedTables | SealedFiles:
        """RocksDB's files for a native savepoint, all rows for a canonical one."""
        folder = self._folder.with_name(f"{self._folder.name}-savepoint-{number}")
        return self._seal(folder, CheckpointId(number), None, native=native)

    def _seal(
        self, folder: Path, checkpoint_id: CheckpointId, base: CheckpointId | None, *, native: bool
    ) -> SealedTables | SealedFiles:
        assert not self._is_running
        self._require_whole()
        infos = tuple(self._infos.values())
        self.store.link_checkpoint(folder)
        if native:
            names = tuple(sorted(path.name for path in folder.iterdir()))
            states = [(self._infos[name], table.family) for name, table in self._tables.items()]
            sizes = self._sizes.seal(self.store.live_files, states)
            sealed = SealedFiles(self.operator_uid, base, folder, infos, self._settings.transfer_threads, names, sizes)
            weakref.finalize(sealed, shutil.rmtree, folder, ignore_errors=True)  # also when nobody stores it
            return sealed
        rows = SealedRows(folder, self._settings, infos, self._rows, self.key_codec)
        tables = [
            SealedTable(info, partial(rows.read, info, self.ttl.snapshot_filter(info.name)), full=True)
            for info in infos
        ]
        return SealedTables(self.operator_uid, checkpoint_id, None, self.key_codec, self.max_parallelism, tuple(tables))

    def entry_count(self) -> int:
        """How many rows a full seal has; reads every row."""
        return sum(
            sum(1 for _ in table.entries(table.family.scan(b"", None)))  # a list is one entry of several rows
            for table in self._tables.values()
        )

    def keys_after(self, name: str, cursor: bytes | None, limit: int) -> tuple[list[Any], bytes | None]:
        """Up to `limit` state keys of a state behind a cursor, and the cursor to go on with; None at the end."""
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
        """The state keys that have something in a state; reads every row of it."""
        handle, changed = self.handle(name), self._tables[name].delta
        stored, _ = self.keys_after(name, None, sys.maxsize)
        kept = [key for key in stored if key not in changed]
        before = self.keys.key
        for self.keys.key in list(changed):
            if has_content(handle):
                kept.append(self.keys.key)
        self.keys.key = before
        return kept

    def stored_bytes(self, name: str) -> int:
        """About how much room a state takes."""
        return int(self._tables[name].family.stored_bytes())

    def compact(self, name: str) -> None:
        """Give the room of a state's removed entries back."""
        self._tables[name].family.compact()

    def close(self) -> None:
        """Let go of the files, and remove them."""
        if self._store is not None:
            if self._compaction.is_running:
                self._store.cancel_compaction()
                self._compaction.wait()
            self._store.close()
            self._store = None

    def _claim(self, info: StateTableInfo) -> RocksTable:
        self._require_whole()
        saved = self._infos.get(info.name)
        if saved is not None and saved != info:
            self._convert(self._conversion(saved, info))
        table: RocksTable = self._tables.get(info.name) or self._open(info)
        return table

    def _convert(self, conversion: Conversion) -> None:
        """Write all rows of a state anew. What an error leaves half done is never sealed."""
        saved, wanted = conversion.saved, conversion.wanted
        assert isinstance(saved, StateTableInfo) and isinstance(wanted, StateTableInfo)
        old, self._half_done = self._tables[saved.name], saved.name
        table = self._open(wanted)
        for record_batch in all_rows(old, old.family.scan(b"", None), saved, self.key_codec):
            self._apply(table, conversion.rows(pa.Table.from_batches([record_batch])), wanted)
        self._half_done = None

    def _apply(self, table: RocksTable, rows: pa.Table, info: StateTableInfo) -> None:
        part = decode_rows(rows, opaque_info(info))
        self._rows.expect(part.keys)
        batch = WriteBatch()
        table.apply(part, batch)
        self.store.write(batch)
        self._rows.forget()

    def _require_whole(self) -> None:
        if self._half_done is not None:
            raise StateBackendError(
                f"state {self._half_done!r} of operator {self.operator_uid!r} could not be changed to its new type, so "
                f"nothing can be done with it until it is restored again"
            )

    def _open(self, info: StateTableInfo) -> RocksTable:
        table = open_table(info, self.store, self._rows, self.key_groups, self.key_codec)
        self._infos[info.name] = info
        self._tables[info.name] = table
        return table

    def _new_handle(self, descriptor: StateDescriptor, table: RocksTable) -> State:
        if isinstance(table, RocksMapTable):
            assert descriptor.map_key_type is not None
            keys = map_keys_of(descriptor.map_key_type)
            return RocksMapState(self.keys, table, keys, guard_of(descriptor.value_type))
        if isinstance(table, RocksListTable):
            return RocksListState(self.keys, table, guard_of(descriptor.value_type.children[0]))
        assert isinstance(table, RocksValueTable)
        value = RocksValueState(self.keys, table, guard_of(descriptor.value_type))
        if descriptor.kind == "reducing":
            return ReducingHandle(value)
        return AggregatingHandle(value) if descriptor.kind == "aggregating" else value


class SealedRows:
    """The rows of a checkpoint's files, whose folder goes when all tables were read, or when nobody wants them.

    RocksDB's own snapshots would do without files, but iterators of rocksdict 0.3.29 do not keep to them.
    """

    def __init__(
        self,
        folder: Path,
        settings: BackendSettings,
        infos: Sequence[StateTableInfo],
        rows: KeyBytes,
        key_codec: KeyCodec,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._unread = {info.name for info in infos}
        self._rows = rows
        self._key_codec = key_codec
        self._store: Store | None = None
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def read(self, info: StateTableInfo, live: Callable[[Any], Any] | None) -> Iterator[pa.RecordBatch]:
        """All rows of one table, some at a time; or what `live` leaves of their values."""
        if self._store is None:
            self._store = Store(self._folder, self._settings, read_only=True)
        table = open_table(info, self._store, self._rows, (0, 0), self._key_codec)
        yield from all_rows(table, table.family.scan(b"", None), info, self._key_codec, live)
        self._unread.discard(info.name)
        if not self._unread:
            self._store.close()
            self._store = None


def has_content(handle: State) -> bool:
    """Whether the current key has something in the state."""
    if isinstance(handle, ValueState):
        return handle.value() is not None
    if isinstance(handle, MapState):
        return not handle.is_empty()
    assert isinstance(handle, AppendingState)
    content = handle.get()
    return bool(content) if isinstance(handle, ListState) else content is not None


def open_table(
    info: StateTableInfo, store: Store, rows: KeyBytes, key_groups: tuple[int, int], key_codec: KeyCodec
) -> RocksTable:
    """The table of a state in a store."""
    family = store.family(info.name)
    if info.kind == "list":
        return RocksListTable(info, family, rows, store.last_sequence + 1)
    if info.kind == "map":
        return RocksMapTable(info, family, rows)
    if info.kind == "timer":
        return RocksTimerTable(info, family, rows, key_groups, key_codec.order)
    return RocksValueTable(info, family, rows)


def all_rows(
    table: RocksTable,
    scan: Iterator[tuple[bytes, bytes]],
    info: StateTableInfo,
    key_codec: KeyCodec,
    live: Callable[[Any], Any] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Scanned rows of a table as Arrow columns, some at a time, or what `live` leaves. Pickles stay what they are."""
    counted = Counted(scan)
    entries, stored = table.entries(counted), opaque_info(info)
    if live is not None:
        left = ((key, map_key, live(value)) for key, map_key, value in entries)
        entries = (entry for entry in left if entry[2] is not None)
    while part := list(islice(counted.until(entries, BATCH_BYTES), BATCH_ROWS)):
        keys, map_keys, values = map(list, zip(*part, strict=True))
        rows = Rows(keys, map_keys if info.map_key_type is not None else None, values, None)
        yield from encode_rows(rows, stored, key_codec)


class Counted:
    """Scanned rows, and how many bytes they had: values may be large, and the state larger than memory."""

    def __init__(self, scan: Iterator[tuple[bytes, bytes]]) -> None:
        self._scan = scan
        self._bytes = 0

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        row = next(self._scan)
        self._bytes += len(row[1])
        return row

    def until(self, entries: Iterator[Any], limit: int) -> Iterator[Any]:
        """The next entries that are made of these rows, at least one, up to about so many bytes."""
        end = self._bytes + limit
        for entry in entries:
            yield entry
            if self._bytes >= end:
                return
