"""The driver's side of an attempt on Spark, without Spark."""

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.no_checkpoints import NoCheckpoints, NoJobLog
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.common import Configuration
from penstock.errors import JobFailedError
from penstock.jobmanager.attempt import epoch_loop
from penstock.jobmanager.attempt.attempt import Attempt, Ended, JobIdentity
from penstock.jobmanager.attempt.attempt_progress import AttemptObserver
from penstock.jobmanager.attempt.epoch_loop import EpochLoop, EpochParts
from penstock.jobmanager.attempt.spark_attempt import SparkAttempt
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.ids import JobId
from penstock.spark.epoch_query import QuerySettings
from penstock.testing import ManualClock
from tests.sim.job import Sinks, small_graph
from tests.waiting import LIMIT_S, wait_until

JOB = JobIdentity("0" * 32, "job", "job.py")


class Running:
    """An attempt whose state is loaded and whose query runs, with mocks in Spark's place."""

    def __init__(self, folder: Path, *, bounded: bool = True, is_known: bool = True) -> None:
        writer = WriterIdentity(JobId(JOB.job_id), 1, "writer")
        graph = small_graph(1, Sinks())
        plan = Attempt(JOB, graph, writer, "token", NoJobLog(), NoCheckpoints())
        settings, clock = JobSettings.of("job", Configuration()), ManualClock()
        self.attempt = SparkAttempt(plan, settings, folder, MagicMock(), clock, AttemptObserver())
        self.attempt._graph = MagicMock(bounded=bounded)
        self.tracker = self.attempt.tracker = MagicMock(waiting=0, failure=None)
        self.query = self.attempt._query = MagicMock(failure=None)
        sources = self.attempt._sources = MagicMock(is_known=is_known)
        sources.have_ended.return_value = False
        parts = EpochParts(self.tracker, sources, self.attempt.savepoints, MagicMock(), self.attempt._end)
        self.loop = self.attempt._loop = EpochLoop(plan, parts, MagicMock(), clock, lambda summary: None)
        self.loop._query = self.query


def test_no_epoch_begins_before_the_loop_knows_its_query(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    is_free: list[bool] = []

    class Query:
        """Spark may call back as soon as the query has started."""

        def __init__(self, frame: Any, settings: Any, run_epoch: Any) -> None:
            lock = run_epoch.__self__._lock
            thread = threading.Thread(target=lambda: is_free.append(lock.acquire(blocking=False)))
            thread.start()
            thread.join()

    monkeypatch.setattr(epoch_loop, "EpochQuery", Query)
    Running(tmp_path).loop.start_query(MagicMock(), QuerySettings(tmp_path, True, 0, {}))
    assert is_free == [False]


def test_n3_what_fails_behind_the_savepoint_of_a_stop_changes_nothing(tmp_path: Path) -> None:
    """Without checkpoints another attempt would start from nothing, and the savepoint has everything."""
    attempt = Running(tmp_path).attempt

    def fail_late() -> Ended:
        attempt.savepoints._stopped = SavepointRequest("/savepoints", then="stop")
        raise JobFailedError("a TaskManager is lost")

    attempt._run = fail_late  # type: ignore[method-assign]
    assert attempt.run() is Ended.STOPPED


@pytest.mark.parametrize("then", ["stop", "go_on"])
def test_r30_a_stop_that_an_attempt_finds_comes_before_the_end_of_its_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: Any
) -> None:
    running = Running(tmp_path)
    savepoints = running.attempt.savepoints
    request = SavepointRequest(str(tmp_path), then=then)
    savepoints.request(request)
    running.query.wait.return_value = True

    def stop() -> None:
        savepoints._request, savepoints._stopped = None, request

    monkeypatch.setattr(running.loop, "_empty_epoch", stop)
    assert running.attempt._wait_for_end() is (Ended.STOPPED if then == "stop" else Ended.INPUT)


def test_r23_no_epoch_comes_before_a_new_source_has_written_down_where_it_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A checkpoint without its initial offset would let it begin somewhere else after a failure."""
    running = Running(tmp_path, bounded=False, is_known=False)
    running.query.has_polled = False
    running.tracker.waiting = 1  # an epoch is due
    polls = iter([False] * 3)
    epochs: list[int] = []

    def wait(seconds: float) -> bool:
        if next(polls, None) is None:
            running.query.has_polled = True
        return False

    def empty_epoch() -> None:
        epochs.append(len(list(polls)))
        running.attempt._end.cancelled.set()

    running.query.wait = wait
    monkeypatch.setattr(running.loop, "_empty_epoch", empty_epoch)
    assert running.attempt._wait_for_end() is Ended.CANCELLED
    assert epochs == [0]


class Suspended(Running):
    """An attempt of a job with checkpoints that is being suspended; its epochs are counted, not run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, epoch: int, waiting: int = 0) -> None:
        super().__init__(folder, bounded=False)
        self.tracker.epoch, self.tracker.waiting = epoch, waiting
        self.query.wait.return_value = False
        self.covered = 0
        self.loop._coordinator = MagicMock(is_settled=True, needs_first_checkpoint=False)
        self.loop._coordinator.covers.side_effect = lambda epoch: epoch <= self.covered
        self.epochs: list[dict[str, Any]] = []
        monkeypatch.setattr(self.loop, "_epoch", self._epoch)
        assert self.attempt.suspend()

    def _epoch(self, rows: Any, session: Any, batch_id: int | None, **flags: Any) -> None:
        self.epochs.append({"rows": rows, **flags})
        self.tracker.epoch += 1
        if flags.get("forced"):
            self.covered = self.tracker.epoch


