"""Savepoints and checkpoints in an object store, which jobs start from (features O8, O9)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.snapshot.snapshot_location import open_snapshot
from penstock.errors import SnapshotNotFoundError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.storage import LocalStorage, open_storage
from penstock.testing import CHECKPOINT, CRASH, Harness
from tests.storage.test_jobs_on_storages import Last, records


def job(address: str, path: str | None = None, *, claim: bool = False) -> Harness:
    start = StartOptions(path, claim=claim)
    return Harness.keyed(Last(), key=lambda record: record[0], storage=open_storage(address), start=start)


def test_o8_a_job_starts_from_a_savepoint_in_an_object_store(s3_uri: str, tmp_path: Path) -> None:
    path = job(f"{s3_uri}/old").feed([*records(5, 10), CHECKPOINT]).savepoint(f"{s3_uri}/savepoints")
    assert path.startswith("s3://")
    for start in (path, f"{path}/_metadata", path.replace("s3://", "s3a://")):
        assert open_snapshot(start).is_savepoint
    new = job(str(tmp_path / "new"), path).feed([*records(1, 10), CRASH])
    assert new.state("count", "key 0") == 2 and new.state("count", "key 4") == 1


def test_o8_a_job_starts_from_a_checkpoint_in_an_object_store(s3_uri: str) -> None:
    old = job(f"{s3_uri}/old").feed([*records(5, 2000), CHECKPOINT])
    assert old.manifest is not None
    new = job(f"{s3_uri}/new", f"{s3_uri}/old/chk-{old.manifest.checkpoint_id}")
    assert new.feed([*records(1, 10), CHECKPOINT, CRASH]).state("count", "key 0") == 2


def test_o8_nothing_at_an_address_gives_flinks_message(s3_uri: str) -> None:
    with pytest.raises(SnapshotNotFoundError, match=f"file/directory '{s3_uri}/none' on file system 's3'"):
        open_snapshot(f"{s3_uri}/none")
    open_storage(s3_uri).put_new("some/file", b"")
    with pytest.raises(SnapshotNotFoundError, match=f"Cannot find meta data file '_metadata' in directory '{s3_uri}'"):
        open_snapshot(s3_uri)


def test_o9_a_claimed_savepoint_is_deleted_from_an_object_store(
    s3_uri: str, tmp_path: Path, s3_keys: Callable[[], list[str]]
) -> None:
    path = job(f"{s3_uri}/old").feed([*records(5, 10), CHECKPOINT]).savepoint(f"{s3_uri}/savepoints")
    name = path.rpartition("/")[2]
    assert any(name in key for key in s3_keys())
    job(str(tmp_path / "new"), path, claim=True).feed([*records(1, 10), CHECKPOINT])
    assert not any(name in key for key in s3_keys())
    assert LocalStorage(tmp_path / "new").list("chk-")
