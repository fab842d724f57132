"""Which job `--resume` continues, also if other jobs cannot be read (PROTOCOL R6)."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.submission import Submission, submitted
from penstock.errors import JobConflictError, JobNotFoundError, LogCorruptError
from penstock.jobmanager.job_submission import _identify, _resumable, note_new_job
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.storage.local import LocalStorage
from tests.checkpoint.logs import claimed_log, complete_of
from tests.checkpoint.test_job_folders import damaged_job


def settings(folder: Path) -> JobSettings:
    values = {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.dir": str(folder),
        "penstock.registry.dir": str(folder / "registry"),
    }
    return JobSettings.of("job", Configuration.from_dict(values))


def test_r6_a_job_of_another_name_that_cannot_be_read_is_named_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claimed_log(LocalStorage(tmp_path / ("c" * 32)))  # its name is `job`
    damaged_job(tmp_path, "a", "orders", 1)
    assert _resumable(settings(tmp_path), "job") == "c" * 32
    assert "a" * 32 in capsys.readouterr().err


@pytest.mark.parametrize("readable", [0, 1])
def test_r6_a_job_that_may_be_the_wanted_one_is_refused(tmp_path: Path, readable: int) -> None:
    claimed_log(LocalStorage(tmp_path / ("c" * 32)))
    damaged_job(tmp_path, "a", "job", readable)
    with pytest.raises(LogCorruptError, match="may be the job 'job'.*move .*away") as refusal:
        _resumable(settings(tmp_path), "job")
    assert "a" * 32 in str(refusal.value) and refusal.value.exit_code == 5


def test_jobs_that_were_interrupted_while_they_started_do_not_stand_in_the_way(tmp_path: Path) -> None:
    """No epoch of theirs has run (R23), so there is nothing in them to lose."""
    logs = {}
    for letter in "abc":
        logs[letter] = claimed_log(LocalStorage(tmp_path / (letter * 32)))
    assert _resumable(settings(tmp_path), "job") in ("a" * 32, "b" * 32, "c" * 32)
    logs["b"].append(complete_of(0))
    assert _resumable(settings(tmp_path), "job") == "b" * 32
    logs["c"].append(complete_of(0))
    with pytest.raises(JobConflictError, match=f"{'b' * 32}, {'c' * 32}; end the others with `penstock cancel ID`"):
        _resumable(settings(tmp_path), "job")


def test_a_job_that_is_not_there_is_a_new_one_unless_only_a_resume_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _resumable(settings(tmp_path), "job") is None
    where = f"no job named 'job' to resume under {tmp_path}"
    note_new_job(settings(tmp_path), "job", is_allowed=True)
    assert capsys.readouterr().err == f"*** {where}: THIS IS A NEW JOB, with empty state ***\n"
    with pytest.raises(JobNotFoundError, match=where) as refusal:
        note_new_job(settings(tmp_path), "job", is_allowed=False)
    assert refusal.value.exit_code == 3


def test_u2_a_job_of_an_ha_folder_that_nobody_has_claimed_is_a_new_one_unless_only_a_resume_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its driver died between storing the program and the claim."""
    submission = Submission(tmp_path / "job.py", resume=True, job_id="c" * 32)
    with submitted(submission):
        assert _identify(settings(tmp_path), Configuration(), "job")[1] is False
    assert "THIS IS A NEW JOB, with empty state" in capsys.readouterr().err
    with submitted(replace(submission, resume_only=True)), pytest.raises(JobNotFoundError):
        _identify(settings(tmp_path), Configuration(), "job")
    with submitted(replace(submission, restarts=True)):  # with the flags of the first start
        assert _identify(settings(tmp_path), Configuration(), "job")[1] is False
    assert capsys.readouterr().err == ""
    start = Configuration.from_dict({"execution.state-recovery.path": "/savepoints/1"})
    with submitted(replace(submission, resume_only=True)):  # with the snapshot of the first start
        assert _identify(settings(tmp_path), start, "job")[1] is False
    assert capsys.readouterr().err == (
        f"job {'c' * 32} has not begun yet: it starts from /savepoints/1, as its first start was to\n"
    )
    claimed_log(LocalStorage(tmp_path / ("c" * 32)))
    with submitted(replace(submission, resume_only=True)):
        assert _identify(settings(tmp_path), Configuration(), "job")[1] is True
