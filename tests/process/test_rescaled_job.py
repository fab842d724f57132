"""A job that is rescaled 2 -> 4 -> 1 -> 3 under load, with kills in between and in the pause (features E9)."""

import signal
import threading
from pathlib import Path

import psutil
import pytest

from penstock.cli.main import main
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place, is_alive
from tests.faults.outcome import judge
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

LOAD = Load(events=40_000, keys=500, files=80)
SETTINGS = (("penstock.epoch.interval", "750 ms"), ("restart-strategy.fixed-delay.delay", "100 ms"))


def rescale(job: JobProcess, place: Place, parallelism: int) -> None:
    """Until it is done: a kill may end the checkpoint that it begins with."""
    job_id = job.running_record(LIMIT_S).job_id
    command = ["rescale", job_id, "-p", str(parallelism), f"-Dpenstock.registry.dir={place.registry.folder}"]

    def is_done() -> bool:
        record = job.record()
        assert record is not None and not record.ended, "the job ended before it was rescaled"
        return record.parallelism == parallelism or main(command) == 0

    wait_until(is_done)


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
    record = wait_until(lambda: [found for found in [job.running_record(LIMIT_S)] if found.rescale is not None])[0]
    assert record.rescale is not None and record.rescale.after == record.parallelism == parallelism
    assert record.rescale.pause_ms > 0
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
        job = JobProcess(place)
        assert job.running_record(LIMIT_S).parallelism == 3, "the parallelism stays"
        assert job.wait(LIMIT_S) == 0, job.log_tail()
    finally:
        job.close()
    verdict = judge(batch_result(events), place.job_folder, place.output)
    assert verdict.exact, str(verdict)
    assert "paused for" in capsys.readouterr().out
