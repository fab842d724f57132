"""The checkpoints of a job over its attempts, as requests, figures and the driver's log see them."""

from pathlib import Path

import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.common import Configuration
from penstock.control.driver_log import DriverLog
from penstock.control.registry import Registry
from penstock.errors import CheckpointFailedError, UsageError
from penstock.jobmanager.attempt.attempt import Attempt, JobIdentity
from penstock.jobmanager.attempt.recovery import RecoveryOptions, begin_attempt
from penstock.jobmanager.job_checkpoints import JobCheckpoints
from penstock.jobmanager.job_history import JobHistory
from penstock.jobmanager.job_savepoints import JobSavepoints
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.execution import JobStatus
from penstock.model.snapshot import SourcePosition
from penstock.storage.memory import MemoryStorage
from penstock.testing import ManualClock
from penstock.testing.graphs import FunctionProgram, function_graph
from tests.jobmanager.test_split_anew import Same

JOB = JobIdentity("0" * 32, "job", "job.py")
OF_ANOTHER_DRIVER = [CheckpointStats(7, "completed", 0)]


class Followed:
    """A job's checkpoints, and the epochs that they have released."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.clock = ManualClock()
        self.registry = Registry(folder)
        self.history = JobHistory(self.clock)
        self.released: list[int] = []
        self.checkpoints = JobCheckpoints(
            JOB.job_id,
            JobSettings.of("job", Configuration.from_dict(settings)),
            self.registry,
            DriverLog(folder, JOB.job_id, self.clock),
            self.history,
            self.released.append,
        )
        self.storage = MemoryStorage()

    def begin(self) -> Attempt:
        graph = function_graph(FunctionProgram(Same(), str))
        options = RecoveryOptions(
            CheckpointSettings(interval_ms=None), first_checkpoint=self.checkpoints.first_free, reopen=True
        )
        attempt = begin_attempt(JOB, graph, self.storage, options, self.checkpoints, self.clock)
        self.checkpoints.attach(attempt)
        return attempt


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path, {"execution.checkpointing.interval": "1 min"})


def test_m6_a_checkpoint_of_a_job_that_takes_none_or_does_not_run_is_refused(
    tmp_path: Path, followed: Followed
) -> None:
    with pytest.raises(UsageError, match="takes no checkpoints"):
        Followed(tmp_path, {}).checkpoints.take()
    followed.begin()
    with pytest.raises(CheckpointFailedError, match="the job is INITIALIZING"):
        followed.checkpoints.take()


def test_a_completed_checkpoint_releases_its_epoch_and_is_the_last_one_even_after_the_end(followed: Followed) -> None:
    attempt = followed.begin()
    followed.history.enter(JobStatus.RUNNING)
    attempt.coordinator.first_checkpoint(SourcePosition(-1, None, ["source"]))
    followed.checkpoints.completed(0)
    assert followed.released == [0] and followed.checkpoints.last_completed == 0
    log = (followed.registry.folder / "driver.log").read_text("utf-8")
    assert log.endswith(
        " INFO  checkpoint job=00000000 attempt=1 | checkpoint 0 completed in 0 ms: 0 bytes written, 0 bytes in all\n"
    )
    followed.checkpoints.forget()
    assert followed.checkpoints.last_completed == 0


def test_numbers_are_not_used_again_by_the_next_attempt(followed: Followed) -> None:
    attempt = followed.begin()
    attempt.coordinator.first_checkpoint(SourcePosition(-1, None, ["source"]))
    number = attempt.coordinator.start(1, [], forced=True)
    followed.checkpoints.detach()
    assert number is not None and followed.checkpoints.first_free == number + 1
    assert followed.begin().coordinator.next_id == number + 1


def test_an_aborted_checkpoint_is_in_the_drivers_log_with_its_attempt(tmp_path: Path, followed: Followed) -> None:
    followed.begin()
    followed.checkpoints.aborted(3, "it expired")
    line = (tmp_path / "driver.log").read_text("utf-8")
    assert line.endswith("WARN  checkpoint job=00000000 attempt=1 | checkpoint 3 was aborted: it expired\n")


def test_between_attempts_figures_that_another_driver_may_have_written_stay(followed: Followed) -> None:
    """The claim of a new attempt may fail because another driver owns the job by then."""
    followed.begin()
    followed.checkpoints.forget()
    followed.registry.write_checkpoints(JOB.job_id, OF_ANOTHER_DRIVER)
    followed.checkpoints.detach()
    assert followed.registry.read_checkpoints(JOB.job_id) == OF_ANOTHER_DRIVER


def test_which_checkpoints_are_retained_is_not_known_between_attempts(followed: Followed) -> None:
    attempt = followed.begin()
    attempt.coordinator.first_checkpoint(SourcePosition(-1, None, ["source"]))
    assert followed.checkpoints.report(JobSavepoints(None)).retained == frozenset({0})
    followed.checkpoints.forget()
    assert followed.checkpoints.report(JobSavepoints(None)).retained is None
