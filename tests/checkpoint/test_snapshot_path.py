"""What a path names: savepoints and retained checkpoints, and everything that is neither."""

import shutil
from pathlib import Path

import msgspec
import pytest

from penstock.checkpoint.log.entries import Claim, Complete, Discard, Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_view import DISPOSER
from penstock.checkpoint.snapshot.manifest import digest, encode_manifest
from penstock.checkpoint.snapshot.snapshot_location import _find_folder, _parent, open_snapshot
from penstock.errors import CheckpointError, ConfigurationError
from penstock.model.snapshot import Manifest, SourcePosition
from penstock.storage.local import LocalStorage
from penstock.testing.clocks import ManualClock
from tests.checkpoint.manifests import committable, file_of, manifest, snapshot

CLAIM = Claim(1, "hash", "writer", "job", "job.py", 1, 8)


def a_manifest(number: int = 7, **changes: object) -> Manifest:
    parts = [snapshot(0, (0, 7), file_of("shared/1-6-s0-0-aa"))]
    sources = SourcePosition(3, None, ["source"])
    return manifest(**{"checkpoint_id": number, "subtasks": parts, "sources": sources, **changes})


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    folder = tmp_path / "savepoint-000000-0123456789ab"
    storage = LocalStorage(folder)
    storage.put_new("shared/1-6-s0-0-aa", b"state")
    storage.put_new("_metadata", encode_manifest(a_manifest(savepoint="canonical", committables=[])))
    return folder


@pytest.fixture
def job(tmp_path: Path) -> LocalStorage:
    """A job with the completed checkpoints 6 and 7."""
    storage = LocalStorage(tmp_path / ("a" * 32))
    log = JobLog.open(storage, ManualClock())
    log.claim(CLAIM)
    storage.put_new("shared/1-6-s0-0-aa", b"state")
    for number, parent in ((6, None), (7, 6)):
        data = encode_manifest(a_manifest(number, parent=parent, committables=[committable(f"t{number}")]))
        storage.put_new(f"chk-{number}/_metadata", data)
        log.append(Complete(number, 4, f"chk-{number}/_metadata", digest(data)))
    return storage


def folder_of(storage: LocalStorage) -> Path:
    return Path(storage.uri.removeprefix("file://"))


def append(storage: LocalStorage, *entries: object) -> None:
    log = JobLog.open(storage, ManualClock())
    log.claim(msgspec.structs.replace(CLAIM, attempt=log.view().attempt + 1))
    for entry in entries:
        log.append(entry)  # type: ignore[arg-type]


