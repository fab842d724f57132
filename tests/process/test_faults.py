"""A sample of `make test-faults`: a case of the matrix, and a driver that is stopped, replaced and woken."""

from pathlib import Path

import pytest

from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import Case
from tests.faults.fencing import SETTINGS, run_fencing
from tests.faults.jobs import Place
from tests.faults.matrix.all_cases import MATRIX
from tests.faults.matrix.cells import draw_cells
from tests.faults.matrix.run import LOAD, run_case

pytestmark = pytest.mark.process

SEED = 1
SAMPLE = "executor_killed"
ZOMBIE = Case("C19", "before", "driver", "stop")
ZOMBIE_LOAD = Load(events=6_000, keys=100, files=20)


def test_a_fault_of_the_matrix_hits_and_the_job_is_exact(tmp_path: Path) -> None:
    cells = dict(zip((case.name for case in MATRIX), draw_cells([case.wish for case in MATRIX], SEED), strict=True))
    case = next(case for case in MATRIX if case.name == SAMPLE)
    events = tmp_path / "matrix-events"
    write_events(LOAD, events)
    result = run_case(case, cells[SAMPLE], tmp_path, batch_result(events), SEED)
    assert result.skipped is None and result.passed, "\n".join(result.lines())


def test_f18_a_driver_that_was_stopped_and_replaced_changes_nothing_when_it_wakes_up(tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(ZOMBIE_LOAD, events)
    place = Place(tmp_path / "job", events, checkpoint_ms=100, settings=SETTINGS)
    result = run_fencing(place, batch_result(events), [ZOMBIE])
    assert result.passed, "\n".join(result.lines())
