"""When a periodic checkpoint may start (K1, K4, K5)."""

from typing import Any

import pytest

from penstock.checkpoint.checkpoint_schedule import CheckpointSchedule
from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.testing.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


def test_the_first_is_due_one_interval_after_the_start(clock: ManualClock) -> None:
    schedule = CheckpointSchedule(CheckpointSettings(interval_ms=1000), clock)
    assert schedule.next_due(0) == 1.0
    clock.advance(999)
    assert not schedule.may_start(0)
    clock.advance(1)
    assert schedule.may_start(0)
    schedule.started()
    assert not schedule.may_start(0)
    assert schedule.next_due(0) == 2.0


def test_without_an_interval_none_is_ever_due(clock: ManualClock) -> None:
    schedule = CheckpointSchedule(CheckpointSettings(interval_ms=None), clock)
    clock.advance(10**9)
    assert not schedule.may_start(0)
    assert schedule.next_due(0) is None


def test_k5_no_more_than_the_allowed_number_at_once(clock: ManualClock) -> None:
    schedule = CheckpointSchedule(CheckpointSettings(interval_ms=10, max_concurrent=2), clock)
    clock.advance(100)
    assert schedule.may_start(1)
    assert not schedule.may_start(2)
    assert schedule.next_due(2) is None


def test_k5_after_an_overrun_the_next_starts_at_once(clock: ManualClock) -> None:
    schedule = CheckpointSchedule(CheckpointSettings(interval_ms=1000), clock)
    clock.advance(1000)
    schedule.started()
    clock.advance(5000)
    schedule.completed()
    assert schedule.may_start(0)


def test_k4_the_pause_counts_from_the_completion_and_leaves_one_at_a_time(clock: ManualClock) -> None:
    schedule = CheckpointSchedule(CheckpointSettings(interval_ms=1000, min_pause_ms=5000, max_concurrent=3), clock)
    clock.advance(1000)
    schedule.started()
    clock.advance(3000)
    assert not schedule.may_start(1)
    schedule.completed()
    assert schedule.next_due(0) == 9.0
    clock.advance(4999)
    assert not schedule.may_start(0)
    clock.advance(1)
    assert schedule.may_start(0)


@pytest.mark.parametrize("changes", [{"retained": 0}, {"max_concurrent": 0}, {"timeout_ms": 0}])
def test_impossible_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        CheckpointSettings(interval_ms=None, **changes)
