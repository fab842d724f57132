"""A job that is rescaled while it runs: the next attempt has another parallelism, and its claim records it (E9)."""

import threading
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from penstock.checkpoint.log.entries import Claim
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.publication import complete
from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.control.registry import RescaleRecord
from penstock.control.submission import Submission, submitted
from penstock.errors import (
    JobConflictError,
    JobError,
    JobFailedError,
    PenstockError,
    StorageError,
    TaskManagerLostError,
    UsageError,
)
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import SinkSpec, SourceSpec, StreamGraph
from penstock.jobmanager.attempt.attempt import Attempt, Ended
from penstock.jobmanager.job import Job
from penstock.model.execution import JobStatus
from penstock.model.types import TAGGED
from penstock.storage.local import LocalStorage
from tests.checkpoint.logs import claimed_log
from tests.checkpoint.manifests import inline_file, snapshot
from tests.jobmanager.fake_attempts import CHECKPOINTS, JOB_ID, FakeAttempt, Place
from tests.sim.job import EVERYTHING, MAX_PARALLELISM, ROWS_SINK, Everything, Sinks, add_keyed, large_graph
from tests.waiting import LIMIT_S, wait_until


class Rescaling:
    """A rescale in a thread of its own."""

    def __init__(self, job: Job, parallelism: int) -> None:
        self._work = job.request_rescale(parallelism)
        self._result: RescaleRecord | Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except Exception as error:
            self._result = error

    def result(self) -> RescaleRecord | Exception | None:
        self._thread.join(LIMIT_S)
        return self._result


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path, monkeypatch)
    found.graph = large_graph(1, Sinks())
    return found


