"""A sample of `tests.faults.stops`: the driver dies while its job stops, between log entry and `_metadata` (C28)."""

from pathlib import Path

import pytest

from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import Place
from tests.faults.stops import run_stop

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

LOAD = Load(events=12_000, keys=300, files=30)


def test_n3_c28_a_stop_that_a_crash_interrupts_is_completed_and_a_second_job_goes_on_from_it(tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(LOAD, events)
    result = run_stop(Place(tmp_path / "job", events), batch_result(events), "C28.after:kill:role=driver")
    assert result.exact, f"{result}; {result.leftovers}"
