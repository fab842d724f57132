"""The rows of any snapshot as Arrow tables: of a canonical or native savepoint, and of a checkpoint.

For all file formats, keyed state has the columns of a savepoint's Parquet files (`keyed_parquet.py`), with every entry
once, and operator state has `subtask`, `position`, `map_key` or `key_group`, and `value`. Sizes and hashes of files are
verified. Nothing is unpickled. Only some key groups of one subtask are in memory at a time.
"""

import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.errors import CheckpointCorruptError
from penstock.model.snapshot import (
    NativeName,
    OperatorStateInfo,
    OwnTables,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
    TableFile,
    files_of_format,
)
from penstock.model.type_information import parse_type
from penstock.state.format.conversion import evolved, evolved_rows
from penstock.state.format.keyed_parquet import decode_table, in_order, table_of
from penstock.state.format.operator_parquet import POSITION_COLUMN, decode_operator_table
from penstock.state.format.snapshot_file import FileData, read_chain
from penstock.state.format.table_rows import in_key_groups
from penstock.state.operator.operator_file import read_operator_states
from penstock.state.operator.operator_file import schema_of as columns_of
from penstock.storage.storage import Storage

SLICE_BYTES = 64 * 1024 * 1024
"""The approximate amount of a subtask's files in our own format that is decoded at once."""
HELD_BYTES = 256 * 1024 * 1024
"""Files of one subtask up to this size are kept in memory while they are read; of more, one at a time."""
MOST_RANGES = 16
"""Of key groups that are read one by one."""
SUBTASK_COLUMN = "subtask"


