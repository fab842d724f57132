"""A standby goes on when the driver dies: same job, exact result; an old driver that wakes up writes nothing."""

from pathlib import Path

import pytest

from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import Place
from tests.faults.standbys import KILL, SLEEP, run_standbys

pytestmark = [pytest.mark.process, pytest.mark.full]

SETTINGS = (("penstock.epoch.interval", "500 ms"), ("penstock.ha.timeout", "5 s"))


def watch(tmp_path: Path, load: Load, faults: list[str]) -> None:
    events = tmp_path / "events"
    write_events(load, events)
    result = run_standbys(Place(tmp_path / "job", events, settings=SETTINGS), batch_result(events), faults, print)
    assert [str(takeover) for takeover in result.takeovers if not takeover.passed] == []
    assert result.verdict.exact, str(result.verdict)
    assert result.leftovers == []


def test_u1_u4_a_standby_takes_over_when_the_driver_is_killed_and_when_it_only_sleeps(tmp_path: Path) -> None:
    watch(tmp_path, Load(events=12_000, keys=300, files=60), [KILL, SLEEP])


@pytest.mark.timeout(3_600)
def test_u1_u4_ten_takeovers_in_a_row_are_exact(tmp_path: Path) -> None:
    watch(tmp_path, Load(events=30_000, keys=300, files=300), [KILL, SLEEP] * 5)
