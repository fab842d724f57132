"""The file of one subtask's sealed keyed state: all tables of all its operators.

Layout: magic, length and checksum of the table of contents, the table of contents (JSON), then one Arrow stream per
table, each with its own checksum in the table of contents. Rows are sorted by key group within a file, in batches of
whole key groups that the table of contents lists, so that a restore decodes only those it needs; a row of a delta may
be a delete. The manifest has the sha256 of the whole file; the checksums here detect damage before Arrow reads any
bytes. Nothing in here is ever unpickled.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CheckpointCorruptError, PenstockError
from penstock.model.snapshot import StateTableInfo
from penstock.state.backend.sealed_state import SealedTable, SealedTables
from penstock.state.format.table_rows import HASH_COLUMN, Rows, encode_rows, in_key_groups, key_groups_of, schema_of

MAGIC = b"PNSTATE1"
"""The last byte is the version of the format."""
KINDS = ("value", "list", "map", "reducing", "aggregating", "timer")
MAX_CONTENTS_BYTES = 64 * 1024 * 1024
FILE_BYTES = 256 * 1024 * 1024
"""The approximate maximum size of a file before compression, and of what is sorted at once."""
INDEXED_ROWS = 8192
"""A batch of the stream ends with the first key group that brings it to this many rows."""
COMPRESSED_BYTES = 16 * 1024
"""Smaller tables are not compressed unless compression is requested."""

_HEAD = struct.Struct("<8sII")


FileData = bytes | Callable[[], bytes]


class TableEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a table is in the file, counted from the end of the table of contents."""

    info: StateTableInfo
    full: bool
    row_count: int
    offset: int
    size: int
    crc32: int
    max_parallelism: int = 0
    """The number of key groups for `batches`."""
    batches: list[tuple[int, int]] = []
    """First and last key group of each batch of the stream."""


class SnapshotFileContents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table of contents."""

    tables: list[TableEntry]


def encode_snapshot(sealed: Sequence[SealedTables]) -> bytes:
    """One file of these sealed operators. They must fit into one file."""
    (data,) = encode_files(sealed)
    return data


def encode_files(sealed: Sequence[SealedTables], *, compression: bool | None = None) -> Iterator[bytes]:
    """The files of these sealed operators, in order. Slow: called in the asynchronous part of a checkpoint.

    Nearly always one file. A table that exceeds the size of a file continues in the next one. `compression`: always,
    never, or (None) for tables that are large enough. Readers detect it.
    """
    entries: list[TableEntry] = []
    streams: list[bytes] = []
    for operator in sealed:
        for table in operator.tables:
            for number, (data, row_count, batches) in enumerate(
                _encode_table(table, operator, compression=compression)
            ):
                if number or sum(map(len, streams)) > FILE_BYTES:
                    yield _file(entries, streams)
                    entries, streams = [], []
                is_full = table.full and number == 0
                place = sum(map(len, streams))
                where = (place, len(data), zlib.crc32(data))
                entries.append(TableEntry(table.info, is_full, row_count, *where, operator.max_parallelism, batches))
                streams.append(data)
    yield _file(entries, streams)


def _file(entries: list[TableEntry], streams: list[bytes]) -> bytes:
    contents = msgspec.json.encode(SnapshotFileContents(entries))
    return b"".join([_HEAD.pack(MAGIC, len(contents), zlib.crc32(contents)), contents, *streams])


Piece = tuple[bytes, int, list[tuple[int, int]]]
"""An Arrow stream, its number of rows, and the first and last key group of each of its batches."""


def _encode_table(table: SealedTable, operator: SealedTables, *, compression: bool | None) -> Iterator[Piece]:
    """A table as Arrow streams of limited size; no bytes when there are no rows."""
    rows = table.rows()
    if isinstance(rows, pa.Table):
        batches = iter(rows.to_batches())
    else:
        batches = encode_rows(rows, table.info, operator.key_codec) if isinstance(rows, Rows) else rows
    is_empty = True
    for piece in pieces(batches):
        is_empty = False
        # Compressing a few rows takes ten times as long as writing them.
        is_compressed = piece.nbytes >= COMPRESSED_BYTES if compression is None else compression
        options = pa.ipc.IpcWriteOptions(compression="zstd" if is_compressed else None)
        yield _encode_piece(piece, table.info, operator.max_parallelism, options)
    if is_empty:
        yield b"", 0, []


def _encode_piece(piece: pa.Table, info: StateTableInfo, max_parallelism: int, options: Any) -> Piece:
    if not len(piece):
        return b"", 0, []
    sink = pa.BufferOutputStream()
    groups = key_groups_of(piece, max_parallelism).astype(np.uint16)
    order = np.argsort(groups, kind="stable")
    groups, ordered = groups[order], piece.combine_chunks().take(pa.array(order))
    index: list[tuple[int, int]] = []
    with pa.ipc.new_stream(sink, schema_of(info), options=options) as writer:
        for start, end in _whole_groups(groups):
            writer.write_table(ordered.slice(start, end - start), max_chunksize=end - start)
            index.append((int(groups[start]), int(groups[end - 1])))
    return sink.getvalue().to_pybytes(), len(piece), index


def _whole_groups(groups: npt.NDArray[np.uint16]) -> Iterator[tuple[int, int]]:
    """First and last+1 row of each batch. `groups` is sorted, and no key group is split."""
    begin = 0
    for end in (*(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)):
        if end - begin >= INDEXED_ROWS or (end == len(groups) and end > begin):
            yield begin, end
            begin = end


def pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches combined to tables of the size that is sorted at once."""
    piece: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if piece and size + batch.nbytes > FILE_BYTES:
            yield pa.Table.from_batches(piece)
            piece, size = [], 0
        piece.append(batch)
        size += batch.nbytes
    if piece:
        yield pa.Table.from_batches(piece)


