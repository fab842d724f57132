"""Local copies of keyed state: kept, checked, read first, and removed (features K9, X2)."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from penstock.checkpoint.file_names import parse_name
from penstock.checkpoint.snapshot.manifest import digest
from penstock.control.effective_settings import load_settings
from penstock.jobmanager.settings.checkpointing import checkpoint_settings, checkpoint_warnings, local_backup
from penstock.model.configuration import Configuration
from penstock.model.ids import StageId, SubtaskId
from penstock.model.snapshot import StateFile
from penstock.runtime.snapshots.local_copies import MAX_AGE_S, LocalBackup, LocalCopies
from penstock.storage.memory import MemoryStorage, NoFaults
from penstock.testing import CHECKPOINT, CRASH
from penstock.testing.clocks import ManualClock
from tests.testing.damage import DAMAGES, ITEMS, check_exact, start

JOB = "a" * 32
PATH = "shared/1-7-s0-1-9f1c2a0b1c2d"
SUBTASK = SubtaskId(StageId("s0"), 1)


class Counted(NoFaults):
    """Records which state files are read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def before(self, operation: str, path: str) -> None:
        if operation == "read" and path.startswith("shared/"):
            self.read.append(path)


def copies(*folders: Path, write: bool = True, read: bool = True, job: str = JOB) -> LocalCopies:
    return LocalCopies(LocalBackup(write, read, tuple(map(str, folders))), job, ManualClock())


def file_of(data: bytes) -> StateFile:
    return StateFile(PATH, len(data), digest(data))


