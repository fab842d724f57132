"""RocksDB's own files in checkpoints: which of them are stored already, and how they are restored (features G4, G6).

SST files never change and RocksDB never uses a file number twice in one database, so a file that the base of a
checkpoint has under the same name is the same file. Only the subtask that wrote the files continues with them as
they are; any other one reads their rows.
"""

import shutil
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from penstock.errors import CheckpointCorruptError
from penstock.model.snapshot import NativeName, StateFile, StateTableInfo, files_of_format
from penstock.state.backend.backend_spec import StoredFiles
from penstock.state.backend.sealed_state import PutFile
from penstock.state.format.table_rows import key_codec_of, schema_of
from penstock.state.rocksdb.key_bytes import KeyBytes
from penstock.state.rocksdb.rocksdb_rows import all_rows, open_table
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.state.rocksdb.store import Store

_NEEDED = ("CURRENT", "MANIFEST-")
"""Besides the SST files. RocksDB recreates options and logs."""


class LinkedFiles:
    """The files of a RocksDB checkpoint: hard links in a folder that is removed after they are stored or released."""

    def __init__(self, operator_uid: str, folder: Path, threads: int) -> None:
        self._operator_uid = operator_uid
        self._folder = folder
        self._threads = threads
        self._names = sorted(path.name for path in folder.iterdir())
        """The files at the seal. If one of them is missing later, the snapshot fails."""
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def store(self, base: Sequence[StateFile], put: PutFile) -> tuple[list[StateFile], int]:
        """Store what the base does not contain, and remove the links. All files of the snapshot, and the new bytes."""
        known = {name: file for file, name in files_of_format(base, NativeName) if name.name.endswith(".sst")}

        def entry(path: Path) -> tuple[StateFile, int]:
            name = NativeName(self._operator_uid, path.name, RocksDBSpec.name)
            old = known.get(name)
            if old is not None and old.size == path.stat().st_size:
                return old, 0
            stored = put(path.read_bytes(), name)
            return stored, stored.size

        try:
            paths = [self._folder / name for name in self._names if name.endswith(".sst") or _is_needed(name)]
            with ThreadPoolExecutor(self._threads) as pool:
                entries = list(pool.map(entry, paths))
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        return [file for file, _ in entries], sum(size for _, size in entries)


def fetch_files(stored: StoredFiles, threads: int) -> None:
    """Copy the files of a checkpoint to their new folder, so that it can be opened."""
    named = files_of_format(stored.files, NativeName)
    if not any(name.name == "CURRENT" for _, name in named):
        # RocksDB would create a new database in the folder.
        raise CheckpointCorruptError("RocksDB's files", "a file CURRENT among them", f"{len(named)} others")
    stored.folder.mkdir(parents=True)

    def fetch(entry: tuple[StateFile, NativeName]) -> None:
        file, name = entry[0], entry[1].name
        if Path(name).name != name or "\0" in name or not (name.endswith(".sst") or _is_needed(name)):
            raise CheckpointCorruptError("RocksDB's files", "names of RocksDB's files", repr(name), "PATH_OUTSIDE_ROOT")
        (stored.folder / name).write_bytes(stored.read(file))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fetch, named))


def read_files(
    stored: StoredFiles, max_parallelism: int, key_groups: tuple[int, int] | None, spec: RocksDBSpec
) -> Iterator[tuple[StateTableInfo, pa.Table]]:
    """The rows of fetched files in batches, of these key groups or of all (None). Removes the folder."""
    store = Store(stored.folder, spec, read_only=True)
    try:
        for info in stored.infos:
            key_codec = key_codec_of(info)
            rows = KeyBytes(key_codec, max_parallelism)
            table = open_table(info, store, rows, key_groups or (0, max_parallelism - 1))
            start = b"" if key_groups is None else rows.group(key_groups[0])
            end = None if key_groups is None else rows.group(key_groups[1] + 1)
            yield info, schema_of(info).empty_table()
            for batch in all_rows(table, table.family.scan(start, end), info, key_codec):
                yield info, pa.Table.from_batches([batch])
    finally:
        store.close()


def _is_needed(name: str) -> bool:
    return name.startswith(_NEEDED)
