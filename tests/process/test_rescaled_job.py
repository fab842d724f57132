"""A job that is rescaled under load, with kills in between, in the pause and at the new parallelism (features E9)."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.cli.main import main
from penstock.control.registry import JobRecord
from penstock.storage.local import LocalStorage
from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import read_hits
from tests.faults.jobs import ROOT, JobProcess, Place, is_alive
from tests.faults.outcome import judge
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

LOAD = Load(events=40_000, keys=500, files=80)
SETTINGS = (("penstock.epoch.interval", "750 ms"), ("restart-strategy.fixed-delay.delay", "100 ms"))
FIRST_AT_NEW = "C26.before:stop:role=driver:hit=2"
"""The driver stops in its second attempt, whose TaskManagers have the state; its query does not read yet."""


def command_for(place: Place, job_id: str, parallelism: int) -> list[str]:
    return ["rescale", job_id, "-p", str(parallelism), f"-Dpenstock.registry.dir={place.registry.folder}"]


def has_rescaled(record: JobRecord | None, parallelism: int) -> bool:
    assert record is not None and not record.ended, "the job ended before it was rescaled"
    return record.rescale is not None and record.rescale.after == record.parallelism == parallelism


def rescale(job: JobProcess, place: Place, parallelism: int) -> None:
    """Until it is done: a kill may end the checkpoint that it begins with, or send the job back."""
    command = command_for(place, job.running_record(LIMIT_S).job_id, parallelism)
    wait_until(lambda: has_rescaled(job.record(), parallelism) or main(command) == 0)


def kill_a_taskmanager(job: JobProcess) -> psutil.Process:
    """The process, which was alive and is gone."""
    victim = wait_until(job.taskmanagers)[0]
    assert is_alive(victim)
    victim.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(victim))
    return victim


def rescale_and_kill(job: JobProcess, place: Place, parallelism: int, *, in_pause: bool) -> None:
    """Rescale the job while it processes rows, then kill a TaskManager: the next attempt keeps the parallelism.

    `in_pause`: one is killed as well between the last rows at the old parallelism and the first ones at the new.
    """
    seen = job.running_record(LIMIT_S)
    wait_until(lambda: job.running_record(LIMIT_S).epoch > seen.epoch)
    log = Path(seen.log_dir) / "driver.log"
    begun = f"the job is rescaled from {seen.parallelism} to {parallelism}"
    hits: list[psutil.Process] = []

    def kill_in_pause() -> None:
        wait_until(lambda: begun in log.read_text(encoding="utf-8"), pause_s=0.005)
        hits.append(kill_a_taskmanager(job))

    killer = threading.Thread(target=kill_in_pause, daemon=True)
    if in_pause:
        killer.start()
    rescale(job, place, parallelism)
    if in_pause:
        killer.join(LIMIT_S)
        assert len(hits) == 1
    record = wait_until(lambda: [found for found in [job.running_record()] if has_rescaled(found, parallelism)])[0]
    assert record.rescale is not None and record.rescale.pause_ms > 0
    kill_a_taskmanager(job)
    wait_until(lambda: job.running_record(LIMIT_S).attempt > record.attempt)
    assert job.running_record(LIMIT_S).parallelism == parallelism


def test_e9_a_job_rescaled_under_load_with_kills_in_between_is_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = tmp_path / "events"
    write_events(LOAD, events)
    place = Place(tmp_path / "job", events, settings=SETTINGS)
    job = JobProcess(place)
    try:
        for parallelism in (4, 1, 3):
            rescale_and_kill(job, place, parallelism, in_pause=parallelism == 1)
        job.kill()
        job = JobProcess(replace(place, parallelism=None))
        assert job.running_record(LIMIT_S).parallelism == 3, "without -p the parallelism stays"
        assert job.wait(LIMIT_S) == 0, job.log_tail()
    finally:
        job.close()
    verdict = judge(batch_result(events), place.job_folder, place.output)
    assert verdict.exact, str(verdict)
    assert "paused for" in capsys.readouterr().out


def test_e9_a_job_goes_back_when_all_taskmanagers_of_its_first_attempt_at_the_new_parallelism_die(
    tmp_path: Path,
) -> None:
    events = tmp_path / "events"
    write_events(Load(events=12_000, keys=300, files=40), events)
    place = Place(tmp_path / "job", events, settings=SETTINGS)
    hits = tmp_path / "failpoints.log"
    job = JobProcess(place, PENSTOCK_FAILPOINT=FIRST_AT_NEW, PENSTOCK_FAILPOINT_LOG=str(hits))
    try:
        seen = job.running_record()
        wait_until(lambda: job.running_record().epoch > seen.epoch)
        exit_code, message = rescale_without_taskmanagers(job, place, hits)
        assert exit_code == 1, message
        assert "the job goes back to parallelism 2: its first attempt at parallelism 4 has failed: " in message
        record = wait_until(lambda: [found for found in [job.running_record()] if found.attempt > 2])[0]
        assert record.parallelism == 2 and record.rescale is None
        assert [(one.before, one.after) for one in record.rescales if one.failure] == [(2, 4)]
        assert job.wait(LIMIT_S) == 0, job.log_tail()
    finally:
        job.close()
    claim = read_log(LocalStorage(place.job_folder)).claim
    assert claim is not None and (claim.attempt, claim.parallelism, bool(claim.rescaled)) == (3, 2, False)
    verdict = judge(batch_result(events), place.job_folder, place.output)
    assert verdict.exact, str(verdict)


def rescale_without_taskmanagers(job: JobProcess, place: Place, hits: Path) -> tuple[int, str]:
    """Rescale to 4, and kill all TaskManagers while the driver stands at the failpoint: exit code and message."""
    driver = psutil.Process(job.pid)
    command = subprocess.Popen(
        [sys.executable, "-m", "penstock", *command_for(place, job.running_record().job_id, 4)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: driver.status() == psutil.STATUS_STOPPED)
        claim = read_log(LocalStorage(place.job_folder)).claim
        assert read_hits(hits) == {FIRST_AT_NEW}
        assert claim is not None and (claim.attempt, claim.parallelism, claim.rescaled) == (2, 4, 4)
        victims = job.every_taskmanager()
        assert len(victims) >= 2, "there is one for each core"
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, victims)))
        driver.send_signal(signal.SIGCONT)
        _, message = command.communicate(timeout=LIMIT_S)
        return command.returncode, message
    finally:
        command.kill()
        command.wait(LIMIT_S)
