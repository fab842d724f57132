"""Generated fault schedules: whatever crashes when, state, timers and output are as if nothing had happened."""

import pytest

from tests.sim import schedule
from tests.sim.__main__ import explain, main, run_seeds
from tests.sim.schedule import PLACES, make_schedule

SCHEDULES = 500


def test_five_hundred_fault_schedules_lose_nothing_and_count_nothing_twice() -> None:
    summary = run_seeds(range(SCHEDULES))
    assert not summary.failures, explain(summary)
    assert summary.schedules == SCHEDULES
    assert summary.crashes > 2 * SCHEDULES
    assert summary.checkpoints > 3 * SCHEDULES
    assert summary.lost_tasks > 5 * SCHEDULES  # epochs that were taken back and run again
    assert summary.hits == set(PLACES)  # every crash point, before and after, has really crashed a job


def test_a_seed_is_a_schedule() -> None:
    assert repr(make_schedule(17)) == repr(make_schedule(17))
    assert repr(make_schedule(17)) != repr(make_schedule(18))


def test_a_failing_seed_is_shown_with_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schedule, "difference", lambda found, expected: ["row 7 is lost"])
    assert main(["--seed", "3"]) == 1
    captured = capsys.readouterr()
    assert "row 7 is lost" in captured.err and "make sim SEED=3" in captured.err
    assert captured.out.splitlines()[-1].startswith("1 schedules, ")
    assert "1 failed" in captured.out


def test_the_command_says_what_it_has_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3"]) == 0
    assert capsys.readouterr().out.startswith("3 schedules, ")
