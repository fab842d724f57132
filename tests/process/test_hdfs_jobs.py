"""Jobs with checkpoints and output on a real HDFS: kills, safe mode, and a restart of HDFS in the middle."""

from pathlib import Path

import pytest

from penstock.model.ids import new_nonce
from penstock.services import RunningService
from penstock.services.hdfs_service import administrate
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, plan_strikes, run_killed
from tests.faults.outcome import judge, strays
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.process]

LOAD = Load(events=12_000, keys=500, files=24)
SEED = 31
SETTINGS = (("penstock.epoch.interval", "250 ms"),)


@pytest.fixture
def place(tmp_path: Path, hdfs: RunningService) -> Place:
    """A job that reads local files; all else is in a folder of HDFS."""
    write_events(LOAD, tmp_path / "events")
    return Place(tmp_path / "job", tmp_path / "events", settings=SETTINGS, remote=f"{hdfs.address}/job-{new_nonce()}")


def test_q1_kills_of_a_worker_a_taskmanager_and_the_driver_lose_and_double_nothing(place: Place) -> None:
    strikes = plan_strikes(("worker", "taskmanager", "driver"), LOAD.files, SEED)
    result = run_killed(place, batch_result(place.events), strikes, print)
    assert [str(hit) for hit in result.hits if not hit.counts] == []
    assert result.verdict.exact, f"seed {SEED}: {result.verdict}"
    assert result.leftovers == []


def test_q1_safe_mode_and_a_restart_of_hdfs_in_the_middle_lose_and_double_nothing(
    place: Place, hdfs: RunningService
) -> None:
    with JobProcess(place) as job:
        await_epoch(job, 3)
        administrate(hdfs.address, "-safemode", "enter")
        try:
            wait_until(lambda: "safe mode" in said(place), timeout_s=FINISH_LIMIT_S)
        finally:
            administrate(hdfs.address, "-safemode", "leave")
        await_epoch(job, job.running_record(FINISH_LIMIT_S).epoch + 2)
        hdfs.kill()
        try:
            wait_until(lambda: "no NameNode listens" in said(place), timeout_s=FINISH_LIMIT_S)
        finally:
            hdfs.resume()
        assert job.wait(FINISH_LIMIT_S) == 0, job.log_tail()
    place.fetch()
    verdict = judge(batch_result(place.events), place.job_folder, place.output)
    assert verdict.exact, verdict
    assert strays(place.job_folder, place.output) == []


def await_epoch(job: JobProcess, epoch: int) -> None:
    wait_until(lambda: job.running_record(FINISH_LIMIT_S).epoch >= epoch, timeout_s=FINISH_LIMIT_S)


def said(place: Place) -> str:
    """What the driver and the TaskManagers have logged."""
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in place.folder.rglob("*.log"))