def read_snapshot(
    data: bytes, key_groups: tuple[int, int], max_parallelism: int, *, path: str = "state file"
) -> Iterator[tuple[StateTableInfo, pa.Table]]:
    """The tables of one file, with their rows in these key groups. Raises CheckpointCorruptError if it is damaged."""
    return read_chain([data], key_groups, max_parallelism, paths=[path])


def read_chain(
    files: Sequence[FileData],
    key_groups: tuple[int, int],
    max_parallelism: int,
    *,
    paths: Sequence[str] = (),
    only: tuple[str, str] | None = None,
) -> Iterator[tuple[StateTableInfo, pa.Table]]:
    """The tables of one subtask's files, oldest file first, in the order in which their rows must be applied.

    A file that is passed as a function is read twice, and only one such file is in memory at a time. Files before the
    last one that has all of a table are skipped for that table. `only`: operator uid and name of the one state to read.
    """
    names = [paths[index] if index < len(paths) else f"state file {index}" for index in range(len(files))]
    last_full: dict[tuple[str, str], int] = {}
    for index, file in enumerate(files):
        entries = _read_contents(_data(file), names[index])[1]
        last_full.update({_table_id(entry): index for entry in entries if entry.full})
    for index, (path, file) in enumerate(zip(names, files, strict=True)):
        data = _data(file)
        start, entries = _read_contents(data, path)
        for entry in entries:
            if index >= last_full.get(_table_id(entry), 0) and only in (None, _table_id(entry)):
                table = _read_table(data, start, entry, path, _needed_batches(entry, key_groups, max_parallelism))
                yield entry.info, in_key_groups(table, key_groups, max_parallelism)


def table_sizes(data: bytes, path: str = "state file") -> list[tuple[StateTableInfo, int]]:
    """Each table of a file, and its bytes."""
    return [(entry.info, entry.size) for entry in _read_contents(data, path)[1]]


def row_count(data: bytes) -> int:
    """The number of rows of a file, in all tables."""
    return sum(entry.row_count for entry in _read_contents(data, "state file")[1])


def _data(file: FileData) -> bytes:
    return file if isinstance(file, bytes) else file()


def _table_id(entry: TableEntry) -> tuple[str, str]:
    return entry.info.operator_uid, entry.info.name


