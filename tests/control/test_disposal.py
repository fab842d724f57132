"""`savepoint -d`: the manifest first, then the files, then the folder; nothing else (features N6)."""

import json
from pathlib import Path

import pytest

from penstock.checkpoint.snapshot.manifest import encode_manifest
from penstock.cli.main import main
from penstock.control.disposal import dispose_savepoint
from penstock.errors import CheckpointCorruptError, SnapshotNotFoundError, StorageError, UsageError
from penstock.model.snapshot import SourcePosition
from penstock.storage.local import LocalStorage
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


def test_n6_a_checkpoint_belongs_to_its_job(tmp_path: Path) -> None:
    (tmp_path / "chk-7").mkdir()
    (tmp_path / "chk-7" / "_metadata").write_bytes(encode_manifest(manifest()))
    with pytest.raises(UsageError, match="not a savepoint"):
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
