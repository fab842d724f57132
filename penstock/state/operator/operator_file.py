"""The file of one subtask's sealed operator state: list, broadcast and raw states of all its operators.

Layout: magic, length and checksum of the table of contents, the table of contents (JSON), then one Arrow stream per
state, each with its own checksum. Columns: `map_key` (broadcast) or `key_group` (raw keyed), then `value`. Nothing in
here is unpickled before a function declares the state as pickled.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from penstock.codec.columns import encode_column
from penstock.errors import CheckpointCorruptError, PenstockError, UnsupportedValueError
from penstock.model.snapshot import OperatorStateInfo
from penstock.model.type_information import parse_type
from penstock.state.backend.map_keys import map_keys_of

MAGIC = b"PNOPSTA1"
"""The last byte is the version of the format."""
MODES = ("split", "union", "broadcast", "raw", "raw_keyed")
MAP_KEY_COLUMN, KEY_GROUP_COLUMN, VALUE_COLUMN = "map_key", "key_group", "value"
BATCH_ROWS = 65536
MAX_CONTENTS_BYTES = 64 * 1024 * 1024

_HEAD = struct.Struct("<8sII")


@dataclass(frozen=True)
class SealedOperatorState:
    """One sealed state. It never changes, so another thread may read it."""

    info: OperatorStateInfo
    content: list[Any] | dict[Any, Any] | pa.Table
    """Stored elements, kept map keys or key groups with their values, or rows as they were read."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a state is in the file, counted from the end of the table of contents."""

    info: OperatorStateInfo
    offset: int
    size: int
    crc32: int


class OperatorFileContents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table of contents."""

    states: list[Entry]


def schema_of(info: OperatorStateInfo) -> pa.Schema:
    """The columns of a state."""
    fields = []
    if info.map_key_type is not None:
        fields.append(pa.field(MAP_KEY_COLUMN, parse_type(info.map_key_type).arrow, nullable=False))
    if info.mode == "raw_keyed":
        fields.append(pa.field(KEY_GROUP_COLUMN, pa.int32(), nullable=False))
    fields.append(pa.field(VALUE_COLUMN, parse_type(info.value_type).arrow))
    return pa.schema(fields)


def encode_operator_states(states: Sequence[SealedOperatorState], *, compression: bool = False) -> bytes:
    """The file of these states. Slow: called in the asynchronous part of a checkpoint."""
    entries: list[Entry] = []
    streams: list[bytes] = []
    offset = 0
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compression else None)
    for state in states:
        data = _encode_state(state, options)
        entries.append(Entry(state.info, offset, len(data), zlib.crc32(data)))
        streams.append(data)
        offset += len(data)
    contents = msgspec.json.encode(OperatorFileContents(entries))
    return b"".join([_HEAD.pack(MAGIC, len(contents), zlib.crc32(contents)), contents, *streams])


def state_table(state: SealedOperatorState) -> pa.Table:
    """The elements of a state as rows."""
    schema = schema_of(state.info)
    return pa.Table.from_batches(_state_batches(state, schema), schema)


def _encode_state(state: SealedOperatorState, options: Any) -> bytes:
    schema = schema_of(state.info)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in _state_batches(state, schema):
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _state_batches(state: SealedOperatorState, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    content = state.content
    if isinstance(content, pa.Table):
        yield from content.to_batches()
        return
    keys = list(content) if isinstance(content, dict) else None
    values = list(content.values()) if isinstance(content, dict) else content
    for start in range(0, len(values), BATCH_ROWS):
        part = None if keys is None else keys[start : start + BATCH_ROWS]
        yield from _batches(state.info, schema, part, values[start : start + BATCH_ROWS])


def _batches(
    info: OperatorStateInfo, schema: pa.Schema, keys: list[Any] | None, values: list[Any]
) -> Iterator[pa.RecordBatch]:
    try:
        columns = [] if keys is None else [_encode_keys(info, keys)]
        columns.append(encode_column(values, parse_type(info.value_type)))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    except (UnsupportedValueError, pa.ArrowInvalid, pa.ArrowTypeError):
        # Values were checked when they were written, so this is a column over 2 GiB.
        if len(values) == 1:
            raise
        half = len(values) // 2
        for part in (slice(None, half), slice(half, None)):
            yield from _batches(info, schema, None if keys is None else keys[part], values[part])
    else:
        yield batch


def _encode_keys(info: OperatorStateInfo, keys: list[Any]) -> pa.Array:
    if info.map_key_type is None:
        return pa.array(keys, pa.int32())
    return map_keys_of(parse_type(info.map_key_type)).encode(keys)


def read_operator_states(data: bytes, *, path: str = "operator state file") -> dict[tuple[str, str, str], pa.Table]:
    """The states of a file by operator uid, mode and name. Raises CheckpointCorruptError if the file is damaged."""
    if data[: len(MAGIC)] != MAGIC or len(data) < _HEAD.size:
        raise CheckpointCorruptError(path, f"a file that starts with {MAGIC!r}", repr(bytes(data[: len(MAGIC)])))
    _, size, crc32 = _HEAD.unpack_from(data)
    start = _HEAD.size + size
    text = data[_HEAD.size : start]
    if size > MAX_CONTENTS_BYTES or len(text) != size or zlib.crc32(text) != crc32:
        raise CheckpointCorruptError(path, f"a table of contents of {size} bytes with crc32 {crc32}", "another one")
    try:
        entries = msgspec.json.decode(text, type=OperatorFileContents).states
    except msgspec.MsgspecError as error:
        raise CheckpointCorruptError(path, "a table of contents", str(error)) from error
    found: dict[tuple[str, str, str], pa.Table] = {}
    position = start
    for entry in entries:
        state = entry.info
        if start + entry.offset != position or entry.size < 0 or state.mode not in MODES:
            raise CheckpointCorruptError(path, f"a state of a known mode at byte {position - start}", repr(entry))
        found[state.operator_uid, state.mode, state.name] = _read_state(data, position, entry, path)
        position += entry.size
    if position != len(data) or len(found) != len(entries):
        raise CheckpointCorruptError(path, f"{position} bytes, every state once", f"{len(data)} bytes")
    return found


def _read_state(data: bytes, begin: int, entry: Entry, path: str) -> pa.Table:
    stream = memoryview(data)[begin : begin + entry.size]
    where = f"{path} (state {entry.info.name!r} of operator {entry.info.operator_uid!r})"
    if zlib.crc32(stream) != entry.crc32:
        raise CheckpointCorruptError(where, f"crc32 {entry.crc32}", str(zlib.crc32(stream)))
    try:
        schema = schema_of(entry.info)
        table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, PenstockError) as error:
        raise CheckpointCorruptError(where, "a readable table", f"{type(error).__name__}: {error}") from error
    if not table.schema.equals(schema) or len(table) != entry.info.count:
        raise CheckpointCorruptError(
            where, f"{entry.info.count} rows of {schema.types}", f"{len(table)} rows of {table.schema.types}"
        )
    return table
