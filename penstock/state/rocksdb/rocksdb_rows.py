"""The rows of RocksDB's tables as Arrow columns, in batches, because the state may be larger than memory."""

import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.snapshot import StateTableInfo
from penstock.state.format.entry_bytes import address_order
from penstock.state.format.opaque_types import opaque_info
from penstock.state.format.table_rows import BATCH_ROWS, Rows, encode_rows
from penstock.state.rocksdb.key_bytes import KeyBytes, row_bytes
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.rocksdb_tables import RocksListTable, RocksMapTable, RocksValueTable
from penstock.state.rocksdb.rocksdb_timers import RocksTimerTable
from penstock.state.rocksdb.store import Store

RocksTable: TypeAlias = RocksValueTable | RocksListTable | RocksMapTable | RocksTimerTable
BATCH_BYTES = 32 * 1024 * 1024
"""The size of a batch, in bytes of stored values. Decoded values take a few times as much."""


class SealedRows:
    """The rows of a checkpoint's files. Their folder is removed after all tables were read, or when this is released.

    RocksDB's own snapshots would need no files, but iterators of rocksdict 0.3.29 ignore them.
    """

    def __init__(
        self, folder: Path, spec: RocksDBSpec, infos: Sequence[StateTableInfo], rows: KeyBytes, key_codec: KeyCodec
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._unread = {info.name for info in infos}
        self._rows = rows
        self._key_codec = key_codec
        self._store: Store | None = None
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def read(self, info: StateTableInfo, live: Callable[[Any], Any] | None) -> Iterator[pa.RecordBatch]:
        """All rows of one table in batches, without what `live` drops."""
        if self._store is None:
            self._store = Store(self._folder, self._spec, read_only=True)
        table = open_table(info, self._store, self._rows, (0, 0))
        yield from all_rows(table, table.family.scan(b"", None), info, self._key_codec, live)
        self._unread.discard(info.name)
        if not self._unread:
            self._store.close()
            self._store = None


def open_table(info: StateTableInfo, store: Store, keys: KeyBytes, key_groups: tuple[int, int]) -> RocksTable:
    """The table of a state in a store."""
    family, rows = store.family(info.name), row_bytes(keys, info)
    if info.kind == "list":
        return RocksListTable(info, family, rows, store.last_sequence + 1)
    if info.kind == "map":
        return RocksMapTable(info, family, rows)
    if info.kind == "timer":
        return RocksTimerTable(info, family, rows, key_groups, address_order(info))
    return RocksValueTable(info, family, rows)


def all_rows(
    table: RocksTable,
    scan: Iterator[tuple[bytes, bytes]],
    info: StateTableInfo,
    key_codec: KeyCodec,
    live: Callable[[Any], Any] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Scanned rows of a table as Arrow columns in batches, without what `live` drops. Pickles are not loaded."""
    counted = CountedScan(scan)
    entries, stored = table.entries(counted), opaque_info(info)
    if live is not None:
        left = ((key, map_key, live(value)) for key, map_key, value in entries)
        entries = (entry for entry in left if entry[2] is not None)
    while part := list(islice(counted.until(entries, BATCH_BYTES), BATCH_ROWS)):
        keys, map_keys, values = map(list, zip(*part, strict=True))
        rows = Rows(keys, map_keys if info.map_key_type is not None else None, values, None)
        yield from encode_rows(rows, stored, key_codec)


class CountedScan:
    """Scanned rows, and the number of their bytes, to limit the size of batches."""

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
        """The next entries made from these rows, at least one, up to about `limit` bytes."""
        end = self._bytes + limit
        for entry in entries:
            yield entry
            if self._bytes >= end:
                return
