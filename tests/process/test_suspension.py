"""Ctrl-C to all processes of a job, as a terminal sends it, or SIGTERM to its driver: it is suspended, then exact."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.control.interrupts import SAME_SIGNAL_S
from penstock.control.registry import JobRecord
from penstock.storage.local import LocalStorage
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import Place, is_alive
from tests.faults.outcome import judge
from tests.process.programs import Started
from tests.waiting import LIMIT_S, Stopwatch, wait_until

pytestmark = pytest.mark.process

LOAD = Load(events=3_000, keys=200, files=12)
SETTINGS = (
    ("penstock.epoch.interval", "300 ms"),  # so that the job does not end before it is interrupted
    ("penstock.suspend.timeout", "5 min"),  # the machine may be busy
)
NEVER_MS = 3_600_000
"""Between checkpoints: all progress is in those that an interrupt takes."""


def start(place: Place, resume: str = "--resume") -> Started:
    return Started.of([resume if part == "--resume" else part for part in place.command()], place.folder)


def new_place(folder: Path) -> Place:
    """The folder of a job that takes a while, and its input."""
    write_events(LOAD, folder / "events")
    place = Place(folder / "job", folder / "events", checkpoint_ms=NEVER_MS, settings=SETTINGS)
    place.folder.mkdir()
    return place


def java_of(run: Started) -> list[psutil.Process]:
    """Spark is starting."""
    assert run.process.poll() is None, run.err
    found = []
    for process in psutil.Process(run.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            found += [process] if "java" in process.name() else []
    return found


def record_of(place: Place, run: Started) -> JobRecord | None:
    return next((record for record in place.registry.list() if record.pid == run.process.pid), None)


def await_epoch(place: Place, run: Started, epoch: int) -> None:
    def reached() -> bool:
        assert run.process.poll() is None, run.err
        record = record_of(place, run)
        return record is not None and record.epoch >= epoch

    wait_until(reached)


def log_of(place: Place) -> LogView:
    return read_log(LocalStorage(place.job_folder))


def test_f26_ctrl_c_suspends_a_job_and_resume_goes_on_exactly(tmp_path: Path) -> None:
    place = new_place(tmp_path)

    run = start(place)
    java = wait_until(lambda: java_of(run))
    assert run.interrupt() == 130  # during start-up
    wait_until(lambda: not any(map(is_alive, java)))
    assert "Traceback" not in run.err and "Error" not in run.err, run.err

    run = start(place)
    await_epoch(place, run, 3)
    assert run.interrupt() == 130
    first = log_of(place)
    assert first.status is None and first.lineage[-1].epoch >= 3
    last_line = f"job 'tally' is suspended at checkpoint {first.lineage[-1].checkpoint}; resume it with: "
    assert run.err.splitlines()[-1].startswith(last_line) and "Traceback" not in run.err, run.err
    assert run.out.splitlines()[-1].endswith(" SUSPENDED")

    run = start(place)
    await_epoch(place, run, first.lineage[-1].epoch + 2)
    os.killpg(run.process.pid, signal.SIGINT)
    watch = Stopwatch()
    wait_until(lambda: "suspending 'tally'" in run.err and watch.seconds() > SAME_SIGNAL_S)
    assert run.interrupt() == 130  # the second: at once
    assert "Traceback" not in run.err and "resume it with: " in run.err.splitlines()[-1], run.err
    assert log_of(place).status is None

    run = start(place)
    assert run.process.wait(LIMIT_S) == 0, run.err
    assert judge(batch_result(place.events), place.job_folder, place.output).exact


def test_f26_sigterm_suspends_a_job_and_resume_only_goes_on_or_refuses(tmp_path: Path) -> None:
    place = new_place(tmp_path)

    run = start(place, "--resume-only")
    assert run.process.wait(LIMIT_S) == 3
    assert "no job named 'tally' to resume" in run.err and "Traceback" not in run.err, run.err

    run = start(place)
    await_epoch(place, run, 3)
    run.process.terminate()  # to the driver alone, as systemd and Kubernetes send it
    assert run.process.wait(LIMIT_S) == 143
    found = log_of(place)
    assert found.status is None and found.lineage[-1].epoch >= 3
    last_line = f"job 'tally' is suspended at checkpoint {found.lineage[-1].checkpoint}; resume it with: "
    assert run.err.splitlines()[-1].startswith(last_line) and "Traceback" not in run.err, run.err

    run = start(place, "--resume-only")
    assert run.process.wait(LIMIT_S) == 0, run.err
    assert judge(batch_result(place.events), place.job_folder, place.output).exact
