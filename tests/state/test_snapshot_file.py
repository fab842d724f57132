"""The file of a subtask's state: what is in it, and that damage is an error, never a crash and never a pickle."""

import pickle
import random
import struct
import zlib
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.columns import encode_column
from penstock.codec.keys import KeyCodec
from penstock.errors import CheckpointCorruptError
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.snapshot import StateTableInfo
from penstock.model.types import TAGGED, Types
from penstock.state.format import snapshot_file, table_rows
from penstock.state.format.snapshot_file import (
    MAGIC,
    SnapshotFileContents,
    encode_files,
    encode_snapshot,
    read_chain,
    read_snapshot,
)
from tests.state.backends import MAX_PARALLELISM, at, encoded, epoch, hashmap_backend, seal, string_backend

ALL_GROUPS = (0, 15)
HEAD = struct.Struct("<8sII")


def filled(count: int = 20) -> Any:
    backend = string_backend()
    value = backend.table(ValueStateDescriptor("v", Types.DOUBLE()))
    elements = backend.table(ListStateDescriptor("l", Types.LONG()))
    entries = backend.table(MapStateDescriptor("m", Types.STRING(), None))
    with epoch(backend):
        for number in range(count):
            at(backend, f"k{number}")
            value.update(number)
            elements.update([number, number])
            entries.put_all({"x": number, "y": None})
    return backend


SAMPLE = encoded(filled())


def tables_of(data: bytes) -> dict[str, pa.Table]:
    return {info.name: table for info, table in read_snapshot(data, ALL_GROUPS, 16)}


def test_the_file_starts_with_magic_and_a_json_table_of_contents() -> None:
    magic, size, crc32 = HEAD.unpack_from(SAMPLE)
    text = SAMPLE[HEAD.size : HEAD.size + size]
    assert magic == MAGIC == b"PNSTATE1" and zlib.crc32(text) == crc32
    contents = msgspec.json.decode(text)
    assert [(table["info"]["name"], table["info"]["kind"], table["row_count"]) for table in contents["tables"]] == [
        ("v", "value", 20), ("l", "list", 20), ("m", "map", 40),
    ]  # fmt: skip
    assert contents["tables"][2]["info"] == {
        "operator_uid": "op",
        "name": "m",
        "kind": "map",
        "key_types": ["STRING"],
        "value_type": "TAGGED",
        "map_key_type": "STRING",
        "ttl": False,
    }


def test_tables_are_typed_columns_sorted_by_key_group_with_sparks_hash() -> None:
    table = tables_of(SAMPLE)["m"]
    assert [(field.name, field.type) for field in table.schema] == [
        ("key_hash", pa.int32()),
        ("_key_0", pa.string()),
        ("map_key", pa.string()),
        ("value", pa.binary()),
        ("deleted", pa.bool_()),
    ]
    codec = KeyCodec((Types.STRING(),))
    assert table["key_hash"].to_pylist() == [codec.hash(key) for key in table["_key_0"].to_pylist()]
    groups = [value % 16 for value in table["key_hash"].to_pylist()]
    assert groups == sorted(groups) and set(table["deleted"].to_pylist()) == {False}


def test_key_group_ranges_split_the_rows() -> None:
    parts = [dict(zip(t["_key_0"].to_pylist(), t["value"].to_pylist(), strict=True))
             for first, last in ((0, 4), (5, 9), (10, 15))
             for info, t in read_snapshot(SAMPLE, (first, last), 16) if info.name == "v"]  # fmt: skip
    assert sum(map(len, parts)) == 20 and {**parts[0], **parts[1], **parts[2]} == {f"k{n}": float(n) for n in range(20)}


def test_a_changed_max_parallelism_splits_by_the_stored_hash() -> None:
    codec = KeyCodec((Types.STRING(),))
    for first, last in ((0, 99), (100, 127)):
        table = next(table for info, table in read_snapshot(SAMPLE, (first, last), 128) if info.name == "v")
        assert all(first <= codec.hash(key) % 128 <= last for key in table["_key_0"].to_pylist())


