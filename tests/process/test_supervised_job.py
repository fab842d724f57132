"""`penstock supervise` with a real job: it fails for good, then its driver is killed, and the result is exact."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from penstock.control.registry import JobRecord
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import ROOT, Place, is_alive
from tests.faults.outcome import judge
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

SETTINGS = (
    ("penstock.epoch.interval", "500 ms"),
    ("penstock.supervise.backoff", "100 ms"),
    ("restart-strategy.type", "none"),
)
FAULTY_EVENT = 3_000 * 7919
"""About a third of the events come before it."""


class SupervisedJob:
    """A supervisor and what it has printed."""

    def __init__(self, place: Place, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.place = place
        self.process = process
        self.log = log

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def running(self, *, not_by: int | None = None) -> JobRecord:
        """The job, once another driver than `not_by` has committed an epoch of its own."""

        def found() -> list[JobRecord]:
            assert self.process.poll() is None, self.said()
            records = [one for one in self.place.registry.list() if one.pid != not_by and one.status == "RUNNING"]
            return [one for one in records if one.phase is None and one.epoch > 0]

        return wait_until(found)[0]


@contextmanager
def supervised(place: Place, fault: str) -> Iterator[SupervisedJob]:
    command = place.command()
    command[command.index("run")] = "supervise"
    log = place.folder / "supervisor.log"
    log.parent.mkdir(parents=True)
    own = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(place.folder / "spark"), "FAULT": fault}
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=place.folder, env={**os.environ, **own}
        )
    try:
        yield SupervisedJob(place, process, log)
    finally:
        left = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait(LIMIT_S)
        for child in filter(is_alive, left):
            with suppress(psutil.NoSuchProcess):
                child.kill()


def test_u3_a_job_that_fails_and_a_driver_that_is_killed_are_started_again_and_exact(tmp_path: Path) -> None:
    events, marker = tmp_path / "events", tmp_path / "raised"
    write_events(Load(events=12_000, keys=300, files=60), events)
    place = Place(tmp_path / "job", events, settings=SETTINGS, resumes=False)
    with supervised(place, f"raise-once:{FAULTY_EVENT}:{marker}") as job:
        first = job.running()
        second = job.running(not_by=first.pid)
        assert marker.exists() and "has failed" in job.said(), "without restarts a failure of a function ends the job"
        os.kill(second.pid, signal.SIGKILL)
        third = job.running(not_by=second.pid)
        assert {first.job_id, second.job_id, third.job_id} == {first.job_id}
        assert first.attempt < second.attempt < third.attempt
        assert job.process.wait(LIMIT_S) == 0, job.said()
    assert "was killed by signal 9; starting it again" in job.said()
    assert [one.job_id for one in place.registry.list()] == [first.job_id]
    verdict = judge(batch_result(events), place.job_folder, place.output)
    assert verdict.exact, str(verdict)
