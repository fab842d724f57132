"""Bad manifests, by the rows of the catalogue: each has its code and names the file (reliability B-M01 to B-M11)."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.checkpoint.snapshot.manifest import (
    MAX_MANIFEST_BYTES,
    MAX_OBJECTS,
    decode_manifest,
    digest,
    encode_manifest,
    read_metadata,
    verify_file,
    verify_sizes,
)
from penstock.errors import CheckpointError
from penstock.model.ids import Version
from penstock.model.snapshot import NativeName, OperatorStateInfo, StateFile
from penstock.storage.local import LocalStorage
from tests.checkpoint.manifests import file_of, manifest, snapshot, table

GOOD = encode_manifest(manifest())
PATH = "chk-7/_metadata"


def code_of(data: bytes, sha256: str | None = None) -> str:
    with pytest.raises(CheckpointError, match=PATH) as caught:
        decode_manifest(data, PATH, sha256=sha256)
    assert caught.value.code in str(caught.value)
    assert caught.value.exit_code == 5
    return caught.value.code


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(GOOD), **changes}).encode()


def encoded(**changes: Any) -> bytes:
    return msgspec.json.encode(manifest(**changes))


@pytest.mark.parametrize(
    "data",
    [b"", b"x", bytes(range(256)), b"\x1f\x8b\x08", b"PK\x03\x04", b"\x80\x04.", b"\x89PNG\r\n", b"{}", b"[" * 100_000],
)
def test_bm01_what_is_no_manifest(data: bytes) -> None:
    assert code_of(data) == "NOT_A_MANIFEST"


@pytest.mark.parametrize("version", [0, -1, 2, 2**31])
def test_bm03_versions_that_this_release_does_not_read(version: int) -> None:
    assert code_of(changed(format_version=version)) == f"UNSUPPORTED_VERSION have={version} max=1"


def test_bm04_truncated_extended_doubled_or_with_another_checksum() -> None:
    doubled = GOOD.replace(b'"job_id"', b'"epoch":4,"job_id"', 1)
    for data in (GOOD[:-1], GOOD[:60], GOOD + b"x", GOOD + GOOD, doubled, changed(unknown=1)):
        assert code_of(data) == "CORRUPT_MANIFEST"
    assert code_of(GOOD, sha256=digest(GOOD + b" ")) == "CORRUPT_MANIFEST"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "s3://b/x", "file:/x", "a\\b"])
def test_bm05_paths_that_lead_out(path: str) -> None:
    assert code_of(encoded(subtasks=[snapshot(0, (0, 7), file_of(path))])) == "PATH_OUTSIDE_ROOT"


@pytest.mark.parametrize("link", ["file", "folder"])
def test_bm05_links_that_lead_out_are_not_followed(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"state")
    root = tmp_path / "root"
    storage = LocalStorage(root)
    if link == "folder":
        (root / "shared").symlink_to(outside)
    else:
        (root / "shared").mkdir()
        (root / "shared" / "x").symlink_to(outside / "x")
    file = file_of("shared/x")
    sources = msgspec.structs.replace(manifest().sources, file=None)
    whole = manifest(subtasks=[snapshot(0, (0, 7), file)], sources=sources)
    for read in (lambda: verify_file(storage, file), lambda: verify_sizes(storage, whole)):
        with pytest.raises(CheckpointError, match="shared/x") as caught:
            read()
        assert caught.value.code == "PATH_OUTSIDE_ROOT"


@pytest.mark.parametrize(
    "file",
    [
        StateFile("shared/x", -1, "0" * 64),
        StateFile("shared/x", 1 << 60, "0" * 64),
        StateFile("shared/x", 1, "0" * 63),
        StateFile("shared/x", 1, "md5:" + "0" * 60),
        StateFile("shared/x", 1, ""),
    ],
)
def test_bm06_impossible_sizes_and_hashes(file: StateFile) -> None:
    assert code_of(encoded(subtasks=[snapshot(0, (0, 7), file)])) == "CORRUPT_MANIFEST"


@pytest.mark.parametrize("ranges", [[(0, 3), (3, 7)], [(0, 3), (5, 7)], [(0, 6)], [(0, 8)], [(-1, 7)]])
def test_bm07_key_groups_with_a_gap_an_overlap_or_too_many(ranges: list[tuple[int, int]]) -> None:
    subtasks = [snapshot(index, key_groups) for index, key_groups in enumerate(ranges)]
    assert code_of(encoded(subtasks=subtasks)) == "BAD_KEY_GROUPS"


def test_bm08_a_state_that_is_there_twice() -> None:
    one = snapshot(0, (0, 7), file_of("shared/x"))
    other = snapshot(0, (0, 7), file_of("shared/x"), stage="s1")
    files = [file_of(f"shared/{n}").with_format(NativeName("op", "1.sst")) for n in "xy"]
    tables = msgspec.structs.replace(one, tables=[table(), table()])
    for subtasks in ([one, one], [one, other], [snapshot(0, (0, 7), *files)], [tables]):
        assert code_of(encoded(subtasks=subtasks)) == "DUPLICATE_STATE"


def test_bm09_numbers_that_go_back() -> None:
    late = msgspec.structs.replace(snapshot(0, (0, 7)), version=Version(2, 5, "n"))
    for changes in ({"parent": 7}, {"parent": 8}, {"parent": -1}, {"subtasks": [late]}):
        assert code_of(encoded(**changes)) == "BROKEN_CHAIN"


def test_bm10_too_large_too_many_too_deep() -> None:
    beginning = GOOD[:-1] + b',"x":'
    for data in (GOOD + b" " * MAX_MANIFEST_BYTES, beginning + b"[" * 100_000, beginning + b"{}," * (MAX_OBJECTS + 1)):
        assert code_of(data) == "LIMIT_EXCEEDED"


def test_bm10_a_manifest_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    with open(tmp_path / "_metadata", "wb") as file:
        file.truncate(1 << 40)  # a hole: reading it would need a terabyte
    with pytest.raises(CheckpointError, match="_metadata") as caught:
        read_metadata(storage, "_metadata")
    assert caught.value.code == "LIMIT_EXCEEDED"


def test_bm11_a_type_that_nobody_knows() -> None:
    for text in ("os.system", "PICKLE(os.system)", "LIST<" * 1000, "string"):
        info = msgspec.structs.replace(table(), value_type=text)
        subtask = msgspec.structs.replace(snapshot(0, (0, 7)), tables=[info])
        assert code_of(encoded(subtasks=[subtask])) == "UNKNOWN_SERIALIZER"


def test_bm11_a_kind_or_a_name_that_no_state_has() -> None:
    for changes in ({"kind": "module"}, {"name": "a\0b"}, {"operator_uid": "a\0b"}):
        subtask = msgspec.structs.replace(snapshot(0, (0, 7)), tables=[msgspec.structs.replace(table(), **changes)])
        assert code_of(encoded(subtasks=[subtask])) == "CORRUPT_MANIFEST"
    info = OperatorStateInfo("op", "state", "nobody", "LONG", None, 0)
    subtask = msgspec.structs.replace(snapshot(0, (0, 7)), operator_states=[info], operator_file=file_of("a"))
    assert code_of(encoded(subtasks=[subtask])) == "CORRUPT_MANIFEST"


def test_bm07_more_key_groups_than_there_can_be() -> None:
    subtask = snapshot(0, (0, 2**40 - 1))
    assert code_of(encoded(subtasks=[subtask], max_parallelism=2**40)) == "BAD_KEY_GROUPS"