def running(place: Place, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job whose requested checkpoints complete at once."""
    job = place.running()
    monkeypatch.setattr(job._parts.checkpoints, "take", lambda: 0)
    return job


def attempt_number(place: Place, number: int) -> FakeAttempt:
    wait_until(lambda: len(place.attempts) == number and place.attempts[-1].started.is_set())
    return place.attempts[-1]


def test_e9_a_rescale_begins_a_new_attempt_at_the_new_parallelism_and_measures_the_pause(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    rescaling = Rescaling(job, 4)
    second = attempt_number(place, 2)
    assert second.attempt.graph.parallelism == job.graph.parallelism == 4
    claim = place.log().claim
    assert claim is not None and (claim.attempt, claim.parallelism, claim.rescaled) == (2, 4, 4)
    job._clock.advance(1500)  # type: ignore[attr-defined]
    second.waits_for_rows = True
    record = rescaling.result()
    assert isinstance(record, RescaleRecord)
    assert (record.before, record.after, record.checkpoint, record.pause_ms) == (1, 4, 0, 1500)
    assert job.record().rescale == record and job.record().parallelism == 4
    assert "from 1 to 4 at checkpoint 0, paused for 1.5 s" in (Path(job.record().log_dir) / "driver.log").read_text()
    assert job.status() is JobStatus.RUNNING and job.record().failures == []
    job.cancel()


def test_e9_a_later_attempt_and_a_resumed_job_keep_the_parallelism(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    rescaling = Rescaling(job, 3)
    attempt_number(place, 2).waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord)
    place.attempts[-1].end(TaskManagerLostError("gone"))
    assert attempt_number(place, 3).attempt.graph.parallelism == 3
    claim = place.log().claim
    assert claim is not None and claim.rescaled == 3
    job.cancel()


def test_e9_the_command_that_resumes_a_rescaled_job_does_not_undo_the_rescale(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with submitted(Submission(Path("totals.py"), parallelism=1)):
        job = running(place, monkeypatch)
    assert job._advice.command.endswith("run -p 1 --resume totals.py")
    rescaling = Rescaling(job, 3)
    attempt_number(place, 2).waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord)
    job.suspend(KeyboardInterrupt())
    assert job.describe_end().endswith("run --resume totals.py")


def test_e9_a_crash_in_the_pause_leaves_a_job_that_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    job = running(place, monkeypatch)
    place.attempts[0].on_suspend = lambda: TaskManagerLostError("gone")
    rescaling = Rescaling(job, 2)
    second = attempt_number(place, 2)
    assert second.attempt.graph.parallelism == 2
    second.waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord)
    job.cancel()


def test_e9_an_attempt_that_begins_at_the_old_parallelism_meanwhile_is_stopped_as_well(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = place.running()

    def take() -> int:
        place.attempts[0].end(TaskManagerLostError("gone"))
        attempt_number(place, 2)
        return 0

    monkeypatch.setattr(job._parts.checkpoints, "take", take)
    rescaling = Rescaling(job, 2)
    third = attempt_number(place, 3)
    assert place.attempts[1].attempt.graph.parallelism == 1 and place.attempts[1].suspended.is_set()
    assert third.attempt.graph.parallelism == 2
    third.waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord)
    job.cancel()


def test_e9_an_attempt_whose_last_checkpoint_takes_too_long_is_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = place.job(place.settings(**CHECKPOINTS, **{"execution.checkpointing.timeout": "10 ms"}))
    first = attempt_number(place, 1)
    monkeypatch.setattr(job._parts.checkpoints, "take", lambda: 0)
    first.on_suspend = lambda: None
    rescaling = Rescaling(job, 2)
    second = attempt_number(place, 2)
    assert first.cancelled.is_set() and second.attempt.graph.parallelism == 2
    second.waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord)
    job.cancel()


def test_e9_a_rescale_whose_checkpoint_fails_leaves_the_job_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = place.running()

    def fail() -> int:
        raise JobError("the disk is full")

    monkeypatch.setattr(job._parts.checkpoints, "take", fail)
    for _ in range(2):  # the first one does not block the second
        with pytest.raises(JobError, match="the disk is full"):
            job.request_rescale(2)()
    assert len(place.attempts) == 1 and not place.attempts[0].suspended.is_set() and job.graph.parallelism == 1
    job.cancel()


def test_e9_a_job_that_ends_in_the_pause_is_not_rescaled(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    job = running(place, monkeypatch)
    place.attempts[0].on_suspend = lambda: Ended.INPUT
    found = Rescaling(job, 2).result()
    assert isinstance(found, JobFailedError) and "the job was not rescaled: it is FINISHED" in str(found)
    claim = place.log().claim
    assert claim is not None and claim.rescaled is UNSET


def test_e9_a_cancelled_job_does_not_begin_at_the_new_parallelism(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    place.attempts[0].on_suspend = lambda: None
    rescaling = Rescaling(job, 2)
    assert place.attempts[0].suspended.wait(LIMIT_S)
    job.cancel()
    assert isinstance(rescaling.result(), JobFailedError)
    assert job.status() is JobStatus.CANCELED and len(place.attempts) == 1


def unchained_graph(sinks: Sinks) -> JobGraph:
    """A function whose sink sets a parallelism of its own: only at 1 do both run in one stage."""
    graph = StreamGraph()
    source = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    function = add_keyed(graph, source, lambda event: event.key, Everything(), EVERYTHING)
    sink = graph.add("sink", "rows", (function.id,), SinkSpec("sink", sinks.rows), TAGGED)
    sink.uid, sink.parallelism = ROWS_SINK, 1
    return build_job_graph(graph, GraphSettings(1, MAX_PARALLELISM))


def complete_with_rows_in_flight(attempt: Attempt) -> None:
    """Checkpoint 1, which holds rows that its barrier has overtaken."""
    stage = attempt.graph.stages[-1]
    whole, rows = snapshot(0, (0, MAX_PARALLELISM - 1)), [inline_file(b"rows")]
    assert isinstance(attempt.log, JobLog)
    first = load_manifest(attempt.log.storage, attempt.log.view().lineage[0])
    overtaken = replace(whole, tables=[], operator_uids=list(stage.uids), spool=rows)
    second = replace(first, checkpoint_id=1, epoch=4, parent=0, subtasks=[overtaken])
    complete(second, attempt.log)


def test_e9_a_job_with_rows_in_flight_to_a_stage_that_would_be_split_is_not_rescaled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.graph = unchained_graph(Sinks())
    job = running(place, monkeypatch)
    monkeypatch.setattr(job._parts.checkpoints, "take", lambda: complete_with_rows_in_flight(place.attempts[0].attempt))
    with pytest.raises(JobConflictError, match="checkpoint 1 is unaligned and holds rows in flight"):
        job.request_rescale(2)()
    assert len(place.attempts) == 1 and not place.attempts[0].suspended.is_set() and job.graph.parallelism == 1
    job.cancel()


def test_e9_a_last_checkpoint_with_rows_in_flight_to_a_stage_that_would_be_split_goes_on_as_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.graph = unchained_graph(Sinks())
    job = running(place, monkeypatch)

    def suspend() -> Ended:
        complete_with_rows_in_flight(place.attempts[0].attempt)
        return Ended.SUSPENDED

    place.attempts[0].on_suspend = suspend
    rescaling = Rescaling(job, 2)
    second = attempt_number(place, 2)
    assert second.attempt.graph.parallelism == job.graph.parallelism == 1
    found, claim = rescaling.result(), place.log().claim
    assert isinstance(found, JobConflictError) and "one stage at parallelism 1, but not at 2" in str(found)
    assert claim is not None and (claim.attempt, claim.rescaled) == (2, UNSET)
    assert [record.failure for record in job.record().rescales] == [str(found)]
    assert job.record().failures == [] and not second.suspended.is_set()
    job.cancel()


@pytest.mark.parametrize("error", [TaskManagerLostError("no resources"), UsageError("no resources")])
def test_e9_a_job_whose_first_attempt_at_the_new_parallelism_fails_goes_back_to_the_old_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: PenstockError
) -> None:
    """Also without a restart strategy: the way back is part of the rescale."""
    job = place.running(**CHECKPOINTS, **{"restart-strategy.type": "none"})
    monkeypatch.setattr(job._parts.checkpoints, "take", lambda: 0)
    rescaling = Rescaling(job, 4)
    attempt_number(place, 2).end(error)
    third = attempt_number(place, 3)
    assert third.attempt.graph.parallelism == job.graph.parallelism == job.record().parallelism == 1
    assert third.attempt.manifest is not None and third.attempt.manifest.checkpoint_id == 0
    found, claim = rescaling.result(), place.log().claim
    assert isinstance(found, JobFailedError)
    reason = "its first attempt at parallelism 4 has failed: no resources"
    assert str(found) == f"the job goes back to parallelism 1: {reason}"
    assert claim is not None and (claim.attempt, claim.parallelism, claim.rescaled) == (3, 1, UNSET)
    record = job.record()
    assert [(one.before, one.after, one.failure) for one in record.rescales] == [(1, 4, reason)]
    assert record.rescale is None and [(one.attempt, one.error) for one in record.failures] == [
        (2, type(error).__name__)
    ]
    log = (Path(record.log_dir) / "driver.log").read_text(encoding="utf-8")
    assert f"the job was not rescaled to 4 (requested): {reason}" in log
    assert "attempt 2 has failed, the job goes back to parallelism 1" in log
    third.end(TaskManagerLostError("gone"))  # from here on a failure is one as any other
    job.wait_for_end()
    assert job.status() is JobStatus.FAILED and len(place.attempts) == 3


def test_e9_a_job_goes_back_to_the_parallelism_of_the_rescale_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    rescaling = Rescaling(job, 2)
    attempt_number(place, 2).waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord)
    rescaling = Rescaling(job, 4)
    attempt_number(place, 3).end(TaskManagerLostError("gone"))
    assert attempt_number(place, 4).attempt.graph.parallelism == 2
    claim = place.log().claim
    assert claim is not None and (claim.parallelism, claim.rescaled) == (2, 2)
    assert isinstance(rescaling.result(), JobFailedError)
    rescaling = Rescaling(job, 3)  # nothing of the failed one stands in the way
    attempt_number(place, 5).waits_for_rows = True
    assert isinstance(rescaling.result(), RescaleRecord) and job.graph.parallelism == 3
    job.cancel()


def test_e9_a_job_whose_claim_at_the_new_parallelism_fails_goes_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    claims: list[int] = []

    def claim(self: JobLog, entry: Claim, *, reopen: bool = False) -> None:
        claims.append(entry.parallelism)
        if len(claims) == 1:
            raise StorageError("away")
        real_claim(self, entry, reopen=reopen)

    real_claim = JobLog.claim
    monkeypatch.setattr(JobLog, "claim", claim)
    rescaling = Rescaling(job, 4)
    assert attempt_number(place, 2).attempt.graph.parallelism == 1
    assert claims == [4, 1] and isinstance(rescaling.result(), JobFailedError)
    job.cancel()


def test_e9_a_driver_that_lost_its_job_in_the_pause_does_not_go_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    rescaling = Rescaling(job, 4)
    second = attempt_number(place, 2)
    other = claimed_log(LocalStorage(place.folder / JOB_ID))
    second.end(TaskManagerLostError("gone"))
    job.wait_for_end()
    assert job.status() is JobStatus.FAILED and len(place.attempts) == 2 and other.view().attempt == 3
    assert isinstance(rescaling.result(), JobFailedError)


def test_e9_a_job_that_is_suspended_before_its_first_attempt_at_the_new_parallelism_fails_stays_suspended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    rescaling = Rescaling(job, 4)
    attempt_number(place, 2).on_suspend = lambda: TaskManagerLostError("gone")
    job.suspend(KeyboardInterrupt())
    assert job.status() is JobStatus.SUSPENDED and len(place.attempts) == 2
    assert isinstance(rescaling.result(), JobFailedError)


@pytest.mark.parametrize(
    ("parallelism", "message"),
    [
        (0, "parallelism 0 is not between 1 and 12"),
        (13, "parallelism 13 is not between 1 and 12, the job's max parallelism"),
        (1, "the job runs at parallelism 1 already"),
    ],
)
def test_e9_a_parallelism_that_cannot_be_is_refused(place: Place, parallelism: int, message: str) -> None:
    job = place.running()
    with pytest.raises(UsageError, match=message):
        job.request_rescale(parallelism)
    job.cancel()


def test_e9_only_a_running_job_with_checkpoints_is_rescaled_and_only_once_at_a_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(place, monkeypatch)
    place.attempts[0].on_suspend = lambda: None
    rescaling = Rescaling(job, 2)
    with pytest.raises(JobConflictError, match="the job is being rescaled to 2"):
        job.request_rescale(3)
    job.cancel()
    rescaling.result()
    with pytest.raises(JobConflictError, match="CANCELED: only a running job"):
        job.request_rescale(3)
