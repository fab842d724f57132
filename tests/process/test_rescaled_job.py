"""A job that is rescaled 2 -> 4 -> 1 -> 3 under load, with kills in between (features E9)."""

import signal
from pathlib import Path

import pytest

from penstock.cli.main import main
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place
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


def rescale_and_kill(job: JobProcess, place: Place, parallelism: int) -> None:
    """Rescale the job while it processes rows, then kill a TaskManager: the next attempt keeps the parallelism."""
    seen = job.running_record(LIMIT_S)
    wait_until(lambda: job.running_record(LIMIT_S).epoch > seen.epoch)
    rescale(job, place, parallelism)
    record = job.running_record(LIMIT_S)
    assert record.rescale is not None and record.rescale.after == parallelism
    wait_until(job.taskmanagers)[0].send_signal(signal.SIGKILL)
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
            rescale_and_kill(job, place, parallelism)
        job.kill()
        job = JobProcess(place)
        assert job.wait(LIMIT_S) == 0, job.log_tail()
    finally:
        job.close()
    verdict = judge(batch_result(events), place.job_folder, place.output)
    assert verdict.exact, str(verdict)
    assert "paused for" in capsys.readouterr().out
