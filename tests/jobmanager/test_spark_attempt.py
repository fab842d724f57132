"""The driver's side of an attempt on Spark, without Spark."""

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.common import Configuration
from penstock.errors import JobFailedError
from penstock.jobmanager.attempt import spark_attempt
from penstock.jobmanager.attempt.attempt_plan import AttemptPlan, Ended
from penstock.jobmanager.attempt.spark_attempt import SparkAttempt
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.testing import ManualClock
from tests.sim.job import Sinks, small_graph


def attempt_of(tmp_path: Path) -> SparkAttempt:
    plan = AttemptPlan(
        "0" * 32,
        1,
        "token",
        small_graph(1, Sinks()),
        JobSettings.of("job", Configuration()),
        None,
        None,
        None,
        None,
        tmp_path,
    )
    return SparkAttempt(plan, MagicMock(), ManualClock(), lambda summary: None)


def test_no_epoch_begins_before_the_attempt_knows_its_query(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    is_free: list[bool] = []

    class Query:
        """Spark may call back as soon as the query has started."""

        def __init__(self, frame: Any, settings: Any, run_epoch: Any) -> None:
            lock = run_epoch.__self__._lock
            thread = threading.Thread(target=lambda: is_free.append(lock.acquire(blocking=False)))
            thread.start()
            thread.join()

    monkeypatch.setattr(spark_attempt, "EpochQuery", Query)
    monkeypatch.setattr(spark_attempt, "open_sources", MagicMock())
    attempt = attempt_of(tmp_path)
    attempt.book = MagicMock()
    attempt._start_query()
    attempt._over.set()
    assert is_free == [False]


def test_n3_what_fails_behind_the_savepoint_of_a_stop_changes_nothing(tmp_path: Path) -> None:
    """Without checkpoints another attempt would start from nothing, and the savepoint has everything."""
    attempt = attempt_of(tmp_path)

    def fail_late() -> Ended:
        attempt.savepoints._stopped = SavepointRequest("/savepoints", then="stop")
        raise JobFailedError("a TaskManager is lost")

    attempt._run = fail_late  # type: ignore[method-assign]
    assert attempt.run() is Ended.STOPPED


@pytest.mark.parametrize("then", ["stop", "go_on"])
def test_r30_a_stop_that_an_attempt_finds_comes_before_the_end_of_its_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: Any
) -> None:
    attempt = attempt_of(tmp_path)
    request = SavepointRequest(str(tmp_path), then=then)
    attempt.savepoints.request(request)
    attempt._graph = MagicMock(bounded=True)
    attempt._query = MagicMock(failure=None)
    attempt._sources = MagicMock(is_known=True)
    attempt.book = MagicMock(waiting=0, failure=None, epoch=3)
    attempt._query.wait.return_value = True

    def stop() -> None:
        attempt.savepoints._request, attempt.savepoints._stopped = None, request

    monkeypatch.setattr(attempt, "_empty_epoch", stop)
    assert attempt._drive() is (Ended.STOPPED if then == "stop" else Ended.INPUT)


def test_r23_no_epoch_comes_before_a_new_source_has_written_down_where_it_begins(tmp_path: Path) -> None:
    """A checkpoint without its initial offset would let it begin somewhere else after a failure."""
    attempt = attempt_of(tmp_path)
    attempt._sources = MagicMock(is_known=False)
    attempt.book = MagicMock(waiting=0, failure=None)
    attempt._query = query = MagicMock(has_looked=False)
    polls = iter([False] * 3)
    epochs: list[int] = []

    def wait(seconds: float) -> bool:
        if next(polls, None) is None:
            query.has_looked = True
        return False

    def empty_epoch() -> None:
        epochs.append(len(list(polls)))
        attempt._cancelled.set()

    query.wait = wait
    attempt._run_empty_epoch_if_due = empty_epoch  # type: ignore[method-assign]
    assert attempt._drive() is Ended.CANCELLED
    assert epochs == [0]