def local(harness_folder: Path) -> list[Path]:
    return [path for path in harness_folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb files"])
def test_k9_a_restore_reads_no_keyed_state_from_the_checkpoint_storage(tmp_path: Path, backend: str) -> None:
    counted = Counted()
    backup = LocalBackup(write=True, read=True, dirs=(str(tmp_path / "one"), str(tmp_path / "two")))
    harness = start(MemoryStorage(counted), backend, local=backup).feed(ITEMS)
    manifest = harness.manifest
    assert manifest is not None
    keyed = {file.path: file.size for snapshot in manifest.subtasks for file in snapshot.files}
    counted.read.clear()
    harness.crash()
    check_exact(harness)
    assert set(counted.read).isdisjoint(keyed), "only operator state comes from there"
    figures = harness.restored
    assert (figures.local_files, figures.local_bytes) == (len(keyed), sum(keyed.values()))
    assert (figures.primary_files, figures.primary_bytes) == (0, 0)
    assert all(list((tmp_path / folder).rglob("*-s0-*")) for folder in ("one", "two"))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb files"])
def test_k9_a_damaged_local_copy_is_not_used(tmp_path: Path, backend: str, how: str) -> None:
    backup = LocalBackup(write=True, read=True, dirs=(str(tmp_path),))
    harness = start(MemoryStorage(), backend, local=backup).feed(ITEMS)
    damaged = local(tmp_path)
    for path in damaged[::2]:
        changed = DAMAGES[how](path.read_bytes())
        path.unlink()
        if changed is not None:
            path.write_bytes(changed)
    harness.crash()
    check_exact(harness)
    assert harness.restored.primary_files > 0 and harness.restored.local_files > 0


def test_k9_without_from_local_copies_are_made_and_not_read(tmp_path: Path) -> None:
    harness = start(MemoryStorage(), "hashmap", local=LocalBackup(write=True, dirs=(str(tmp_path),))).feed(ITEMS)
    assert local(tmp_path)
    harness.crash()
    assert harness.restored.local_files == 0 < harness.restored.primary_files
    check_exact(harness)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb files"])
def test_k9_copies_that_the_confirmed_checkpoint_does_not_need_go(tmp_path: Path, backend: str) -> None:
    harness = start(MemoryStorage(), backend, local=LocalBackup(write=True, read=True, dirs=(str(tmp_path),)))
    harness.feed(ITEMS)  # behind the last checkpoint there are rows, so that its subtasks know that it is complete
    manifest = harness.manifest
    assert manifest is not None
    needed = {file.path.rpartition("/")[2] for snapshot in manifest.subtasks for file in snapshot.files}
    assert {path.name for path in local(tmp_path)} == needed


@pytest.mark.parametrize("parallelism", [1, 3])
def test_k9_copies_of_another_parallelism_are_read_and_then_go(tmp_path: Path, parallelism: int) -> None:
    harness = start(MemoryStorage(), "hashmap", local=LocalBackup(write=True, read=True, dirs=(str(tmp_path),)))
    harness.feed(ITEMS).rescale(parallelism)
    assert harness.restored.primary_files == 0 < harness.restored.local_files
    check_exact(harness)
    harness.feed([CHECKPOINT]).run_empty_epochs(1)
    manifest = harness.manifest
    assert manifest is not None
    needed = {file.path.rpartition("/")[2] for snapshot in manifest.subtasks for file in snapshot.files}
    assert {path.name for path in local(tmp_path)} == needed


def test_x2_a_folder_that_cannot_be_written_costs_only_the_copies(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    backup = LocalBackup(write=True, read=True, dirs=(str(tmp_path / "file"),))
    harness = start(MemoryStorage(), "hashmap", local=backup).feed([*ITEMS, CRASH])
    check_exact(harness)
    assert harness.restored.local_files == 0


def test_x2_a_copy_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    made = copies(tmp_path)
    (tmp_path / JOB / "1-7-s0-1-9f1c2a0b1c2d").mkdir()
    made.keep(PATH, b"state")
    assert made.read(file_of(b"state")) is None
    assert [path.name for path in (tmp_path / JOB).iterdir()] == ["1-7-s0-1-9f1c2a0b1c2d"]


def test_s16_copies_are_for_their_owner_only(tmp_path: Path) -> None:
    copies(tmp_path).keep(PATH, b"state")
    (path,) = local(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_s16_a_folder_that_others_can_enter_or_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / JOB).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / JOB).mkdir(mode=0o755)
    for name in ("link", "open"):
        made = copies(tmp_path / name)
        made.keep(PATH, b"state")
        assert made.read(file_of(b"state")) is None
    assert local(tmp_path) == []


def test_without_a_setting_the_folder_is_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    copies().keep(PATH, b"state")
    (path,) = local(tmp_path)
    assert path.parent.parent == tmp_path / f"penstock-local-{os.geteuid()}"
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_pending_copies_and_those_of_other_subtasks_stay(tmp_path: Path) -> None:
    made = copies(tmp_path)
    names = {
        "1-7-s0-1-aa": "of an older attempt",
        "2-8-s0-1-aa": "needed",
        "2-8-s0-1-bb": "of the attempt, not needed",
        "2-9-s0-1-aa": "pending",
        "3-8-s0-1-aa": "of a newer attempt",
        "2-8-s0-0-aa": "another subtask's",
        "2-8-s0-5-aa": "of a subtask that is no more",
        "2-8-s1-5-aa": "another stage's",
        "2-8-s0-1-cc~dd": "interrupted",
    }
    for name in names:
        (tmp_path / JOB / name).write_bytes(b"")
        assert parse_name(f"shared/{name}") is not None
    made.confirm(SUBTASK, 2, (2, 8), {"shared/2-8-s0-1-aa"})
    left = {names[path.name] for path in local(tmp_path)}
    assert left == {"needed", "pending", "of a newer attempt", "another subtask's", "another stage's"}


def test_copies_go_with_the_job_and_when_they_are_old(tmp_path: Path) -> None:
    mine, other = copies(tmp_path), copies(tmp_path, job="b" * 32)
    mine.keep(PATH, b"state")
    other.keep(PATH, b"state")
    (tmp_path / "notes").mkdir()
    now_s = ManualClock().now_ms() / 1000
    for name, age_s in ((JOB, MAX_AGE_S + 60), ("b" * 32, MAX_AGE_S - 60), ("notes", MAX_AGE_S + 60)):
        os.utime(tmp_path / name, (now_s - age_s, now_s - age_s))
    third = copies(tmp_path, job="c" * 32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b" * 32, "c" * 32, "notes"]
    third.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b" * 32, "notes"]


def test_k9_settings_old_names_and_unaligned() -> None:
    def settings(**values: str) -> Configuration:
        return load_settings(Configuration(), {"execution.checkpointing.interval": "1s", **values}, []).configuration

    chosen = settings(**{"state.backend.local-recovery": "true", "taskmanager.state.local.root-dirs": "/x,/y"})
    assert local_backup(checkpoint_settings(chosen)) == LocalBackup(True, True, ("/x", "/y"))
    assert local_backup(checkpoint_settings(settings())) == LocalBackup()
    chosen.set_string("execution.checkpointing.unaligned.enabled", "true")
    assert local_backup(checkpoint_settings(chosen)) == LocalBackup()
    assert any("local recovery" in warning for warning in checkpoint_warnings(chosen))