def test_equal_state_gives_equal_bytes() -> None:
    assert encoded(filled()) == SAMPLE


def test_a_backend_without_rows_or_tables_has_a_file_too() -> None:
    backend = string_backend()
    assert list(read_snapshot(encode_snapshot([seal(backend, 1)]), ALL_GROUPS, 16)) == []
    assert encode_snapshot([]).startswith(MAGIC)
    backend.table(ValueStateDescriptor("v", Types.LONG()))
    ((info, table),) = read_snapshot(encoded(backend), ALL_GROUPS, 16)
    assert info.name == "v" and len(table) == 0 and table.schema == table_rows.schema_of(info)


def test_large_tables_are_written_in_batches_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "BATCH_ROWS", 3)
    monkeypatch.setattr(table_rows, "BATCH_ELEMENTS", 5)
    monkeypatch.setattr(snapshot_file, "FILE_BYTES", 100)
    files = list(encode_files([seal(filled(), 1, full=True)]))
    assert len(files) > len(tables_of(SAMPLE))
    found: dict[str, list[str]] = {}
    for info, table in read_chain([partial(bytes, file) for file in files], ALL_GROUPS, MAX_PARALLELISM):
        found.setdefault(info.name, []).extend(map(str, table.to_pylist()))
    for name, table in tables_of(SAMPLE).items():
        assert sorted(found[name]) == sorted(map(str, table.to_pylist()))


def test_a_batch_over_the_limit_of_arrow_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = encode_column

    def small(values: list[Any], type_info: Any) -> pa.Array:
        if len(values) > 3:
            raise pa.ArrowInvalid("over 2 GiB")
        return encode(values, type_info)

    monkeypatch.setattr(table_rows, "encode_column", small)
    assert sum(len(table) for table in tables_of(encoded(filled())).values()) == 80


def test_a_single_value_that_cannot_be_encoded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(values: list[Any], type_info: Any) -> pa.Array:
        raise pa.ArrowInvalid("over 2 GiB")

    monkeypatch.setattr(table_rows, "encode_column", none)
    with pytest.raises(pa.ArrowInvalid):
        encoded(filled())


def test_a_full_table_in_a_chain_replaces_what_is_before_it() -> None:
    backend = filled()
    first = encode_snapshot([seal(backend, 1)])
    value = backend.handle("v")
    with epoch(backend):
        for number in range(20):
            at(backend, f"k{number}")
            if number:
                value.clear()
            else:
                value.update(7.5)
    sealed = seal(backend, 2, 1)
    assert {table.info.name: table.full for table in sealed.tables} == {"v": True, "l": False, "m": False}
    found = list(read_chain([first, encode_snapshot([sealed])], ALL_GROUPS, 16))
    assert [(info.name, len(table)) for info, table in found] == [("l", 20), ("m", 40), ("v", 1), ("l", 0), ("m", 0)]


FOREIGN = [
    b"",
    b"P",
    b"PNSTATE",
    b"PNSTATE2" + SAMPLE[8:],
    MAGIC,
    MAGIC + b"\0" * 7,
    pickle.dumps({"a": 1}),
    b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    b"PK\x03\x04" + b"\0" * 100,
    b"PAR1" + b"\0" * 100,
    b"\x1f\x8b" + b"\0" * 100,
    MAGIC + struct.pack("<II", 2**32 - 1, 0) + b"{}",
    MAGIC + struct.pack("<II", 2, zlib.crc32(b"{}")) + b"{}",
    MAGIC + struct.pack("<II", 1, zlib.crc32(b"[")) + b"[",
    SAMPLE + b"\0",
    SAMPLE[:-1],
]


@pytest.mark.parametrize("data", FOREIGN, ids=range(len(FOREIGN)))
def test_foreign_bytes_are_a_corrupt_checkpoint(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError, match="chk-1/x"):
        list(read_snapshot(data, ALL_GROUPS, 16, path="chk-1/x"))