def test_r32_a_job_is_suspended_at_a_checkpoint_of_all_that_it_has_processed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Suspended(tmp_path, monkeypatch, epoch=7)
    assert running.attempt._wait_for_end() is Ended.SUSPENDED
    assert running.epochs == [{"rows": None, "final": False, "forced": True}]


@pytest.mark.parametrize("epoch", [0, 7])
def test_r32_a_job_that_has_processed_nothing_since_its_last_checkpoint_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    running = Suspended(tmp_path, monkeypatch, epoch=epoch)
    running.covered = epoch
    assert running.attempt._wait_for_end() is Ended.SUSPENDED
    assert running.epochs == []


def test_r32_a_checkpoint_that_is_pending_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Suspended(tmp_path, monkeypatch, epoch=7)
    running.loop._coordinator.is_settled = False  # type: ignore[misc]
    assert not running.loop.take_last_checkpoint()
    assert running.epochs == []
    running.covered = 7
    assert running.loop.take_last_checkpoint()


def test_r32_rows_that_come_while_a_job_is_suspended_are_left_to_the_one_that_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Suspended(tmp_path, monkeypatch, epoch=7)
    failures: list[BaseException] = []

    def call_back() -> None:
        try:
            running.loop.run_epoch(MagicMock(), 3)
        except JobFailedError as error:
            failures.append(error)  # so that Spark does not commit the batch

    spark = threading.Thread(target=call_back, daemon=True)
    spark.start()
    assert running.attempt._wait_for_end() is Ended.SUSPENDED
    running.attempt._end.over.set()
    spark.join(LIMIT_S)
    assert len(failures) == 1 and [epoch["rows"] for epoch in running.epochs] == [None]
    running.tracker.fail.assert_not_called()


def test_r32_rows_in_flight_are_in_the_last_checkpoint_and_block_it_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspension that comes while `run_epoch` processes a spool: the rows of its batch are not read before it."""
    running = Suspended(tmp_path, monkeypatch, epoch=7, waiting=5)
    end = running.attempt._end
    end.suspending.clear()

    def suspend(*_: Any, **__: Any) -> None:
        end.suspending.set()

    def call_back() -> None:
        try:
            running.loop.run_epoch(MagicMock(), 3)
        except JobFailedError as error:
            running.query.failure = str(error)
            running.query.wait.return_value = True  # Spark's query ends with the error

    monkeypatch.setattr(epoch_loop, "require_files", lambda *_: None)
    monkeypatch.setattr(running.loop, "_epoch", suspend)
    spark = threading.Thread(target=call_back, daemon=True)
    spark.start()
    assert end.suspending.wait(LIMIT_S)
    wait_until(lambda: is_free(running.loop))
    monkeypatch.setattr(running.loop, "_epoch", running._epoch)
    assert running.attempt._wait_for_end() is Ended.SUSPENDED
    assert [epoch["forced"] for epoch in running.epochs] == [True]
    end.over.set()
    spark.join(LIMIT_S)
    assert "is being suspended" in running.query.failure
    running.tracker.fail.assert_not_called()


def is_free(loop: EpochLoop) -> bool:
    """No epoch runs."""
    acquired = loop._lock.acquire(blocking=False)
    if acquired:
        loop._lock.release()
    return acquired


def test_r32_a_savepoint_that_was_requested_is_taken_before_the_job_is_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Suspended(tmp_path, monkeypatch, epoch=7)
    savepoints = running.attempt.savepoints
    savepoints.request(SavepointRequest(str(tmp_path)))

    def wait(seconds: float) -> bool:
        if running.epochs:
            savepoints.close()  # it has ended
        return False

    running.query.wait.side_effect = wait
    running.loop._rows_at_s -= 1.0  # long ago
    assert running.attempt._wait_for_end() is Ended.SUSPENDED
    assert [epoch["forced"] for epoch in running.epochs] == [False, True]


def test_r32_an_attempt_that_has_not_begun_to_read_is_cancelled(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.attempt._query = None
    assert not running.attempt.suspend()
    assert running.attempt._end.cancelled.is_set()
