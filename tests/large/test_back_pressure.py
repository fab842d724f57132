"""A minute of work at once, in both modes, with and without a kill in the middle (features L4, L5)."""

from pathlib import Path

import pytest

from tests.process.back_pressure import WARM_ROWS, Load, run

pytestmark = [pytest.mark.large, pytest.mark.timeout(900)]

ROWS, BACKLOG_S = 200_000, 60.0


@pytest.mark.parametrize("kill", [False, True], ids=["undisturbed", "killed"])
@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
def test_l5_a_minute_of_work_at_once(tmp_path: Path, unaligned: bool, kill: bool) -> None:
    figures = run(Load(ROWS, BACKLOG_S, unaligned, kill), tmp_path)
    print(figures)
    assert sorted(figures.found) == list(range(WARM_ROWS + ROWS))
    assert set(figures.found.values()) == {1} and figures.wrong == []
    if not unaligned:
        assert figures.longest_ms > 0.9 * 1000 * BACKLOG_S
    elif not kill:
        # A small part of the backlog's time, however busy the machine is.
        assert figures.longest_ms < 0.2 * 1000 * BACKLOG_S
        assert sum(stats.persisted_bytes > 0 for stats in figures.checkpoints) > 10
