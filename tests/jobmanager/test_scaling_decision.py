"""Which parallelism the autoscaler chooses, on simulated load."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from penstock.jobmanager.scaling_decision import LoadSample, LoadWindow, ScalingBounds, ScalingDecision
from penstock.model.configuration import Configuration

STEP_S = 5
BOUNDS = ScalingBounds(least=1, most=8, target=0.7, margin=0.2, window_s=60, down_interval_s=300)


@dataclass
class SimulatedJob:
    """A job whose subtasks process so many rows a second each; what they cannot process waits."""

    load: Callable[[int], float]
    """Rows per second at a time in seconds."""
    parallelism: int = 2
    rows_per_subtask: float = 1000.0
    scales: Callable[[int], float] = float
    """How many subtasks' worth of work so many of them do."""
    bounds: ScalingBounds = BOUNDS
    pause_s: int = 5
    """Of a rescale, in which rows wait."""
    waiting: float = 0.0
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    """Second, before, after."""

    def run(self, seconds: int) -> "SimulatedJob":
        window, paused_until_s = LoadWindow(self.bounds, 0.0), 0
        for now_s in range(0, seconds, STEP_S):
            arrived = self.load(now_s) * STEP_S + self.waiting
            if now_s < paused_until_s:
                self.waiting = arrived
                window.interrupt()
                continue
            capacity = self.scales(self.parallelism) * self.rows_per_subtask * STEP_S
            done = min(arrived, capacity)
            self.waiting = arrived - done
            sample = LoadSample(now_s, self.parallelism, done / capacity, self.waiting > 0, done / STEP_S)
            decision = window.add(sample)
            if decision is not None:
                self.steps.append((now_s, decision.before, decision.after))
                self.parallelism = decision.after
                paused_until_s = now_s + self.pause_s
                window.begin(now_s, decision.lagging_rate)
        return self

    @property
    def parallelisms(self) -> list[int]:
        return [after for _, _, after in self.steps]


def test_a_job_within_the_margin_is_left_alone() -> None:
    for load in (1100.0, 1400.0, 1750.0):
        assert SimulatedJob(lambda _, load=load: load).run(3600).steps == []  # type: ignore[misc]


def test_a_load_step_up_and_down_is_followed_without_flapping() -> None:
    job = SimulatedJob(lambda now_s: 1200.0 if now_s < 600 or now_s >= 2400 else 4000.0).run(5400)
    assert job.parallelisms in ([3, 5, 8, 6, 2], [3, 5, 6, 2], [3, 5, 8, 2])
    up = [now_s for now_s, before, after in job.steps if after > before]
    down = [now_s for now_s, before, after in job.steps if after < before]
    assert 600 < up[0] <= 600 + 2 * BOUNDS.window_s and max(up) < 1200
    assert job.waiting == 0 and job.parallelism == 2
    assert min(later - earlier for earlier, later in zip(up + down, (up + down)[1:], strict=False)) >= BOUNDS.window_s


def test_a_load_that_swings_faster_than_the_window_changes_nothing_twice() -> None:
    job = SimulatedJob(lambda now_s: 1400 + 500 * math.sin(now_s / 10)).run(7200)
    assert len(job.steps) <= 1


def test_a_load_at_the_edge_of_the_margin_does_not_flap() -> None:
    for load in range(400, 8000, 411):
        job = SimulatedJob(lambda now_s, load=load: load + 40 * (now_s % 3 - 1)).run(14_400)  # type: ignore[misc]
        turns = sum(
            (later[2] > later[1]) != (earlier[2] > earlier[1])
            for earlier, later in zip(job.steps, job.steps[1:], strict=False)
        )
        assert turns <= 1 and len(job.steps) <= 5, (load, job.steps)
        assert all(after < 14_400 / 2 for after, _, _ in job.steps), (load, job.steps)


def test_a_slow_day_and_night_is_followed_at_most_once_a_window() -> None:
    job = SimulatedJob(lambda now_s: 3000 + 2500 * math.sin(2 * math.pi * now_s / 86_400)).run(86_400)
    assert max(job.parallelisms) == 7 and min(job.parallelisms) <= 2
    assert len(job.steps) < 20
    assert job.waiting == 0


