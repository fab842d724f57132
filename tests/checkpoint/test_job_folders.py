"""The jobs below a checkpoint folder: found, passed over, or refused (PROTOCOL R6)."""

from pathlib import Path

import pytest

from penstock.checkpoint.job_folders import UnreadableJob, find_jobs
from penstock.checkpoint.log.entries import Claim
from penstock.errors import LogCorruptError, StorageError
from penstock.storage import LocalStorage, Storage
from tests.checkpoint.logs import claimed_log, open_log
from tests.checkpoint.test_restore import put_checkpoint


def job_storage(folder: Path, letter: str) -> Storage:
    return LocalStorage(folder / (letter * 32))


def test_jobs_are_found_by_their_folders(tmp_path: Path) -> None:
    assert find_jobs(str(tmp_path / "nothing")) == []
    claimed_log(job_storage(tmp_path, "b"))
    put_checkpoint(claimed_log(job_storage(tmp_path, "a")), 1)
    job_storage(tmp_path, "c")  # never claimed
    (tmp_path / "notes").mkdir()
    (tmp_path / ("d" * 32)).write_bytes(b"a file")
    found = find_jobs(str(tmp_path))
    assert [(job_id, view.attempt, view.highest_checkpoint) for job_id, view in found] == [
        ("a" * 32, 1, 1),
        ("b" * 32, 1, -1),
    ]


def damaged_job(folder: Path, letter: str, name: str, entries: int) -> None:
    """A job whose first claims can be read and whose later entries cannot."""
    storage = job_storage(folder, letter)
    log = open_log(storage)
    log.claim(Claim(1, "hash", "writer", name, "job.py", parallelism=2, max_parallelism=8))
    put_checkpoint(log, 1)
    for path in storage.list("log/")[entries:]:
        (folder / (letter * 32) / path).write_bytes(b"gone")


def test_r6_a_job_whose_log_is_gone_is_not_taken_for_none(tmp_path: Path) -> None:
    storage = job_storage(tmp_path, "a")
    put_checkpoint(claimed_log(storage), 1)
    for path in storage.list("log/"):
        storage.delete(path)
    with pytest.raises(LogCorruptError, match="a" * 32):
        find_jobs(str(tmp_path))
    lost: list[UnreadableJob] = []
    assert find_jobs(str(tmp_path), lost.append) == []
    assert lost[0].may_be("whatever"), "nothing says what it is called"


def test_r6_an_unreadable_job_is_known_by_the_claims_that_are_left(tmp_path: Path) -> None:
    damaged_job(tmp_path, "a", "orders", 1)
    damaged_job(tmp_path, "b", "orders", 0)
    claimed_log(job_storage(tmp_path, "c"))
    lost: list[UnreadableJob] = []
    assert [job_id for job_id, _ in find_jobs(str(tmp_path), lost.append)] == ["c" * 32]
    assert [(job.job_id[0], job.names) for job in lost] == [("a", frozenset(["orders"])), ("b", frozenset())]
    assert (lost[0].may_be("orders"), lost[0].may_be("totals"), lost[1].may_be("totals")) == (True, False, True)
    assert "log/00000000000000000002" in str(lost[0]) and "'orders'" in str(lost[0])


def test_a_storage_that_does_not_answer_is_not_a_damaged_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed_log(job_storage(tmp_path, "a"))

    def refused(self: LocalStorage, path: str) -> bytes:
        raise StorageError("the disk does not answer")

    monkeypatch.setattr(LocalStorage, "read", refused)
    with pytest.raises(StorageError, match="a{32}.*does not answer"):
        find_jobs(str(tmp_path))