def test_every_truncation_is_a_corrupt_checkpoint() -> None:
    for length in range(0, len(SAMPLE), 7):
        with pytest.raises(CheckpointCorruptError):
            list(read_snapshot(SAMPLE[:length], ALL_GROUPS, 16))


def test_every_flipped_bit_is_a_corrupt_checkpoint() -> None:
    rng = random.Random(3)
    for position in range(len(SAMPLE)):
        damaged = bytearray(SAMPLE)
        damaged[position] ^= 1 << rng.randrange(8)
        with pytest.raises(CheckpointCorruptError):
            list(read_snapshot(bytes(damaged), ALL_GROUPS, 16))


@given(st.binary(max_size=200))
def test_random_bytes_are_a_corrupt_checkpoint(noise: bytes) -> None:
    for data in (noise, MAGIC + noise, HEAD.pack(MAGIC, len(noise), zlib.crc32(noise)) + noise):
        with pytest.raises(CheckpointCorruptError):
            list(read_snapshot(data, ALL_GROUPS, 16))


def resealed(**changes: Any) -> bytes:
    """The sample with a changed first entry in the table of contents and a right checksum over it."""
    _, size, _ = HEAD.unpack_from(SAMPLE)
    contents = msgspec.json.decode(SAMPLE[HEAD.size : HEAD.size + size], type=SnapshotFileContents)
    entry = contents.tables[0]
    info_changes = {name: changes.pop(name) for name in list(changes) if name in StateTableInfo.__struct_fields__}
    entry = msgspec.structs.replace(entry, info=msgspec.structs.replace(entry.info, **info_changes), **changes)
    text = msgspec.json.encode(SnapshotFileContents([entry, *contents.tables[1:]]))
    return HEAD.pack(MAGIC, len(text), zlib.crc32(text)) + text + SAMPLE[HEAD.size + size :]


def test_a_resealed_file_is_read_when_nothing_is_changed() -> None:
    assert resealed() == SAMPLE


@pytest.mark.parametrize(
    "changes",
    [
        {"row_count": 19},
        {"row_count": -1},
        {"offset": 1},
        {"offset": -1},
        {"size": -5},
        {"size": 10**12},
        {"kind": "pickle"},
        {"name": "l"},
        {"value_type": "LONG"},
        {"value_type": "NO_SUCH_TYPE"},
        {"value_type": "LIST<" * 1000},
        {"key_types": ["LONG"]},
        {"key_types": []},
        {"key_types": ["PICKLE"]},
        {"map_key_type": "STRING"},
    ],
    ids=str,
)
def test_a_table_of_contents_that_does_not_match_is_a_corrupt_checkpoint(changes: dict[str, Any]) -> None:
    with pytest.raises(CheckpointCorruptError):
        list(read_snapshot(resealed(**changes), ALL_GROUPS, 16))