@dataclass(frozen=True)
class KeyedRows:
    """Reads one keyed state of one old subtask. Plain data: it is sent to executors."""

    snapshot: SubtaskSnapshot
    saved: StateTableInfo
    """Its description in this subtask's snapshot."""
    info: StateTableInfo
    """Its description for the reader, which fits the rows of all subtasks."""
    max_parallelism: int

    @property
    def ttl_ms(self) -> int:
        """The time between the last access to an entry and its `expires_at`; 0 if it is unknown."""
        return max((table.ttl_ms for _, table in self._tables()), default=0)

    @property
    def table_bytes(self) -> int:
        """Of the files that hold this state alone. Rows in memory are larger, because the files are compressed."""
        return sum(file.size for file, _ in self._tables())

    def read(self, storage: Storage, key_groups: tuple[int, int] | None = None) -> Iterator[pa.Table]:
        """All rows, or those of some key groups, as tables of `parquet_schema(info)`; none of them is empty."""
        overlap = self._overlap(key_groups or (0, self.max_parallelism - 1))
        return self._tables_of(storage, [overlap] if overlap is not None else [])

    def read_groups(self, storage: Storage, key_groups: Collection[int]) -> Iterator[pa.Table]:
        """The rows of some key groups, and maybe of others between them. A file is read once, whatever their number."""
        first, last = self.snapshot.key_groups
        return self._tables_of(storage, ranges_of([group for group in key_groups if first <= group <= last]))

    def _tables_of(self, storage: Storage, ranges: Sequence[tuple[int, int]]) -> Iterator[pa.Table]:
        if ranges:
            yield from (table for table in self._read(storage, ranges) if len(table))

    def _read(self, storage: Storage, ranges: Sequence[tuple[int, int]]) -> Iterator[pa.Table]:
        for file, table in self._tables():
            data = verify_file(storage, file)
            for key_groups in ranges:
                rows = decode_table(data, table, self.saved, key_groups, self.max_parallelism)
                yield table_of(evolved(rows, self.saved, self.info), self.info, self.max_parallelism, table.ttl_ms)
        native = self._native_files()
        if native:
            yield from self._read_native(storage, native, ranges)
        own = [file for file, _ in files_of_format(self.snapshot.files, OwnTables)]
        if own and not native:
            yield from self._read_chain(storage, own, ranges)

    def _read_chain(
        self, storage: Storage, files: Sequence[StateFile], ranges: Sequence[tuple[int, int]]
    ) -> Iterator[pa.Table]:
        """A full file and deltas on top of it. The last of several rows of an entry wins."""
        size = sum(file.size for file in files)
        data: list[FileData] = [partial(verify_file, storage, file) for file in files]
        if size <= HELD_BYTES:
            data = [verify_file(storage, file) for file in files]
        names = [file.path or "inline state" for file in files]
        first, last = self.snapshot.key_groups
        step = -(-(last - first + 1) // (size // SLICE_BYTES + 1))
        for part in _parts(ranges, step):
            state = self.info.operator_uid, self.info.name
            found = [
                evolved(rows, info, self.info)
                for info, rows in read_chain(data, part, self.max_parallelism, paths=names, only=state)
            ]
            if found:
                yield table_of(in_order(pa.concat_tables(found), self.info, self.max_parallelism), *self._form())

    def _read_native(
        self, storage: Storage, files: Sequence[StateFile], ranges: Sequence[tuple[int, int]]
    ) -> Iterator[pa.Table]:
        """Native files, read by their backend in a temporary folder."""
        from penstock.state.backend.backend_registry import reader_of  # canonical savepoints need no backend
        from penstock.state.backend.backend_spec import StoredFiles

        folder = Path(tempfile.mkdtemp(prefix="penstock-state-"))
        span = ranges[0][0], ranges[-1][1]  # in one pass, which fetches the files once
        try:
            stored = StoredFiles(files, [self.saved], partial(verify_file, storage), folder / "files")
            for backend in {name.backend: None for _, name in files_of_format(files, NativeName)}:
                for _, table in reader_of(backend).read_files(stored, self.max_parallelism, span):
                    inside = evolved(in_key_groups(table, span, self.max_parallelism), self.saved, self.info)
                    yield table_of(in_order(inside, self.info, self.max_parallelism), *self._form())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _form(self) -> tuple[StateTableInfo, int]:
        return self.info, self.max_parallelism

    def _native_files(self) -> list[StateFile]:
        """The native files of this state's operator, which contain all of its states."""
        files = files_of_format(self.snapshot.files, NativeName)
        return [file for file, name in files if name.operator_uid == self.info.operator_uid]

    def _tables(self) -> list[tuple[StateFile, TableFile]]:
        """Parquet files of this state."""
        place = (self.info.operator_uid, "keyed", self.info.name)
        return [entry for entry in files_of_format(self.snapshot.files, TableFile) if entry[1].state == place]

    def _overlap(self, key_groups: tuple[int, int]) -> tuple[int, int] | None:
        first = max(key_groups[0], self.snapshot.key_groups[0])
        last = min(key_groups[1], self.snapshot.key_groups[1])
        return (first, last) if first <= last else None


@dataclass(frozen=True)
class OperatorRows:
    """Reads one operator state of one old subtask. Plain data: it is sent to executors."""

    snapshot: SubtaskSnapshot
    saved: OperatorStateInfo
    """Its description in this subtask's snapshot."""
    info: OperatorStateInfo
    """Its description for the reader."""

    def read(self, storage: Storage) -> pa.Table:
        """Its elements, with the columns of `operator_schema(info)`."""
        saved = self.saved
        for file, table in files_of_format(self.snapshot.operator_files, TableFile):
            if table.state == _place(saved):
                return self._numbered(decode_operator_table(verify_file(storage, file), table, saved))
        whole = self.snapshot.operator_file
        if whole is None:
            return operator_schema(self.info).empty_table()
        path = whole.path or "inline operator state"
        states = read_operator_states(verify_file(storage, whole), path=path)
        if _place(saved) not in states:
            raise CheckpointCorruptError(path, f"{saved.mode} state {saved.name!r} of {saved.operator_uid!r}", "none")
        return self._numbered(states[_place(saved)])

    def _numbered(self, rows: pa.Table) -> pa.Table:
        rows = evolved_rows(rows, parse_type(self.saved.value_type), parse_type(self.info.value_type))
        subtask = pa.array(np.full(len(rows), self.snapshot.subtask.index, dtype=np.int32))
        positions = pa.array(np.arange(len(rows), dtype=np.int64))
        return pa.Table.from_arrays([subtask, positions, *rows.columns], schema=operator_schema(self.info))


def operator_schema(info: OperatorStateInfo) -> pa.Schema:
    """The columns of an operator state."""
    head = [pa.field(SUBTASK_COLUMN, pa.int32(), nullable=False), pa.field(POSITION_COLUMN, pa.int64(), nullable=False)]
    return pa.schema([*head, *columns_of(info)])


def ranges_of(key_groups: Collection[int]) -> list[tuple[int, int]]:
    """Ranges that contain all of these key groups, in order: a few, with the smallest gaps between them filled.

    >>> ranges_of([9, 3, 4, 4])
    [(3, 4), (9, 9)]
    """
    ordered = sorted(set(key_groups))
    gaps = sorted(((after - before, after) for before, after in pairwise(ordered)), reverse=True)[: MOST_RANGES - 1]
    starts = sorted(ordered[:1] + [after for gap, after in gaps if gap > 1])
    ends = [before for before, after in pairwise(ordered) if after in starts] + ordered[-1:]
    return list(zip(starts, ends, strict=True))


def _parts(ranges: Sequence[tuple[int, int]], step: int) -> Iterator[tuple[int, int]]:
    """The ranges split into parts of at most so many key groups."""
    for first, last in ranges:
        for start in range(first, last + 1, step):
            yield start, min(start + step - 1, last)


def _place(info: OperatorStateInfo) -> tuple[str, str, str]:
    return info.operator_uid, info.mode, info.name
