"""A standby goes on when the driver dies: same job, exact result; an old driver that wakes up writes nothing."""

import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place
from tests.faults.outcome import judge
from tests.faults.standbys import KILL, SLEEP, run_standbys
from tests.waiting import LIMIT_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.full]

SETTINGS = (("penstock.epoch.interval", "500 ms"), ("penstock.ha.timeout", "5 s"))

NOTICE_LIMIT_S = 15.0
"""From the loss of the driver until a standby takes the job over."""


def watch(tmp_path: Path, load: Load, faults: list[str]) -> None:
    events = tmp_path / "events"
    write_events(load, events)
    result = run_standbys(Place(tmp_path / "job", events, settings=SETTINGS), batch_result(events), faults, print)
    assert [str(takeover) for takeover in result.takeovers if not takeover.passed] == []
    late = [str(takeover) for takeover in result.takeovers if takeover.noticed_s > NOTICE_LIMIT_S]
    assert late == [], "then comes the start of Spark"
    assert result.verdict.exact, str(result.verdict)
    assert result.leftovers == []


def test_u1_u4_a_standby_takes_over_when_the_driver_is_killed_and_when_it_only_sleeps(tmp_path: Path) -> None:
    watch(tmp_path, Load(events=12_000, keys=300, files=60), [KILL, SLEEP])


def test_u1_a_driver_that_sleeps_before_its_first_claim_is_locked_out_by_the_standby(tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(Load(events=6_000, keys=300, files=20), events)
    place = Place(tmp_path / "job", events, settings=SETTINGS)
    hits = tmp_path / "failpoints.log"
    stop = {"PENSTOCK_FAILPOINT": "C1.before:stop:role=driver:hit=1", "PENSTOCK_FAILPOINT_LOG": str(hits)}
    standby = JobProcess(replace(place, stands_by=True))
    driver = JobProcess(replace(place, has_standby=True, resumes=False), **stop)
    try:
        wait_until(lambda: psutil.Process(driver.pid).status() == psutil.STATUS_STOPPED)
        assert "C1.before" in hits.read_text(encoding="utf-8")
        record = standby.running_record(LIMIT_S)
        psutil.Process(driver.pid).send_signal(signal.SIGCONT)
        assert driver.wait(LIMIT_S) == 4, driver.log_tail()
        assert standby.wait(LIMIT_S) == 0, standby.log_tail()
        assert [one.job_id for one in place.registry.list()] == [record.job_id], "the standby runs the same job"
        verdict = judge(batch_result(events), place.job_folder, place.output)
        assert verdict.exact, str(verdict)
        assert list(place.ha.iterdir()) == []
    finally:
        driver.close()
        standby.close()


@pytest.mark.timeout(3_600)
def test_u1_u4_ten_kills_in_a_row_and_three_drivers_that_wake_up_later_are_exact(tmp_path: Path) -> None:
    watch(tmp_path, Load(events=30_000, keys=300, files=300), [KILL] * 10 + [SLEEP] * 3)
