"""RocksDB's own files in a checkpoint: which are stored already, and how they come back (features G4, G6).

SST files never change and RocksDB never uses a file number twice in one database, so a file that the base of a
checkpoint has under the same name is the same file. Files come back as they are only to the subtask that wrote them;
any other one reads their rows.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from penstock.errors import CheckpointCorruptError
from penstock.model.snapshot import NativeName, StateFile, StateTableInfo
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.sealed_state import SealedFiles
from penstock.state.format.table_rows import key_codec_of, schema_of
from penstock.state.rocksdb.key_bytes import KeyBytes
from penstock.state.rocksdb.rocksdb_backend import all_rows, open_table
from penstock.state.rocksdb.store import Store

_NEEDED = ("CURRENT", "MANIFEST-")
"""Besides the SST files. RocksDB writes options and logs anew."""


def store_files(
    sealed: SealedFiles, base: Sequence[StateFile], put: Callable[[bytes, NativeName], StateFile]
) -> tuple[list[StateFile], int]:
    """Store what the base does not have. All files of the snapshot, and how many bytes are new; the links go."""
    known = {file.native: file for file in base if file.native is not None and file.native.name.endswith(".sst")}

    def entry(path: Path) -> tuple[StateFile, int]:
        name = NativeName(sealed.operator_uid, path.name)
        old = known.get(name)
        if old is not None and old.size == path.stat().st_size:
            return old, 0
        stored = put(path.read_bytes(), name)
        return stored, stored.size

    try:
        paths = [sealed.folder / name for name in sealed.names if name.endswith(".sst") or _is_needed(name)]
        with ThreadPoolExecutor(sealed.threads) as pool:
            entries = list(pool.map(entry, paths))
    finally:
        shutil.rmtree(sealed.folder, ignore_errors=True)
    return [file for file, _ in entries], sum(size for _, size in entries)


def fetch_files(files: Sequence[StateFile], folder: Path, read: Callable[[StateFile], bytes], threads: int) -> None:
    """Put the files of a checkpoint into a new folder, ready to be opened."""
    if not any(file.native is not None and file.native.name == "CURRENT" for file in files):
        # RocksDB would take the folder for a new database.
        raise CheckpointCorruptError("RocksDB's files", "a file CURRENT among them", f"{len(files)} others")
    folder.mkdir(parents=True)

    def fetch(file: StateFile) -> None:
        assert file.native is not None
        name = file.native.name
        if Path(name).name != name or "\0" in name or not (name.endswith(".sst") or _is_needed(name)):
            raise CheckpointCorruptError("RocksDB's files", "names of RocksDB's files", repr(name), "PATH_OUTSIDE_ROOT")
        (folder / name).write_bytes(read(file))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fetch, files))


def read_files(
    folder: Path,
    infos: Sequence[StateTableInfo],
    max_parallelism: int,
    key_groups: tuple[int, int] | None,
    settings: BackendSettings,
) -> Iterator[tuple[StateTableInfo, pa.Table]]:
    """The rows of fetched files, some at a time; of these key groups only, or of all. Removes the folder."""
    store = Store(folder, settings, read_only=True)
    try:
        for info in infos:
            key_codec = key_codec_of(info)
            rows = KeyBytes(key_codec, max_parallelism)
            table = open_table(info, store, rows, key_groups or (0, max_parallelism - 1), key_codec)
            start = b"" if key_groups is None else rows.group(key_groups[0])
            end = None if key_groups is None else rows.group(key_groups[1] + 1)
            yield info, schema_of(info).empty_table()
            for batch in all_rows(table, table.family.scan(start, end), info, key_codec):
                yield info, pa.Table.from_batches([batch])
    finally:
        store.close()


def _is_needed(name: str) -> bool:
    return name.startswith(_NEEDED)
