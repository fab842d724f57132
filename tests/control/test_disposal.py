"""`savepoint -d`: the manifest first, then the files, then the folder; nothing else (features N6)."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import encode_manifest
from penstock.checkpoint.snapshot.snapshot_location import open_snapshot
from penstock.cli.main import main
from penstock.clock import SystemClock
from penstock.common import Types
from penstock.control.disposal import dispose_savepoint
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import (
    CheckpointCorruptError,
    CheckpointError,
    JobConflictError,
    SnapshotNotFoundError,
    SnapshotRefusedError,
    StorageError,
)
from penstock.model.snapshot import InlineLimits, SourcePosition
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.memory_sink import MemorySink
from tests.checkpoint.manifests import file_of, manifest, snapshot


def put_savepoint(folder: Path) -> Path:
    files = ["state/op/total/s0-0-aa.parquet", "state/op/total/s0-1-bb.parquet"]
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"state")
    parts = [snapshot(0, (0, 3), file_of(files[0])), snapshot(1, (4, 7), file_of(files[1]))]
    kept = manifest(savepoint="canonical", committables=[], subtasks=parts, sources=SourcePosition(3, None, ["source"]))
    (folder / "_metadata").write_bytes(encode_manifest(kept))
    return folder


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/_metadata", "file://{}"])
def test_n6_a_savepoint_is_removed_and_others_stay(tmp_path: Path, form: str) -> None:
    mine = put_savepoint(tmp_path / "savepoint-aaaaaa-000000000001")
    other = put_savepoint(tmp_path / "savepoint-aaaaaa-000000000002")
    before = sorted(path.read_bytes() for path in other.rglob("*") if path.is_file())
    dispose_savepoint(form.format(mine))
    assert not mine.exists()
    assert sorted(path.read_bytes() for path in other.rglob("*") if path.is_file()) == before


def test_n6_the_manifest_is_removed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = put_savepoint(tmp_path / "sp")
    deleted: list[str] = []
    delete = LocalStorage.delete

    def noted(storage: LocalStorage, path: str) -> None:
        deleted.append(path)
        delete(storage, path)

    monkeypatch.setattr(LocalStorage, "delete", noted)
    dispose_savepoint(str(mine))
    assert deleted[0] == "_metadata" and len(deleted) == 3 and not mine.exists()


def test_n6_files_of_others_stay_and_so_does_the_folder(tmp_path: Path) -> None:
    mine = put_savepoint(tmp_path / "sp")
    (mine / "state" / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="other files"):
        dispose_savepoint(str(mine))
    assert [path.name for path in mine.rglob("*") if path.is_file()] == ["notes.txt"]


def test_n6_what_is_no_savepoint_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError, match="Cannot find checkpoint or savepoint file/directory"):
        dispose_savepoint(str(tmp_path / "absent"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("x")
    with pytest.raises(SnapshotNotFoundError, match="Cannot find meta data file '_metadata' in directory"):
        dispose_savepoint(str(tmp_path / "data"))
    with pytest.raises(SnapshotNotFoundError):
        dispose_savepoint(str(tmp_path / "data" / "x"))
    (tmp_path / "data" / "_metadata").write_bytes(b"\x80\x04\x95 pickled")
    with pytest.raises(CheckpointCorruptError):
        dispose_savepoint(str(tmp_path / "data"))
    assert (tmp_path / "data" / "x").exists() and not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("name", "code"), [("empty", 3), ("file", 3), ("loop", 3), ("absent", 3), ("ftp://host/x", 2), ("", 2)]
)
def test_n6_cli_c4_paths_without_a_savepoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, code: int
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    path = str(tmp_path / name) if name and "://" not in name else name
    assert main(["savepoint", "-d", path]) == code
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and "bug" not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "loop"]


def test_n6_a_folder_with_a_space_in_its_address(tmp_path: Path) -> None:
    mine = put_savepoint(tmp_path / "a b" / "sp")
    dispose_savepoint(f"file://{tmp_path}/a%20b/sp/")
    assert not mine.exists() and mine.parent.exists()


class Counts(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value() or 0


def job_with_checkpoints(folder: Path, status: Literal["failed", "cancelled", "suspended"] | None) -> LocalStorage:
    """A job with two checkpoints, of which the second builds on files of the first."""
    storage = LocalStorage(folder)
    many = [f"key {number}" for number in range(2000)]
    limits = InlineLimits(inline_bytes=0)
    harness = Harness.keyed(Counts(), key=str, storage=storage, retained=2, limits=limits)
    harness.feed([*many, CHECKPOINT, many[0], CHECKPOINT])
    if status is not None:
        end(storage, status)
    return storage


def end(storage: LocalStorage, status: Literal["failed", "cancelled", "suspended"]) -> None:
    log = JobLog.open(storage, SystemClock())
    claim = log.view().claim
    assert claim is not None
    log.claim(msgspec.structs.replace(claim, attempt=claim.attempt + 1), reopen=True)
    log.append(Status(status))


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_n6_a_checkpoint_of_a_job_that_has_ended_is_removed_and_others_stay(
    tmp_path: Path, status: Literal["failed", "cancelled"]
) -> None:
    storage = job_with_checkpoints(tmp_path, status)
    first, second = (complete.checkpoint for complete in read_log(storage).retained)
    before = {path for path in storage.list("") if path.startswith("shared/")}
    dispose_savepoint(str(tmp_path / f"chk-{first}"))
    view = read_log(storage)
    assert [complete.checkpoint for complete in view.retained] == [second]
    assert view.is_terminal and view.status is not None and view.status.status == status
    assert not (tmp_path / f"chk-{first}").exists()
    open_snapshot(str(tmp_path / f"chk-{second}"))  # checks that all its files are there
    assert before & set(storage.list("")), "the second checkpoint builds on files of the first"
    dispose_savepoint(str(tmp_path / f"chk-{second}" / "_metadata"))
    assert not read_log(storage).retained
    assert [path for path in storage.list("") if not path.startswith("log/")] == []
    with pytest.raises(SnapshotNotFoundError):
        dispose_savepoint(str(tmp_path / f"chk-{second}"))


@pytest.mark.parametrize("status", [None, "suspended"])
def test_n6_a_checkpoint_of_a_job_that_has_not_ended_belongs_to_it(
    tmp_path: Path, status: Literal["suspended"] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = job_with_checkpoints(tmp_path, status)
    before = storage.list("")
    number = read_log(storage).retained[0].checkpoint
    with pytest.raises(JobConflictError, match="which has not ended"):
        dispose_savepoint(str(tmp_path / f"chk-{number}"))
    assert main(["savepoint", "-d", str(tmp_path / f"chk-{number}")]) == 4
    assert "end the job with `penstock cancel`" in capsys.readouterr().err
    assert storage.list("") == before


def test_n6_a_crash_after_the_discard_leaves_files_that_no_checkpoint_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = job_with_checkpoints(tmp_path, "failed")
    first, second = (complete.checkpoint for complete in read_log(storage).retained)

    def fail(storage: LocalStorage, path: str) -> None:
        raise StorageError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete", fail)
        with pytest.raises(StorageError):
            dispose_savepoint(str(tmp_path / f"chk-{first}"))
    view = read_log(storage)
    assert [complete.checkpoint for complete in view.retained] == [second] and view.is_terminal
    assert view.open_deletes, "the next attempt of the job deletes them"
    with pytest.raises(SnapshotRefusedError, match="was aborted or discarded"):
        open_snapshot(str(tmp_path / f"chk-{first}"))


def test_n6_a_checkpoint_whose_output_may_not_be_visible_yet_is_kept(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    harness = Harness.keyed(Counts(), key=str, storage=storage, sink=MemorySink(), retained=2)
    harness.feed(["a", CHECKPOINT, "b", CHECKPOINT])
    end(storage, "failed")
    older, number = (complete.checkpoint for complete in read_log(storage).retained)
    dispose_savepoint(str(tmp_path / f"chk-{older}"))
    with pytest.raises(JobConflictError, match="may not be committed yet"):
        dispose_savepoint(str(tmp_path / f"chk-{number}"))
    assert open_snapshot(str(tmp_path / f"chk-{number}")).manifest.committables, "a job that starts there commits them"


def test_n6_a_checkpoint_without_its_job_s_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "chk-7").mkdir()
    (tmp_path / "chk-7" / "_metadata").write_bytes(encode_manifest(manifest()))
    with pytest.raises(CheckpointError):
        dispose_savepoint(str(tmp_path / "chk-7"))
    assert (tmp_path / "chk-7" / "_metadata").exists()


def test_n6_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "total"
    outside.mkdir(parents=True)
    (outside / "s0-0-aa.parquet").write_text("precious")
    mine = put_savepoint(tmp_path / "sp")
    for path in (mine / "state" / "op" / "total").iterdir():
        path.unlink()
    (mine / "state" / "op" / "total").rmdir()
    (mine / "state" / "op" / "total").symlink_to(outside)
    with pytest.raises(StorageError, match="through a symbolic link"):
        dispose_savepoint(str(mine))
    assert (outside / "s0-0-aa.parquet").exists()


def test_n6_the_command_needs_no_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(put_savepoint(tmp_path / "one"))
    assert main(["savepoint", "-d", path]) == 0
    assert capsys.readouterr().out.splitlines() == [f"Disposing savepoint '{path}'.", f"Savepoint '{path}' disposed."]
    assert main(["savepoint", "--dispose", path, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["code"] == 3
    path = str(put_savepoint(tmp_path / "two"))
    assert main(["savepoint", "-d", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"disposed": path}
    assert main(["savepoint", "a" * 32, "-d", path]) == 2
