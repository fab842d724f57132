"""Hundreds of seeded schedules with two or three drivers; a failing seed is printed."""

import os

import pytest

from penstock import failpoint
from tests.checkpoint.checker import Violation
from tests.checkpoint.simulation import Simulation

SEEDS = int(os.environ.get("PENSTOCK_SCHEDULES", "300"))
GROUPS = 10


@pytest.fixture(autouse=True)
def disarmed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.checkpoint.log.job_log.BASE_EVERY", 5)
    yield
    failpoint.disarm()


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_schedule_is_exactly_once(group: int) -> None:
    for seed in range(group, SEEDS, GROUPS):
        try:
            Simulation(seed).run()
        except (Violation, AssertionError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
