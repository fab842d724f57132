"""A job that is suspended: to its log it is one whose driver died after its last complete checkpoint (PROTOCOL R32)."""

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from penstock.checkpoint.log.entries import Status
from penstock.errors import FencedError, JobFailedError
from penstock.jobmanager import job as job_module
from penstock.jobmanager import job_submission
from penstock.jobmanager.attempt.attempt import Attempt, Ended
from penstock.jobmanager.attempt.recovery import begin_attempt
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_submission import _resumable, run_job
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from tests.jobmanager.fake_attempts import CHECKPOINTS, JOB_ID, Place
from tests.waiting import LIMIT_S, wait_until


def wait_for_thread(job: Job) -> None:
    """Return once the job's own thread has ended."""
    wait_until(lambda: not any(thread.name == f"job-{job.job_id[:8]}" for thread in threading.enumerate()))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "retention", [None, "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"]
)
def test_r32_a_suspended_job_keeps_its_checkpoints_whatever_its_retention_says(
    place: Place, retention: str | None
) -> None:
    asked = {"execution.checkpointing.externalized-checkpoint-retention": retention} if retention else {}
    job = place.running(**CHECKPOINTS, **asked)
    job.suspend(KeyboardInterrupt())
    assert job.status() is JobStatus.SUSPENDED and place.status() == "SUSPENDED"
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    log = place.log()
    assert log.status is None and [complete.checkpoint for complete in log.retained] == [0]
    assert job.describe_end().startswith("job 'job' is suspended at checkpoint 0; resume it with: ")
    assert _resumable(place.settings(**CHECKPOINTS), "job") == JOB_ID
    again = place.job(place.settings(**CHECKPOINTS), resumed=True)
    wait_until(lambda: len(place.attempts) == 2 and place.attempts[1].started.is_set())
    assert place.log().attempt == 2 and place.status() != "SUSPENDED"
    again.suspend(KeyboardInterrupt())


def test_r32_a_last_checkpoint_that_is_not_quick_is_given_up(place: Place) -> None:
    job = place.running(**CHECKPOINTS, **{"penstock.suspend.timeout": "10ms"})
    place.attempts[0].on_suspend = lambda: None  # it goes on
    job.suspend(SystemExit(143))
    assert place.attempts[0].cancelled.is_set()
    assert job.status() is JobStatus.SUSPENDED and place.log().status is None
    with pytest.raises(SystemExit) as ended:
        job.wait()
    assert ended.value.code == 143


def test_r32_a_job_whose_spark_is_gone_is_suspended_all_the_same(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "SUSPEND_GRACE_S", 0.5)
    job = place.running(**CHECKPOINTS, **{"penstock.suspend.timeout": "10ms"})
    attempt = place.attempts[0]
    attempt.on_suspend = lambda: None

    def cancel() -> None:
        raise ConnectionRefusedError("no JVM answers")

    monkeypatch.setattr(attempt, "cancel", cancel)
    job.suspend(KeyboardInterrupt())
    assert place.status() == "SUSPENDED" and place.log().status is None
    log = place.folder / "registry" / JOB_ID / "driver.log"
    wait_until(lambda: "no JVM answers" in log.read_text(encoding="utf-8"))
    attempt.end(Ended.CANCELLED)


def test_r32_a_job_that_is_only_starting_is_suspended_at_once_and_never_writes_how_it_ends(place: Place) -> None:
    job = place.running()
    attempt = place.attempts[0]
    attempt.is_loaded, attempt.on_suspend = False, lambda: None
    job.suspend(KeyboardInterrupt())
    assert place.status() == "SUSPENDED" and not attempt.over.is_set()
    attempt.end(Ended.INPUT)  # its final checkpoint may even be complete: the job that is resumed finds that
    wait_for_thread(job)
    assert place.log().status is None and place.status() == "SUSPENDED"


@pytest.mark.parametrize(
    ("ended", "status", "in_log"), [(Ended.INPUT, "FINISHED", "finished"), (Ended.CANCELLED, "SUSPENDED", None)]
)
def test_r32_a_job_that_ends_at_the_same_time_ends_as_it_would_have(
    place: Place, ended: Ended, status: str, in_log: str | None
) -> None:
    job = place.running()
    place.attempts[0].on_suspend = lambda: ended
    job.suspend(KeyboardInterrupt())
    assert place.status() == status
    found = place.log().status
    assert (found.status if found else None) == in_log
    if ended is Ended.INPUT:
        assert job.wait().get_job_id() == JOB_ID and job.describe_end() == "job 'job' is FINISHED"


def test_r32_a_cancel_during_the_last_checkpoint_wins(place: Place) -> None:
    job = place.running()
    attempt = place.attempts[0]
    attempt.on_suspend = lambda: None
    suspending = threading.Thread(target=job.suspend, args=(KeyboardInterrupt(),), daemon=True)
    suspending.start()
    assert attempt.suspended.wait(LIMIT_S)
    job.cancel()
    suspending.join(LIMIT_S)
    log = place.log()
    assert place.status() == "CANCELED" and log.status is not None and log.status.status == "cancelled"


@pytest.mark.parametrize("in_pause", [False, True])
def test_r32_a_failure_does_not_keep_a_job_from_being_suspended(place: Place, in_pause: bool) -> None:
    pause = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1h"}
    job = place.running(**CHECKPOINTS, **(pause if in_pause else {"restart-strategy.type": "none"}))
    failure = JobFailedError("a TaskManager is lost")
    if in_pause:
        place.attempts[0].end(failure)
        wait_until(lambda: job.status() is JobStatus.RESTARTING)
    place.attempts[0].on_suspend = lambda: failure
    job.suspend(KeyboardInterrupt())
    assert place.status() == "SUSPENDED" and place.log().status is None
    assert len(place.attempts) == 1


