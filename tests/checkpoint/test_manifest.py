"""Bytes of a manifest, what is refused, and the files it lists."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.snapshot.manifest import (
    MAX_MANIFEST_BYTES,
    decode_manifest,
    digest,
    encode_manifest,
    file_paths,
    load_manifest,
    problem_of_ranges,
    verify_file,
    verify_sizes,
)
from penstock.errors import CheckpointCorruptError, CheckpointError, CheckpointMissingError, StorageError
from penstock.model.ids import Version
from penstock.model.snapshot import StateFile
from penstock.storage import Fault, MemoryStorage
from tests.checkpoint.logs import Script, complete_of
from tests.checkpoint.manifests import committable, file_of, inline_file, manifest, snapshot

GOOD = encode_manifest(manifest())


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(GOOD), **changes}).encode()


def test_m3_a_manifest_is_read_back_as_it_was_written() -> None:
    assert decode_manifest(GOOD, "p") == manifest()
    assert decode_manifest(GOOD, "p", sha256=digest(GOOD)) == manifest()
    assert GOOD.startswith(b'{"magic":"penstock-checkpoint","format_version":1,')


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x80\x04.", b"[]", b"null", b"{}", b"\xff\xfe"]
)
def test_m3_b_m01_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError):
        decode_manifest(data, "p")


@pytest.mark.parametrize("version", [0, -1, 2, 2**31])
def test_b_m03_another_version_is_refused_and_both_are_named(version: int) -> None:
    with pytest.raises(CheckpointError, match=f"version {version}, this release reads version 1"):
        decode_manifest(changed(format_version=version), "p")


def test_b_m04_truncated_extended_doubled_and_unknown_is_corrupt() -> None:
    doubled = GOOD.replace(b'{"magic"', b'{"epoch":4,"magic"', 1)
    for data in (*(GOOD[:length] for length in range(len(GOOD))), GOOD + b"x", GOOD + GOOD, doubled, changed(extra=1)):
        with pytest.raises(CheckpointCorruptError):
            decode_manifest(data, "p")


def test_b_m04_any_changed_byte_is_found_by_the_logs_sha256() -> None:
    for position in range(len(GOOD)):
        data = GOOD[:position] + bytes([GOOD[position] ^ 1]) + GOOD[position + 1 :]
        with pytest.raises(CheckpointCorruptError, match="sha256"):
            decode_manifest(data, "p", sha256=digest(GOOD))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "s3://b/x", "", "a\\b"])
def test_b_m05_files_outside_the_folder_are_refused(path: str) -> None:
    outside = manifest(subtasks=[snapshot(0, (0, 7), file_of(path))])
    with pytest.raises(CheckpointCorruptError, match="files in the job's folder"):
        decode_manifest(msgspec.json.encode(outside), "p")
    with pytest.raises(CheckpointError):
        encode_manifest(outside)


@pytest.mark.parametrize(
    "file",
    [
        StateFile("shared/x", -1, "0" * 64),
        StateFile("shared/x", 1 << 60, "0" * 64),
        StateFile("shared/x", 1, "0" * 63),
        StateFile("shared/x", 1, "G" * 64),
        StateFile("shared/x", 1, ""),
        StateFile("", 3, "0" * 64, b"four"),
    ],
)
def test_b_m06_impossible_sizes_and_hashes_are_refused(file: StateFile) -> None:
    with pytest.raises(CheckpointCorruptError):
        decode_manifest(msgspec.json.encode(manifest(subtasks=[snapshot(0, (0, 7), file)])), "p")


@pytest.mark.parametrize(
    "ranges", [[(0, 3), (3, 7)], [(0, 3), (5, 7)], [(0, 6)], [(0, 8)], [(1, 7)], [(4, 3), (4, 7)], [(-1, 7)]]
)
def test_b_m07_key_groups_with_gap_or_overlap_are_refused(ranges: list[tuple[int, int]]) -> None:
    subtasks = [snapshot(index, key_groups) for index, key_groups in enumerate(ranges)]
    with pytest.raises(CheckpointCorruptError, match="key groups"):
        decode_manifest(msgspec.json.encode(manifest(subtasks=subtasks)), "p")


def test_b_m08_two_parts_for_one_subtask_are_refused() -> None:
    one = snapshot(0, (0, 7), file_of("shared/x"))
    twice = snapshot(0, (0, 7), file_of("shared/x"), file_of("shared/x"))
    for subtasks in ([one, one], [twice]):
        with pytest.raises(CheckpointCorruptError):
            decode_manifest(msgspec.json.encode(manifest(subtasks=subtasks)), "p")


def test_b_m09_numbers_that_go_back_are_refused() -> None:
    late = msgspec.structs.replace(snapshot(0, (0, 7)), version=Version(2, 5, "n"))
    for changes in (
        {"parent": 7},
        {"parent": 8},
        {"parent": -1},
        {"epoch": -1},
        {"checkpoint_id": -1, "parent": None},
        {"attempt": 0},
        {"max_parallelism": 0, "subtasks": []},
        {"subtasks": [late]},
        {"committables": [committable("t"), committable("t", epoch=3)]},
    ):
        with pytest.raises(CheckpointCorruptError):
            decode_manifest(msgspec.json.encode(manifest(**changes)), "p")


def test_b_m10_what_is_too_large_or_too_deep_is_refused() -> None:
    deep = b'{"magic":' + b"[" * 100_000
    for data in (b" " * (MAX_MANIFEST_BYTES + 1), deep, b"[" * 100_000, changed(epoch=10**400)):
        with pytest.raises(CheckpointCorruptError):
            decode_manifest(data, "p")


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=8), st.integers(0, 8))
def test_a_mutated_manifest_is_a_manifest_or_an_error_of_ours(position: int, patch: bytes, removed: int) -> None:
    data = GOOD[:position] + patch + GOOD[position + removed :]
    try:
        decode_manifest(data, "p")
    except CheckpointError:
        pass


def test_the_files_of_a_manifest_are_those_that_are_not_inline() -> None:
    assert file_paths(manifest()) == {"shared/2-7-s0-0-aa", "shared/1-6-s0-1-bb", "chk-7/2-source-cc"}


def test_a_file_is_read_only_if_size_and_hash_are_right() -> None:
    storage = MemoryStorage()
    storage.put_new("a", b"state")
    assert verify_file(storage, file_of("a")) == b"state"
    assert verify_file(storage, inline_file(b"x")) == b"x"
    for file in (file_of("a", b"State"), file_of("a", b"stat"), StateFile("", 1, "0" * 64, b"x")):
        with pytest.raises(CheckpointCorruptError):
            verify_file(storage, file)
    with pytest.raises(CheckpointMissingError, match="'b'"):
        verify_file(storage, file_of("b"))


def test_sizes_are_verified_without_reading() -> None:
    storage = MemoryStorage()
    whole = manifest()
    for path, data in (
        ("shared/2-7-s0-0-aa", b"wrong"),
        ("shared/1-6-s0-1-bb", b"state"),
        ("chk-7/2-source-cc", b"offsets"),
    ):
        storage.put_new(path, data)
    verify_sizes(storage, whole)
    storage.files["chk-7/2-source-cc"] = b"offset"
    with pytest.raises(CheckpointCorruptError, match="source-cc"):
        verify_sizes(storage, whole)
    del storage.files["chk-7/2-source-cc"]
    with pytest.raises(CheckpointMissingError, match="source-cc"):
        verify_sizes(storage, whole)


def test_loading_tells_missing_from_damaged_from_no_answer() -> None:
    script = Script()
    storage = MemoryStorage(script)
    complete = msgspec.structs.replace(complete_of(7, epoch=4), metadata_sha256=digest(GOOD))
    with pytest.raises(CheckpointMissingError):
        load_manifest(storage, complete)
    storage.put_new("chk-7/_metadata", GOOD)
    assert load_manifest(storage, complete) == manifest()
    script.add("read", "chk-7", Fault.FAIL)
    with pytest.raises(StorageError):
        load_manifest(storage, complete)
    with pytest.raises(CheckpointCorruptError):
        load_manifest(storage, msgspec.structs.replace(complete, metadata_sha256="0" * 64))
    with pytest.raises(CheckpointCorruptError, match="checkpoint 8"):
        load_manifest(storage, msgspec.structs.replace(complete, checkpoint=8))


def test_a_manifest_over_the_limit_is_not_written() -> None:
    large = inline_file(b"x" * MAX_MANIFEST_BYTES)
    with pytest.raises(CheckpointError, match="limit"):
        encode_manifest(manifest(subtasks=[snapshot(0, (0, 7), large)]))


@given(st.integers(1, 40), st.integers(1, 16))
def test_ranges_that_cover_everything_once_have_no_problem(max_parallelism: int, parallelism: int) -> None:
    edges = sorted({0, max_parallelism, *(k * max_parallelism // parallelism for k in range(parallelism))})
    ranges = [(first, after - 1) for first, after in zip(edges, edges[1:], strict=False)]
    assert problem_of_ranges(ranges, max_parallelism) is None
    assert problem_of_ranges(ranges[1:], max_parallelism) is not None
    assert problem_of_ranges([*ranges, ranges[0]], max_parallelism) is not None