def with_stream(table: pa.Table) -> bytes:
    """The sample with another Arrow stream for its first table, and right checksums."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    _, size, _ = HEAD.unpack_from(SAMPLE)
    contents = msgspec.json.decode(SAMPLE[HEAD.size : HEAD.size + size], type=SnapshotFileContents)
    first = msgspec.structs.replace(
        contents.tables[0], size=len(stream), crc32=zlib.crc32(stream), row_count=len(table)
    )
    text = msgspec.json.encode(SnapshotFileContents([first]))
    return HEAD.pack(MAGIC, len(text), zlib.crc32(text)) + text + stream


def test_a_null_key_hash_is_a_corrupt_checkpoint() -> None:
    table = tables_of(SAMPLE)["v"]
    assert len(tables_of(with_stream(table))["v"]) == 20
    nulls = pa.array([None] * 20, type=pa.int32())
    broken = pa.Table.from_arrays([nulls, *table.columns[1:]], schema=table.schema)
    with pytest.raises(CheckpointCorruptError):
        list(read_snapshot(with_stream(broken), ALL_GROUPS, 16))


def test_text_that_is_no_utf8_is_a_corrupt_checkpoint() -> None:
    table = tables_of(SAMPLE)["v"]
    bad = pa.Array.from_buffers(
        pa.string(), 20, [None, pa.py_buffer(np.arange(21, dtype=np.int32)), pa.py_buffer(b"\xff" * 20)]
    )
    broken = pa.Table.from_arrays([table.columns[0], bad, *table.columns[2:]], schema=table.schema)
    with pytest.raises(CheckpointCorruptError, match="ArrowInvalid"):
        list(read_snapshot(with_stream(broken), ALL_GROUPS, 16))


def test_untyped_keys_keep_their_bytes() -> None:
    backend = hashmap_backend(TAGGED, Types.LONG())
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    keys = [((1, "x"), 1), (True, 1), (1, 1), ("ü", 2)]
    with epoch(backend):
        for number, key in enumerate(keys):
            at(backend, key)
            state.update(number)
    ((info, table),) = read_snapshot(encoded(backend), ALL_GROUPS, 16)
    other = hashmap_backend(TAGGED, Types.LONG())
    other.restore(info, table)
    state = other.table(ValueStateDescriptor("v", Types.LONG()))
    for number, key in enumerate(keys):
        at(other, key)
        assert state.value() == number


def test_e1_a_restore_decodes_only_the_batches_of_its_key_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "INDEXED_ROWS", 20)
    backend = many_keys()
    data = encoded(backend)
    (entry,) = contents_of(data).tables
    assert len(entry.batches) > 5 and entry.max_parallelism == 16
    assert [first for first, _ in entry.batches] == sorted({first for first, _ in entry.batches})
    assert all(last < first for (_, last), (first, _) in pairwise(entry.batches))  # no key group is in two
    decoded: list[int] = []
    read = pa.ipc.read_record_batch

    def counting(message: Any, schema: Any) -> Any:
        batch = read(message, schema)
        decoded.append(len(batch))
        return batch

    monkeypatch.setattr(pa.ipc, "read_record_batch", counting)
    parts = [table for first in range(0, 16, 4) for _, table in read_snapshot(data, (first, first + 3), 16)]
    assert sum(map(len, parts)) == entry.row_count
    assert sorted(value for table in parts for value in table["value"].to_pylist()) == list(range(300))
    assert sum(decoded) < 2 * entry.row_count  # a batch at a border is decoded on both sides of it


def test_e7_another_number_of_key_groups_reads_everything_and_splits_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "INDEXED_ROWS", 20)
    data = encoded(many_keys())
    ranges = [(0, 9), (10, 29), (30, 36)]
    parts = [len(table) for key_groups in ranges for _, table in read_snapshot(data, key_groups, 37)]
    assert sum(parts) == 300 and all(parts)


@pytest.mark.parametrize("batches", [[(0, 3), (4, 15)], [(0, 0)] * 40 + [(1, 15)]])
def test_an_index_that_does_not_match_the_stream_loses_no_row_in_silence(
    batches: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_file, "INDEXED_ROWS", 20)
    data = encoded(many_keys())
    contents = contents_of(data)
    changed = msgspec.json.encode(SnapshotFileContents([msgspec.structs.replace(contents.tables[0], batches=batches)]))
    start = HEAD.size + HEAD.unpack_from(data)[1]
    broken = HEAD.pack(MAGIC, len(changed), zlib.crc32(changed)) + changed + data[start:]
    with pytest.raises(CheckpointCorruptError):
        list(read_snapshot(broken, (0, 0), 16))


def contents_of(data: bytes) -> SnapshotFileContents:
    size = HEAD.unpack_from(data)[1]
    return msgspec.json.decode(data[HEAD.size : HEAD.size + size], type=SnapshotFileContents)


def many_keys() -> Any:
    backend = string_backend()
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        for number in range(300):
            at(backend, f"key {number}")
            state.update(number)
    return backend
