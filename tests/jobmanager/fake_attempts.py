"""Jobs whose attempts are fakes that end as a test says."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.control.registry import Registry
from penstock.errors import PenstockError
from penstock.jobmanager import job as job_module
from penstock.jobmanager.attempt.attempt import Attempt, Ended, JobIdentity
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.model.snapshot import SourcePosition
from penstock.storage.local import LocalStorage
from penstock.testing import ManualClock
from tests.sim.job import Sinks, small_graph
from tests.waiting import LIMIT_S, wait_until

JOB_ID = "c" * 32
CHECKPOINTS = {"execution.checkpointing.interval": "1h"}


class FakeAttempt:
    """An attempt on Spark that ends as the test says. It completes checkpoint 0 when it starts."""

    def __init__(self, attempt: Attempt, *_: Any) -> None:
        self.attempt = attempt
        self.savepoints = MagicMock(stopped=None)
        self.savepoints.close.return_value = None
        self.tracker = self.phase = None
        self.has_backlog = False
        self.waits_for_rows = False
        self.started = threading.Event()
        self.suspended = threading.Event()
        self.cancelled = threading.Event()
        self.is_loaded = True
        self.on_suspend: Callable[[], Ended | PenstockError | None] = lambda: Ended.SUSPENDED
        self.result: Ended | PenstockError = Ended.CANCELLED
        self.over = threading.Event()

    def run(self) -> Ended:
        if self.attempt.coordinator.needs_first_checkpoint:
            self.attempt.coordinator.first_checkpoint(SourcePosition(-1, None, []))
        self.started.set()
        assert self.over.wait(LIMIT_S)
        if isinstance(self.result, PenstockError):
            raise self.result
        return self.result

    def suspend(self) -> bool:
        self.suspended.set()
        result = self.on_suspend()
        if result is not None:
            self.end(result)
        return self.is_loaded

    def cancel(self) -> None:
        self.cancelled.set()
        self.end(self.result)

    def end(self, result: Ended | PenstockError) -> None:
        self.result = result
        self.over.set()

    def rows_so_far(self) -> None: ...

    def processes(self) -> list[Any]:
        return []


class Place:
    """A folder for the checkpoints and the registry of one job."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.attempts: list[FakeAttempt] = []
        self.graph = small_graph(1, Sinks())

        def new_attempt(*arguments: Any) -> FakeAttempt:
            self.attempts.append(FakeAttempt(*arguments))
            return self.attempts[-1]

        monkeypatch.setattr(job_module, "SparkAttempt", new_attempt)

    def settings(self, **values: str) -> JobSettings:
        own = {"execution.checkpointing.dir": str(self.folder), "penstock.registry.dir": str(self.folder / "registry")}
        return JobSettings.of("job", Configuration.from_dict({**own, **values}))

    def job(self, settings: JobSettings, *, resumed: bool = False, claimed: Callable[[], None] = lambda: None) -> Job:
        identity = JobIdentity(JOB_ID, "job", "job.py")
        request = JobRequest(identity, self.graph, settings, resumed=resumed, claimed=claimed)
        return Job(request, MagicMock(), ManualClock())

    def running(self, **values: str) -> Job:
        job = self.job(self.settings(**(values or CHECKPOINTS)))
        wait_until(lambda: self.attempts and self.attempts[-1].started.is_set())
        return job

    def log(self) -> LogView:
        return read_log(LocalStorage(self.folder / JOB_ID))

    def status(self) -> str:
        return Registry(self.folder / "registry").read(JOB_ID).status
