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
        sources = MagicMock(is_known=is_known)
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