def test_bounds_are_kept() -> None:
    bounds = replace(BOUNDS, least=2, most=4)
    assert SimulatedJob(lambda _: 50_000.0, bounds=bounds).run(3600).parallelism == 4
    assert SimulatedJob(lambda _: 0.0, parallelism=4, bounds=bounds).run(3600).parallelism == 2


def test_a_job_outside_its_bounds_is_brought_into_them() -> None:
    assert SimulatedJob(lambda _: 700.0, parallelism=8, bounds=replace(BOUNDS, most=4)).run(120).parallelism == 1
    assert SimulatedJob(lambda _: 700.0, parallelism=1, bounds=replace(BOUNDS, least=3)).run(120).parallelism == 3


def test_a_step_that_did_not_help_is_not_followed_by_more() -> None:
    job = SimulatedJob(lambda _: 50_000.0, scales=lambda parallelism: min(parallelism, 2.0)).run(3600)
    assert job.parallelisms == [3]


def test_a_job_that_lags_although_its_functions_are_idle_is_left_alone() -> None:
    window = LoadWindow(BOUNDS, 0.0)
    found = [window.add(LoadSample(now_s, 2, 0.05, lags=True, rows_per_s=10.0)) for now_s in range(0, 250, STEP_S)]
    assert set(found) == {None}


@pytest.mark.parametrize("busy", [0.0, 1.0])
def test_nothing_is_decided_before_a_whole_window_was_measured(busy: float) -> None:
    window = LoadWindow(replace(BOUNDS, down_interval_s=0), 0.0)
    found: list[ScalingDecision | None] = []
    for now_s in range(0, 65, STEP_S):
        found.append(window.add(LoadSample(now_s, 4, busy, lags=False, rows_per_s=1.0)))
    assert found[:-1] == [None] * 12 and found[-1] is not None


def test_a_restart_or_a_rescale_by_somebody_else_begins_the_window_anew() -> None:
    for parallelism in (4, 5):
        window = LoadWindow(BOUNDS, 0.0)
        for now_s in range(0, 60, STEP_S):
            assert window.add(LoadSample(now_s, 4, 1.0, lags=False, rows_per_s=1.0)) is None
        if parallelism == 4:
            window.interrupt()
        for now_s in range(60, 120, STEP_S):
            assert window.add(LoadSample(now_s, parallelism, 1.0, lags=False, rows_per_s=1.0)) is None
        decision = window.add(LoadSample(120, parallelism, 1.0, lags=False, rows_per_s=1.0))
        assert decision is not None and decision.before == parallelism


def test_a_rescale_by_somebody_else_is_not_undone_before_the_longer_interval() -> None:
    """The job does not run during the rescale, so that the window was interrupted before it sees the change."""
    window = LoadWindow(BOUNDS, 0.0)
    for now_s in range(0, 400, STEP_S):
        assert window.add(LoadSample(now_s, 2, 0.7, lags=False, rows_per_s=1.0)) is None
    window.interrupt()
    found = [(now_s, window.add(LoadSample(now_s, 8, 0.2, lags=False, rows_per_s=1.0))) for now_s in range(400, 720, 5)]
    assert [now_s for now_s, decision in found if decision is not None][0] == 400 + BOUNDS.down_interval_s


def test_the_reason_says_what_was_measured() -> None:
    window = LoadWindow(BOUNDS, 0.0)
    found = [window.add(LoadSample(now_s, 2, 0.93, lags=True, rows_per_s=10.0)) for now_s in range(0, 65, STEP_S)]
    assert found[-1] == ScalingDecision(2, 3, "busy 93%, wanted 70%, and the job lags", 10.0)


def test_the_bounds_come_from_settings_cores_and_key_groups() -> None:
    def bounds(settings: dict[str, str], cores: int = 4, max_parallelism: int = 128) -> tuple[int, int]:
        found = ScalingBounds.of(Configuration.from_dict(settings), cores, max_parallelism)
        return found.least, found.most

    key = "penstock.autoscale."
    assert bounds({}) == (1, 4)
    assert bounds({f"{key}min-parallelism": "2", f"{key}max-parallelism": "16"}) == (2, 16)
    assert bounds({f"{key}min-parallelism": "9", f"{key}max-parallelism": "16"}, max_parallelism=8) == (8, 8)
