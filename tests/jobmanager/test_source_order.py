"""Positions of sources by uid: what Spark finds by index moves with its source."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot
from penstock.errors import CheckpointCorruptError, CheckpointError, SnapshotRefusedError
from penstock.jobmanager.attempt.attempt import Origin
from penstock.jobmanager.attempt.source_tracker import SourceTracker
from penstock.model.snapshot import SourcePosition
from penstock.spark import offset_log
from penstock.storage.memory import MemoryStorage
from tests.checkpoint.manifests import inline_file, manifest

HEAD = 'v1\n{"batchWatermarkMs":0}\n'


def offsets_of(*offsets: str) -> str:
    """The file of a batch; `-` for a source without an offset."""
    return HEAD + "\n".join("-" if offset == "-" else json.dumps(offset) for offset in offsets)


def position(*offsets: str) -> bytes:
    """The position of sources with these offsets after batch 4, each with a log of its own."""
    files = {"metadata": b'{"id":"old"}'}
    for batch in (3, 4):
        files[f"offsets/{batch}"] = offsets_of(*(f"{offset}{batch}" for offset in offsets)).encode()
    for index, offset in enumerate(offsets):
        files[f"sources/{index}/0"] = f"log of {offset}".encode()
    return offset_log._pack(files)


def built(folder: Path, data: bytes | None, batch_id: int = 4) -> dict[str, str]:
    offset_log.build(folder / "offsets", data, batch_id, new_query_id=True)
    files = [path for path in (folder / "offsets").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder / "offsets")): path.read_text() for path in files}


def test_sources_in_another_order_keep_their_positions(tmp_path: Path) -> None:
    arranged = offset_log.arrange(position("a", "b", "c"), ["A", "B", "C"], ["C", "A", "B"])
    files = built(tmp_path, arranged)
    assert files["offsets/4"] == offsets_of("c4", "a4", "b4")
    assert files["offsets/3"] == offsets_of("c3", "a3", "b3")
    assert [files[f"sources/{index}/0"] for index in range(3)] == ["log of c", "log of a", "log of b"]


def test_a_new_source_begins_at_its_initial_offset(tmp_path: Path) -> None:
    arranged = offset_log.arrange(position("a", "b"), ["A", "B"], ["B", "new", "A"])
    files = built(tmp_path, arranged)
    assert files["offsets/4"] == offsets_of("b4", "-", "a4")
    assert "sources/1/0" not in files and files["sources/2/0"] == "log of a"


def test_a_source_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    files = built(tmp_path, offset_log.arrange(position("a", "b"), ["A", "B"], ["B"]))
    assert files["offsets/4"] == offsets_of("b4")
    assert files["sources/0/0"] == "log of b" and "sources/1/0" not in files


def test_without_any_of_the_old_sources_the_query_begins_anew() -> None:
    assert offset_log.arrange(position("a"), ["A"], ["new"]) is None


def test_the_same_sources_and_positions_without_names_stay_as_they_are() -> None:
    data = position("a", "b")
    assert offset_log.arrange(data, ["A", "B"], ["A", "B"]) == data == offset_log.arrange(data, [], ["A"])


def test_a_fork_is_another_query(tmp_path: Path) -> None:
    files = built(tmp_path, position("a"))
    assert json.loads(files["metadata"])["id"] != "old"
    assert set(files) >= {"commits/3", "commits/4"}


def test_a_source_that_reads_several_streams_cannot_be_moved() -> None:
    with pytest.raises(SnapshotRefusedError, match="3 positions for 2 sources"):
        offset_log.arrange(position("a", "b", "c"), ["A", "B"], ["B", "A"])


@pytest.mark.parametrize("name", ["../x", "/etc/x", "offsets/../../x", "commits/1", "sources\\..\\x"])
def test_bm05_a_position_with_files_that_lead_out_is_refused(tmp_path: Path, name: str) -> None:
    bad = offset_log._pack({"metadata": b"{}", name: b"x"})
    with pytest.raises(CheckpointCorruptError, match="PATH_OUTSIDE_ROOT"):
        offset_log.build(tmp_path / "offsets", bad, 0)
    assert not (tmp_path / "x").exists()


def test_bm04_a_position_with_offsets_that_are_none_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate((HEAD + "{", HEAD + "[" * 100_000, "v2\n{}\n{}", "")):
        bad = offset_log._pack({"metadata": b"{}", "offsets/0": text.encode()})
        with pytest.raises(CheckpointError):
            offset_log.build(tmp_path / str(number), bad, 0)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x80\x04\x95", position("a")[:-30]])
def test_bm04_a_position_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError, match="source position"):
        offset_log.build(tmp_path / "offsets", data, 0)


def test_the_next_checkpoint_holds_the_position_in_the_new_order(tmp_path: Path) -> None:
    saved = SourcePosition(4, inline_file(position("a", "b")), ["A", "B"])
    tracker = SourceTracker(tmp_path / "offsets", None, Origin(manifest(sources=saved)), ["B", "new", "A"])
    tracker.restore()
    found = tracker.position(9, 1)
    assert found.source_uids == ["B", "new", "A"] and found.file is not None and found.file.inline is not None
    assert offset_log._unpack(found.file.inline)["offsets/4"].decode() == offsets_of("b4", "-", "a4")


def test_a_job_that_goes_on_keeps_its_query_and_a_fork_gets_another(tmp_path: Path) -> None:
    whole = manifest(sources=SourcePosition(4, inline_file(position("a")), ["A"]))
    elsewhere = OpenSnapshot("/savepoint", MemoryStorage(), "_metadata", whole, "")
    for snapshot, is_same in ((None, True), (elsewhere, False)):
        folder = tmp_path / str(is_same)
        SourceTracker(folder, None, Origin(whole, snapshot), ["A"]).restore()
        assert (json.loads((folder / "metadata").read_text())["id"] == "old") is is_same


def test_bm10_a_position_that_expands_beyond_what_it_says_is_refused() -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("metadata", bytes(1 << 20), compress_type=zipfile.ZIP_LZMA)
    with pytest.raises(CheckpointCorruptError, match="deflated"):
        offset_log.arrange(sink.getvalue(), ["a"], ["b"])