def _read_contents(data: bytes, path: str) -> tuple[int, list[TableEntry]]:
    """Where the streams start, and the table of contents, checked against the file's length."""
    if data[: len(MAGIC)] != MAGIC:
        raise CheckpointCorruptError(path, f"a file that starts with {MAGIC!r}", repr(bytes(data[: len(MAGIC)])))
    if len(data) < _HEAD.size:
        raise CheckpointCorruptError(path, f"at least {_HEAD.size} bytes", f"{len(data)} bytes")
    _, size, crc32 = _HEAD.unpack_from(data)
    start = _HEAD.size + size
    if size > MAX_CONTENTS_BYTES or start > len(data):
        raise CheckpointCorruptError(path, f"a table of contents of {size} bytes", f"{len(data)} bytes in all")
    text = data[_HEAD.size : start]
    if zlib.crc32(text) != crc32:
        raise CheckpointCorruptError(path, f"a table of contents with crc32 {crc32}", str(zlib.crc32(text)))
    try:
        contents = msgspec.json.decode(text, type=SnapshotFileContents)
    except msgspec.MsgspecError as error:
        raise CheckpointCorruptError(path, "a table of contents", str(error)) from error
    position = 0
    for entry in contents.tables:
        if entry.offset != position or entry.size < 0 or entry.row_count < 0 or entry.info.kind not in KINDS:
            raise CheckpointCorruptError(path, f"a table of a known kind at byte {position}", repr(entry))
        position += entry.size
    if position != len(data) - start:
        raise CheckpointCorruptError(path, f"{position} bytes of tables", f"{len(data) - start} bytes")
    if len({_table_id(entry) for entry in contents.tables}) != len(contents.tables):
        raise CheckpointCorruptError(path, "every table once", "a table that is there twice")
    return start, contents.tables


def _needed_batches(entry: TableEntry, key_groups: tuple[int, int], max_parallelism: int) -> list[int] | None:
    """The batches that may contain rows of these key groups; None: all of them."""
    if entry.max_parallelism != max_parallelism or not entry.batches:
        return None
    needed = [n for n, (first, last) in enumerate(entry.batches) if first <= key_groups[1] and key_groups[0] <= last]
    return None if len(needed) == len(entry.batches) else needed


def _messages(reader: Any) -> Iterator[Any]:
    """The messages of a stream, not decoded."""
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _read_batches(stream: memoryview, schema: pa.Schema, entry: TableEntry, needed: list[int]) -> pa.Table:
    """Some batches of a stream. The others are skipped without being decoded."""
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream))
    found = pa.ipc.read_schema(reader.read_next_message())
    messages = list(_messages(reader))
    if not found.equals(schema) or len(messages) != len(entry.batches):
        raise ValueError(f"{len(messages)} batches with the columns {found}")
    return pa.Table.from_batches([pa.ipc.read_record_batch(messages[n], schema) for n in needed], schema)


def _read_table(data: bytes, start: int, entry: TableEntry, path: str, needed: list[int] | None) -> pa.Table:
    """The rows of all or some batches of a table, with the columns of its type."""
    begin = start + entry.offset
    stream = memoryview(data)[begin : begin + entry.size]
    where = f"{path} (state {entry.info.name!r} of operator {entry.info.operator_uid!r})"
    if zlib.crc32(stream) != entry.crc32:
        raise CheckpointCorruptError(where, f"crc32 {entry.crc32}", str(zlib.crc32(stream)))
    try:
        schema = schema_of(entry.info)
        if needed is not None:
            table = _read_batches(stream, schema, entry, needed)
        else:
            table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all() if entry.size else schema.empty_table()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, PenstockError) as error:
        raise CheckpointCorruptError(where, "a readable table", f"{type(error).__name__}: {error}") from error
    if not table.schema.equals(schema):
        raise CheckpointCorruptError(where, f"columns {schema.names} of {schema.types}", str(table.schema))
    if len(table) != entry.row_count and (needed is None or len(table) > entry.row_count):
        raise CheckpointCorruptError(where, f"{entry.row_count} rows", f"{len(table)} rows")
    # Only values may be null.
    if any(table[field.name].null_count for field in schema if not field.nullable):
        raise CheckpointCorruptError(where, f"no null in {HASH_COLUMN}, keys and deleted", "a null")
    return table
