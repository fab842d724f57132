"""A sample of `make test-faults`: one kill of each kind in one run of a job with two exchanges (features A4 and Q1)."""

from pathlib import Path

import pytest

from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import Place
from tests.faults.kills import plan_strikes, run_killed

pytestmark = pytest.mark.process

LOAD = Load(events=12_000, keys=500, files=24)
SEED = 20
SETTINGS = (("penstock.epoch.interval", "250 ms"),)
"""So that the job does not end before the last kill, which comes in the middle of its input."""


def test_a4_q1_a_kill_of_a_worker_a_taskmanager_and_the_driver_lose_and_double_nothing(tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(LOAD, events)
    strikes = plan_strikes(("worker", "taskmanager", "driver"), LOAD.files, SEED)
    place = Place(tmp_path / "job", events, sink="exchange:file", settings=SETTINGS)
    result = run_killed(place, batch_result(events), strikes, print)
    assert [str(hit) for hit in result.hits if not hit.counts] == []
    assert result.verdict.exact, f"seed {SEED}: {result.verdict}"
    assert result.leftovers == []