def refused(path: Path | str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_snapshot(str(path))
    assert caught.value.code and caught.value.code in str(caught.value)
    return caught.value


def test_o8_a_savepoint_is_opened_by_its_folder_its_file_or_its_address(savepoint: Path) -> None:
    for path in (str(savepoint), f"{savepoint}/", str(savepoint / "_metadata"), savepoint.as_uri()):
        found = open_snapshot(path)
        assert (found.path, found.manifest.savepoint) == (savepoint.as_uri(), "canonical")
        assert found.storage.uri == savepoint.as_uri()


def test_o8_an_address_with_escaped_characters(savepoint: Path) -> None:
    spaced = savepoint.rename(savepoint.with_name("my savepoint"))
    assert "%20" in spaced.as_uri()
    assert open_snapshot(spaced.as_uri()).is_savepoint


def test_o8_nothing_there_is_said_in_flinks_words(tmp_path: Path) -> None:
    error = refused(tmp_path / "none")
    text = f"Cannot find checkpoint or savepoint file/directory '{tmp_path / 'none'}' on file system 'file'."
    assert str(error) == f"{text} (NOT_A_SAVEPOINT)"
    assert error.exit_code == 3
    assert not (tmp_path / "none").exists()


def test_o8_a_folder_without_metadata_is_said_in_flinks_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    error = refused(tmp_path)
    assert str(error).startswith(
        f"Cannot find meta data file '_metadata' in directory '{tmp_path}'. Please try to load"
    )
    assert error.exit_code == 3


def test_o8_an_empty_folder_and_one_of_jobs_say_so(tmp_path: Path) -> None:
    text = f"Cannot find meta data file '_metadata' in directory '{tmp_path}'."
    assert str(refused(tmp_path)) == f"{text} The folder is empty. (NOT_A_SAVEPOINT)"
    (tmp_path / ("a" * 32) / "chk-1").mkdir(parents=True)
    (tmp_path / ("a" * 32) / "chk-1" / "_metadata").write_text("x")
    assert f"`penstock checkpoints list {tmp_path}` shows the paths to name" in str(refused(tmp_path))


def test_o8_a_job_folder_is_no_snapshot_but_says_which_it_has(job: LocalStorage) -> None:
    assert "chk-6, chk-7" in str(refused(folder_of(job)))


def test_o8_other_files_and_loops_are_no_savepoints(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("notes.txt", "loop", "notes.txt/below"):
        assert refused(tmp_path / name).code == "NOT_A_SAVEPOINT"
    with pytest.raises(ConfigurationError, match="ftp"):
        open_snapshot("ftp://host/savepoint")


def test_o8_a_retained_checkpoint_is_opened_with_its_jobs_folder_as_root(job: LocalStorage) -> None:
    found = open_snapshot(str(folder_of(job) / "chk-7"))
    assert (found.storage.uri, found.metadata_path) == (job.uri, "chk-7/_metadata")
    assert found.manifest.checkpoint_id == 7 and not found.is_savepoint and not found.has_ended


def test_r26_only_output_that_may_be_uncommitted_is_left_to_the_new_job(job: LocalStorage) -> None:
    folder = folder_of(job)
    assert open_snapshot(str(folder / "chk-6")).manifest.committables == []  # the next one is complete (R21)
    assert open_snapshot(str(folder / "chk-7")).manifest.committables == [committable("t7")]
    append(job, Discard([6], []))  # discards come after commits
    assert open_snapshot(str(folder / "chk-7")).manifest.committables == []


def test_r26_a_checkpoint_that_a_command_has_removed_says_nothing_about_the_next_one(job: LocalStorage) -> None:
    log = JobLog.open(job, ManualClock())
    log.claim(msgspec.structs.replace(CLAIM, attempt=2, writer=DISPOSER))
    log.append(Discard([6], []))
    assert open_snapshot(str(folder_of(job) / "chk-7")).manifest.committables == [committable("t7")]


def test_r26_a_finished_job_has_committed_everything(job: LocalStorage) -> None:
    append(job, Status("finished"))
    found = open_snapshot(str(folder_of(job) / "chk-7"))
    assert found.manifest.committables == [] and found.has_ended


def test_r25_a_checkpoint_without_its_complete_is_refused(job: LocalStorage) -> None:
    job.put_new("chk-8/_metadata", encode_manifest(a_manifest(8, parent=7)))
    assert refused(folder_of(job) / "chk-8").code == "NOT_A_CHECKPOINT"
    append(job, Discard([7], []))
    error = refused(folder_of(job) / "chk-7")
    assert error.code == "NOT_A_CHECKPOINT" and "chk-6" in str(error)


def test_r25_a_checkpoint_that_is_not_the_one_of_the_log_is_refused(job: LocalStorage) -> None:
    path = folder_of(job) / "chk-7" / "_metadata"
    path.write_bytes(encode_manifest(a_manifest(7, now_ms=5)))
    assert refused(path).code == "CORRUPT_MANIFEST"


def test_bm02_a_checkpoint_without_a_job_log_is_nobodys(job: LocalStorage) -> None:
    shutil.rmtree(folder_of(job) / "log")
    assert refused(folder_of(job) / "chk-7").code == "MISSING_IDENTITY"


def test_bm09_a_checkpoint_under_another_number_or_with_a_broken_log(job: LocalStorage) -> None:
    folder = folder_of(job)
    shutil.copytree(folder / "chk-7", folder / "chk-9")
    assert refused(folder / "chk-9").code == "BROKEN_CHAIN"
    (folder / "log" / f"{2:020d}").unlink()
    assert refused(folder / "chk-7").code == "BROKEN_CHAIN"


def test_bm15_a_savepoint_can_be_moved_and_a_checkpoint_cannot(
    savepoint: Path, job: LocalStorage, tmp_path: Path
) -> None:
    moved = savepoint.rename(tmp_path / "elsewhere")
    assert open_snapshot(str(moved)).manifest.checkpoint_id == 7
    for name in ("chk-7", "backup"):
        alone = tmp_path / "alone" / name
        shutil.copytree(folder_of(job) / "chk-7", alone)
        error = refused(alone)
        assert error.code == "MISSING_FILE" and "shared/1-6-s0-0-aa" in str(error)


def test_a_savepoint_without_one_of_its_files_or_with_a_shorter_one(savepoint: Path) -> None:
    file = savepoint / "shared" / "1-6-s0-0-aa"
    file.write_bytes(b"stat")
    assert refused(savepoint).code == "CORRUPT_FILE"
    file.unlink()
    assert refused(savepoint).code == "MISSING_FILE"


def test_bm05_a_manifest_that_is_a_link_is_not_followed(savepoint: Path, tmp_path: Path) -> None:
    (savepoint / "_metadata").rename(tmp_path / "outside")
    (savepoint / "_metadata").symlink_to(tmp_path / "outside")
    assert refused(savepoint).code == "PATH_OUTSIDE_ROOT"


def test_o8_addresses_of_object_stores_are_taken_apart() -> None:
    for path in ("s3a://bucket/jobs/a/chk-7", "s3://bucket/jobs/a/chk-7/", "s3://bucket/jobs/a/chk-7/_metadata"):
        assert _find_folder(path) == "s3://bucket/jobs/a/chk-7"
    assert _parent("s3://bucket/jobs/a/chk-7") == ("s3://bucket/jobs/a", "chk-7")
