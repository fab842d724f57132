"""Which storage a configuration means, how it is opened, and the jobs that are found in it (features J1 to J5, H1)."""

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigurationError, JobConflictError, StorageError, UsageError
from penstock.jobmanager.settings.storage_settings import StorageSettings
from penstock.model.configuration import Configuration
from penstock.model.functions import MapFunction
from penstock.model.options import checkpointing_options
from penstock.model.snapshot import InlineLimits
from penstock.storage import LocalStorage, MemoryStorage
from penstock.testing import CHECKPOINT, Harness, harness
from penstock.testing.harness_options import JOB_ID

CHK = "execution.checkpointing."
A_JOB, ANOTHER = "a" * 32, "b" * 32


class Count(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def storage_of(**settings: Any) -> StorageSettings:
    named = {CHK + key.replace("_", "-"): str(value) for key, value in settings.items()}
    return StorageSettings.of(Configuration.from_dict(named))


@pytest.mark.usefixtures("in_tmp_path")
def test_j3_files_are_the_default(tmp_path: Path) -> None:
    assert storage_of().address == str(tmp_path / "penstock-checkpoints")
    assert storage_of(dir="here").address == str(tmp_path / "here")
    assert storage_of(dir="here", storage="filesystem") == storage_of(dir="here")


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_j3_the_jobmanager_s_memory_only_when_asked_for() -> None:
    chosen = storage_of(storage="jobmanager")
    assert chosen.address is None and chosen.limits.max_state_bytes == 5_242_880
    assert isinstance(chosen.open(A_JOB, resumed=False), MemoryStorage)


def test_j1_the_jobmanager_s_storage_with_a_folder_keeps_its_manifests_there(tmp_path: Path) -> None:
    chosen = storage_of(storage="jobmanager", dir=tmp_path)
    assert chosen.address == str(tmp_path) and chosen.limits.max_state_bytes == 5_242_880
    assert isinstance(chosen.open(A_JOB, resumed=False), LocalStorage)


def test_j1_a_job_without_files_cannot_be_resumed() -> None:
    with pytest.raises(UsageError, match="--resume needs checkpoints that outlive the JobManager"):
        storage_of(storage="jobmanager").jobs()


def test_j2_the_threshold_has_a_default_and_a_limit() -> None:
    assert storage_of().limits == InlineLimits(inline_bytes=20_480)
    assert storage_of(data_inline_threshold="1 mb").limits.inline_bytes == 1_048_576
    with pytest.raises(ConfigurationError, match="data-inline-threshold: give 1 mb at most, not '1048577'"):
        storage_of(data_inline_threshold="1048577")


def test_h1_the_limit_of_the_jobmanager_s_storage_has_a_limit_itself() -> None:
    key = checkpointing_options.MAX_STATE_SIZE.key
    raised = Configuration.from_dict({CHK + "storage": "jobmanager", key: "10 mb"})
    assert StorageSettings.of(raised).limits.max_state_bytes == 10 * 1024 * 1024
    with pytest.raises(ConfigurationError, match="use FileSystemCheckpointStorage for large states"):
        StorageSettings.of(raised.set_string(key, "33 mb"))


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}", "file://Harbour{}"])
def test_j4_a_local_folder_in_every_spelling(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "harbour")
    chosen = storage_of(dir=form.format(tmp_path / "here"))
    assert chosen.address == str(tmp_path / "here")
    chosen.open(A_JOB, resumed=False).put_new("x", b"")
    assert (tmp_path / "here" / A_JOB / "x").is_file()


def test_j4_a_folder_of_another_machine_is_refused_with_a_hint_at_the_slash() -> None:
    with pytest.raises(ConfigurationError, match=r"names the machine 'var'.* write three slashes: file:///var/chk$"):
        storage_of(dir="file://var/chk")


def test_j4_an_object_store_is_kept_as_it_is() -> None:
    assert storage_of(dir="s3://bucket/jobs/").address == "s3://bucket/jobs"
    azure = "abfss://container@account.dfs.core.windows.net/jobs"
    assert storage_of(dir=azure).address == azure
    with pytest.raises(ConfigurationError, match="no storage for addresses with 'swift://'"):
        storage_of(dir="swift://container/jobs")


def test_j5_two_jobs_in_one_folder_do_not_clash(tmp_path: Path) -> None:
    chosen = storage_of(dir=tmp_path)
    for job_id in (A_JOB, ANOTHER):
        Harness.keyed(Count(), key=str, storage=chosen.open(job_id, resumed=False)).feed(["x", CHECKPOINT])
    assert sorted(path.name for path in tmp_path.iterdir()) == [A_JOB, ANOTHER]
    assert [job_id for job_id, _ in chosen.jobs()] == [A_JOB, ANOTHER]
    again = Harness.keyed(Count(), key=str, storage=chosen.open(A_JOB, resumed=True))
    assert again.attempt == 2


def test_j5_without_subfolder_the_files_are_straight_in_the_folder(tmp_path: Path) -> None:
    chosen = storage_of(dir=tmp_path, create_subdir="false")
    assert chosen.jobs() == []
    Harness.keyed(Count(), key=str, storage=chosen.open(JOB_ID, resumed=False)).feed(["x", CHECKPOINT])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chk-1", "log"]
    assert [(job_id, view.attempt) for job_id, view in chosen.jobs()] == [(JOB_ID, 1)]


def test_j5_without_subfolder_a_second_job_is_refused_and_a_resumed_one_is_not(tmp_path: Path) -> None:
    chosen = storage_of(dir=tmp_path, create_subdir="false")
    Harness.keyed(Count(), key=str, storage=chosen.open(JOB_ID, resumed=False)).feed(["x", CHECKPOINT])
    with pytest.raises(JobConflictError, match="holds the checkpoints of another job"):
        chosen.open(ANOTHER, resumed=False)
    assert Harness.keyed(Count(), key=str, storage=chosen.open(JOB_ID, resumed=True)).attempt == 2


def test_j5_the_checkpoints_of_another_job_are_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Harness.keyed(Count(), key=str, storage=LocalStorage(tmp_path)).feed(["x", CHECKPOINT])
    monkeypatch.setattr(harness, "JOB_ID", ANOTHER)
    with pytest.raises(JobConflictError, match=f"holds the checkpoints of job {JOB_ID}, and this is job {ANOTHER}"):
        Harness.keyed(Count(), key=str, storage=LocalStorage(tmp_path))


def test_j5_looking_for_jobs_makes_no_folder(tmp_path: Path) -> None:
    for create_subdir in ("true", "false"):
        assert storage_of(dir=tmp_path / "new", create_subdir=create_subdir).jobs() == []
    assert list(tmp_path.iterdir()) == []


def test_r1_a_storage_that_lets_two_writers_win_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(self: LocalStorage, path: str, data: bytes) -> None:
        (tmp_path / A_JOB / path).write_bytes(data)

    monkeypatch.setattr(LocalStorage, "put_new", overwrite)
    with pytest.raises(StorageError, match="cannot hold checkpoints: it told 2 of two writers"):
        storage_of(dir=tmp_path).open(A_JOB, resumed=False)
