"""The driver's side of an attempt on Spark, without Spark."""

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.common import Configuration
from penstock.jobmanager import spark_attempt
from penstock.jobmanager.attempt_plan import AttemptPlan
from penstock.jobmanager.settings import JobSettings
from penstock.jobmanager.spark_attempt import SparkAttempt
from penstock.testing import ManualClock
from tests.sim.job import Sinks, small_graph


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
    attempt = SparkAttempt(plan, MagicMock(), ManualClock(), lambda summary: None)
    attempt.book = MagicMock()
    attempt._start_query()
    attempt._over.set()
    assert is_free == [False]
