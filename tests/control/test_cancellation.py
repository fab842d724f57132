"""`penstock cancel` of a job that nobody runs: it ends for good, and its checkpoints stay."""

import os
from pathlib import Path

import msgspec
import pytest

from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.log.log_reader import read_log
from penstock.cli.main import main
from penstock.control.cancellation import cancel_idle_job
from penstock.control.registry import JobRecord, Registry
from penstock.errors import FencedError, JobConflictError
from penstock.jobmanager.job_submission import _note_suspended, _resumable
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.storage.local import LocalStorage
from tests.checkpoint.logs import claimed_log, complete_of
from tests.records import job_record

JOB = "a" * 32
NO_PROCESS = 2**22 - 7
"""A pid that no process has."""


def record_of(folder: Path, status: str, pid: int = NO_PROCESS) -> JobRecord:
    known = job_record(job_id=JOB, name="job", status=status, pid=pid, host=os.uname().nodename)
    return msgspec.structs.replace(known, checkpoint_dir=str(folder / "checkpoints"))


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry")


def resumable(folder: Path) -> str | None:
    values = {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "penstock.registry.dir": str(folder / "registry"),
    }
    return _resumable(JobSettings.of("job", Configuration.from_dict(values)), "job")


@pytest.mark.parametrize("status", ["SUSPENDED", "FAILED", "RUNNING"])
def test_a_job_that_nobody_runs_ends_for_good_and_keeps_its_checkpoints(
    tmp_path: Path, registry: Registry, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = claimed_log(LocalStorage(tmp_path / "checkpoints" / JOB))
    log.append(complete_of(0))
    registry.write(record_of(tmp_path, status))
    assert resumable(tmp_path) == JOB
    assert main(["cancel", JOB, f"-Dpenstock.registry.dir={registry.folder}"]) == 0
    shown = "LOST" if status == "RUNNING" else status
    assert capsys.readouterr().out.startswith(f"Cancelled job {JOB}, which was {shown}. Its newest checkpoint stays: ")
    assert registry.read(JOB).status == "CANCELED"
    view = read_log(LocalStorage(tmp_path / "checkpoints" / JOB))
    assert view.status == Status("cancelled") and len(view.retained) == 1
    assert resumable(tmp_path) is None
    with pytest.raises(FencedError):
        log.append(complete_of(1))


def test_a_job_whose_driver_is_alive_is_not_touched(tmp_path: Path, registry: Registry) -> None:
    log = claimed_log(LocalStorage(tmp_path / "checkpoints" / JOB))
    record = record_of(tmp_path, "RUNNING", os.getpid())
    with pytest.raises(JobConflictError, match="its driver is alive"):
        cancel_idle_job(registry, record)
    log.append(complete_of(0))


def test_a_suspended_job_is_found_by_its_name_and_named_by_a_new_one(
    tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.write(record_of(tmp_path, "SUSPENDED"))
    assert registry.find("job").job_id == JOB
    _note_suspended(registry, "job")
    assert f"penstock cancel {JOB}" in capsys.readouterr().err
    _note_suspended(registry, "another")
    assert capsys.readouterr().err == ""
