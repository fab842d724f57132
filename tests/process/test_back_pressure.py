"""More rows at once than can be worked on soon: what aligned and unaligned checkpoints make of it (features L4, L5)."""

from pathlib import Path

import pytest

from tests.process.back_pressure import WARM_ROWS, Figures, Load, run

pytestmark = pytest.mark.process


def require_exact(figures: Figures, load: Load) -> None:
    assert sorted(figures.found) == list(range(WARM_ROWS + load.rows))
    assert set(figures.found.values()) == {1} and figures.wrong == []


@pytest.mark.full
def test_l4_an_aligned_checkpoint_takes_as_long_as_the_backlog(tmp_path: Path) -> None:
    load = Load(rows=10_000, backlog_s=6.0, unaligned=False)
    figures = run(load, tmp_path)
    require_exact(figures, load)
    assert figures.longest_ms > 5_000
    assert max(stats.alignment_ms for stats in figures.checkpoints) > 5_000
    assert all(stats.persisted_bytes == 0 for stats in figures.checkpoints)


def test_l5_k11_unaligned_checkpoints_go_on_under_a_backlog_and_a_kill_while_spooling_loses_nothing(
    tmp_path: Path,
) -> None:
    load = Load(rows=10_000, backlog_s=6.0, unaligned=True, failpoint="C27.after:kill:role=tm:hit=1")
    figures = run(load, tmp_path)
    require_exact(figures, load)
    assert figures.failpoint_hits == 1
    overtaken = [stats for stats in figures.checkpoints if stats.checkpoint_type == "UNALIGNED_CHECKPOINT"]
    assert len(overtaken) >= 2 and all(stats.persisted_bytes > 0 for stats in overtaken)
    # Fewer seconds than the backlog has, however busy the machine is.
    assert min(stats.alignment_ms for stats in overtaken) < 4_000
