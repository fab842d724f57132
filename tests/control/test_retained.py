"""`checkpoints list`: the retained checkpoints below a folder."""

import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.control.inspect.retained_checkpoints import retained_checkpoints
from penstock.errors import PathNotFoundError
from penstock.storage.local import LocalStorage
from tests.checkpoint.logs import claimed_log
from tests.checkpoint.test_restore import put_checkpoint

A, B = "a" * 32, "b" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = claimed_log(LocalStorage(tmp_path / A))
    for number in (1, 2):
        put_checkpoint(log, number)
    put_checkpoint(claimed_log(LocalStorage(tmp_path / B)), 5)
    return tmp_path


def test_checkpoints_of_all_jobs_are_listed(folder: Path) -> None:
    found, problems = retained_checkpoints(str(folder))
    assert [(kept.checkpoint, kept.path) for kept in found] == [
        (1, f"{folder}/{A}/chk-1"),
        (2, f"{folder}/{A}/chk-2"),
        (5, f"{folder}/{B}/chk-5"),
    ]
    assert problems == [] and all(Path(kept.path, "_metadata").is_file() for kept in found)
    assert all(kept.size_bytes and kept.parallelism and kept.time_ms is not None for kept in found)
    alone, _ = retained_checkpoints(str(folder / A))
    assert [kept.checkpoint for kept in alone] == [1, 2]


def test_a_damaged_manifest_and_a_damaged_log_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / A / "chk-2" / "_metadata").write_bytes(b"{}")
    for path in (folder / B / "log").iterdir():
        path.write_bytes(b"gone")
    assert main(["checkpoints", "list", str(folder)]) == 0
    shown = capsys.readouterr()
    assert "chk-2" in shown.err and B in shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[0][-1] == "PATH" and rows[1][2] == "1" and "damaged" in rows[2]


def test_the_list_as_json_and_empty(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", "list", str(folder), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert {"job_id", "name", "checkpoint", "epoch", "path", "size_bytes", "time_ms", "parallelism"} <= set(first)
    (folder / "empty").mkdir()
    assert main(["checkpoints", "list", str(folder / "empty")]) == 0
    assert capsys.readouterr().out == "no checkpoints\n"
    assert main(["checkpoints", "list", str(folder / "absent")]) == 3
    with pytest.raises(PathNotFoundError):
        retained_checkpoints(str(folder / "absent"))
    assert not (folder / "absent").exists()
