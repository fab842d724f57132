"""One RocksDB database: a column family per state, one write batch per epoch, memory shared by all stores of a process.

There is no write-ahead log: the changes of an epoch are in a checkpoint or are computed again. A store has its own
folder, which is removed with it.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import StateBackendError
from penstock.state.rocksdb import bindings
from penstock.state.rocksdb.key_bytes import end_of
from penstock.state.rocksdb.largest_rows import LargestRows
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.store_options import StoreOptions

_FAMILY = "state-"
"""The prefix of the column families of states; RocksDB has a default family too."""
_FILE_LINE = re.compile(r"^ (\d+):", re.MULTILINE)


class Store:
    """RocksDB in one folder. Used by one thread."""

    def __init__(self, folder: Path, spec: RocksDBSpec, *, read_only: bool = False) -> None:
        self.folder = folder
        self._is_cancelled = False
        self.options = StoreOptions(spec)
        folder.parent.mkdir(parents=True, exist_ok=True)
        access = bindings.AccessType.read_only() if read_only else bindings.AccessType.read_write()
        try:
            known = bindings.Rdict.list_cf(str(folder), self.options.make()) if (folder / "CURRENT").exists() else []
            families = {name: self.options.make() for name in known if name != "default"}
            self._db = bindings.Rdict(str(folder), self.options.make(), families, access)
        except Exception as error:
            raise StateBackendError(f"RocksDB cannot be opened in {folder}: {error}") from error
        self._no_log = bindings.WriteOptions()
        self._no_log.disable_wal = True  # type: ignore[assignment, method-assign]  # the stub is wrong
        self._db.set_write_options(self._no_log)
        self._families = {name: self._db.get_column_family(name) for name in families}

    def family(self, name: str) -> "Family":
        """The rows of one state. Created if it is new."""
        full_name = _FAMILY + name
        if full_name not in self._families:
            self._families[full_name] = self._db.create_column_family(full_name, self.options.make())
        return Family(self._families[full_name], self._db.get_column_family_handle(full_name))

    def names(self) -> list[str]:
        """States that have or had rows."""
        return [name.removeprefix(_FAMILY) for name in self._families]

    def write(self, batch: "WriteBatch") -> None:
        """Write all changes of a batch, or none."""
        try:
            self._db.write(batch.raw, self._no_log)
        except Exception as error:
            raise StateBackendError(f"RocksDB in {self.folder} cannot write: {error}; is the disk full?") from error

    def link_checkpoint(self, folder: Path) -> None:
        """Create a new folder with hard links to the present files."""
        try:
            bindings.Checkpoint(self._db).create_checkpoint(str(folder))
        except Exception as error:
            raise StateBackendError(f"RocksDB in {self.folder} cannot make a checkpoint: {error}") from error

    def live_files(self) -> "list[LiveFile]":
        """The files of all states, with RocksDB's figures."""
        return [
            LiveFile(
                int(Path(file["name"]).stem),
                file["size"],
                file["num_entries"] - 2 * file["num_deletions"],  # a delete is an entry, and hides another
                file["start_key"],
                file["end_key"],
            )
            for file in self._db.live_files()
        ]

    @property
    def last_sequence(self) -> int:
        """Increases with every written row, and is kept by a checkpoint."""
        return int(self._db.latest_sequence_number())

    def cancel_compaction(self) -> None:
        """Stop background work before the store is closed."""
        self._db.cancel_all_background(wait=True)
        self._is_cancelled = True

    def close(self, *, remove: bool = True) -> None:
        """Close the database and remove its files."""
        for part in (*self._families.values(), self._db):
            try:
                part.close()
            except Exception as error:
                if not self._is_cancelled:  # otherwise it complains about a write that nobody needs
                    raise StateBackendError(f"RocksDB in {self.folder} cannot be closed: {error}") from error
        self._families.clear()
        if remove:
            shutil.rmtree(self.folder, ignore_errors=True)


class LiveFile(NamedTuple):
    """An SST file."""

    number: int
    size: int
    row_count: int
    """The approximate number of rows it adds to older files; negative if it mostly deletes rows."""
    first_row: bytes
    last_row: bytes


class Family:
    """The rows of one state, sorted by the bytes of their keys."""

    def __init__(self, raw: Any, handle: Any) -> None:
        self.raw = raw
        self.handle = handle
        self.get = raw.get
        """A row's value, or None."""
        self.largest = LargestRows()

    def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Rows from `start` (inclusive) to `end` (exclusive)."""
        return _scan(self.raw.iter(), start, end)

    def scan_prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows that start with a prefix."""
        return self.scan(prefix, end_of(prefix))

    def seek_each(self, behind: Callable[[bytes], bytes | None]) -> Iterator[bytes]:
        """The keys of some rows: of the first one, then of the first one from `behind` it, and so on."""
        rows = self.raw.iter()
        start: bytes | None = b""
        while start is not None:
            rows.seek(start)
            if not rows.valid():
                rows.status()
                return
            yield (key := rows.key())
            start = behind(key)

    def compact(self) -> None:
        """Free the space of removed rows now. Other threads are not blocked."""
        try:
            self.raw.compact_range(None, None)
        except Exception as error:
            raise StateBackendError(f"RocksDB cannot compact: {error}") from error

    def stored_bytes(self) -> int:
        """The approximate size of the rows on disk and in write buffers."""
        names = ("rocksdb.live-sst-files-size", "rocksdb.cur-size-all-mem-tables")
        return sum(self.raw.property_int_value(name) or 0 for name in names)

    def file_numbers(self) -> set[int]:
        """The numbers of the state's files. RocksDB's figures of files do not say which state they belong to."""
        return set(map(int, _FILE_LINE.findall(self.raw.property_value("rocksdb.sstables") or "")))


def _scan(rows: Any, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """The bound is checked here, because RocksDB keeps only a pointer to its own bound."""
    rows.seek(start)
    while rows.valid():
        key = rows.key()
        if end is not None and key >= end:
            return
        yield key, rows.value()
        rows.next()
    rows.status()


class WriteBatch:
    """Changes that are written together."""

    def __init__(self) -> None:
        self.raw = bindings.WriteBatch(raw_mode=True)

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Add or replace a row."""
        size, largest = len(key) + len(value), family.largest
        if size > largest.floor or key in largest.rows:
            largest.note(key, size)
        self.raw.put(key, value, family.handle)

    def delete(self, family: Family, key: bytes) -> None:
        """Remove a row if it exists."""
        if key in family.largest.rows:
            family.largest.drop(key)
        self.raw.delete(key, family.handle)

    def __len__(self) -> int:
        return int(self.raw.len())
