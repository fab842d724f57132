"""A sample of `make test-faults`: a driver that is stopped, replaced and woken."""

from pathlib import Path

import pytest

from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import Case
from tests.faults.fencing import SETTINGS, run_fencing
from tests.faults.jobs import Place

pytestmark = pytest.mark.process

ZOMBIE = Case("C19", "before", "driver", "stop")
ZOMBIE_LOAD = Load(events=6_000, keys=100, files=20)


def test_f18_a_driver_that_was_stopped_and_replaced_changes_nothing_when_it_wakes_up(tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(ZOMBIE_LOAD, events)
    place = Place(tmp_path / "job", events, checkpoint_ms=100, settings=SETTINGS)
    result = run_fencing(place, batch_result(events), [ZOMBIE])
    assert result.passed, "\n".join(result.lines())