def test_r32_a_job_that_was_suspended_while_it_failed_is_not_failed_afterwards(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "SUSPEND_GRACE_S", 0.01)
    retention = {"execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS"}
    job = place.running(**CHECKPOINTS, **retention, **{"penstock.suspend.timeout": "10ms"})
    asked, may_fail = threading.Event(), threading.Event()

    def no_restart() -> None:
        asked.set()
        assert may_fail.wait(LIMIT_S)

    monkeypatch.setattr(job._restarts, "after_failure", no_restart)
    place.attempts[0].end(JobFailedError("a TaskManager is lost"))
    assert asked.wait(LIMIT_S)
    job.suspend(KeyboardInterrupt())
    assert place.status() == "SUSPENDED"
    may_fail.set()
    wait_for_thread(job)
    log = place.log()
    assert log.status is None and [complete.checkpoint for complete in log.retained] == [0]
    with pytest.raises(KeyboardInterrupt):
        job.wait()


def test_r32_a_job_whose_failure_is_being_written_has_failed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "SUSPEND_GRACE_S", 0.01)
    settings = {"restart-strategy.type": "none", "penstock.suspend.timeout": "10ms"}
    job = place.running(**CHECKPOINTS, **settings)
    end_job, asked, may_write = job._parts.checkpoints.end_job, threading.Event(), threading.Event()

    def write_slowly(status: Status) -> None:
        asked.set()
        assert may_write.wait(LIMIT_S)
        end_job(status)

    monkeypatch.setattr(job._parts.checkpoints, "end_job", write_slowly)
    place.attempts[0].end(JobFailedError("a TaskManager is lost"))
    assert asked.wait(LIMIT_S)
    job.suspend(KeyboardInterrupt())
    may_write.set()
    with pytest.raises(JobFailedError, match="is lost"):
        job.wait()
    found = place.log().status
    assert place.status() == "FAILED" and found is not None and found.status == "failed"


def test_r32_an_attempt_that_begins_during_a_suspension_is_suspended_not_cancelled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TaskManager of a cancelled job removes its local copies."""
    asked, may_begin = threading.Event(), threading.Event()

    def begin_slowly(*arguments: Any) -> Attempt:
        asked.set()
        assert may_begin.wait(LIMIT_S)
        return begin_attempt(*arguments)

    monkeypatch.setattr(job_module, "begin_attempt", begin_slowly)
    job = place.job(place.settings(**CHECKPOINTS))
    assert asked.wait(LIMIT_S)
    job.suspend(KeyboardInterrupt())
    may_begin.set()
    wait_for_thread(job)
    assert place.attempts[0].suspended.is_set() and not place.attempts[0].cancelled.is_set()
    assert place.log().status is None and place.status() == "SUSPENDED"


def test_r32_a_fenced_driver_does_not_say_that_its_job_is_suspended(place: Place) -> None:
    job = place.running()
    place.attempts[0].on_suspend = lambda: FencedError("attempt 2 owns the job")
    job.suspend(KeyboardInterrupt())
    with pytest.raises(FencedError):
        job.wait()
    assert job.status() is JobStatus.FAILED


def test_r32_a_job_with_nothing_to_resume_is_cancelled_even_if_it_does_not_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "SUSPEND_GRACE_S", 0.01)
    job = place.job(place.settings())
    wait_until(lambda: place.attempts and place.attempts[-1].started.is_set())
    attempt = place.attempts[0]
    attempt.on_suspend = lambda: None
    attempt.cancel = lambda: None  # type: ignore[method-assign]
    job.suspend(KeyboardInterrupt())
    assert place.status() == "CANCELED"
    attempt.end(Ended.CANCELLED)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({}, "no checkpoints"),
        (
            {**CHECKPOINTS, "execution.checkpointing.storage": "jobmanager", "execution.checkpointing.dir": ""},
            "checkpoints in the JobManager's memory only",
        ),
    ],
)
def test_r32_a_job_with_nothing_to_resume_says_that_its_state_is_gone(
    place: Place, settings: dict[str, str], what: str
) -> None:
    job = place.job(place.settings(**settings))
    wait_until(lambda: place.attempts and place.attempts[-1].started.is_set())
    job.suspend(KeyboardInterrupt())
    assert place.status() == "CANCELED"
    assert job.describe_end() == f"job 'job' has {what}: its state is gone with its process"
    with pytest.raises(KeyboardInterrupt):
        job.wait()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(0)], ids=repr)
@pytest.mark.parametrize("is_second", [False, True])
def test_r32_an_interrupt_of_the_program_itself_suspends_the_job_unless_it_is_being_suspended(
    monkeypatch: pytest.MonkeyPatch, interrupt: BaseException, is_second: bool
) -> None:
    """A handler of the program has raised it, or the second interrupt of a notebook's cell."""
    job = MagicMock()
    job.wait.side_effect = interrupt
    job.status.return_value = JobStatus.RUNNING
    job.describe_end.return_value = "job 'job' is suspended"
    monkeypatch.setattr(job_submission, "submit_job", lambda *_: job)
    monkeypatch.setattr(job_submission, "is_interactive", lambda: is_second)
    monkeypatch.setattr(job_submission, "INTERRUPTS", MagicMock(is_received=is_second))
    with pytest.raises(type(interrupt)):
        run_job(MagicMock(), Configuration(), "job", MagicMock())
    assert job.suspend.call_args_list == ([] if is_second else [call(interrupt)])
