"""The simulator itself: a seed is a run, it replays, it can fail, and each of its faults really happens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim import light_job
from tests.sim.__main__ import main
from tests.sim.light_job import LightJob
from tests.sim.runner import DEEP_EVERY, explain, is_deep, run_seed, run_seeds
from tests.sim.schedule import make_schedule

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 60
DEEP_SEEDS = range(DEEP_EVERY - 1, 12 * DEEP_EVERY, DEEP_EVERY)


def test_some_seeds_lose_nothing_and_count_nothing_twice() -> None:
    summary = run_seeds(range(SEEDS))
    assert not summary.failures, "\n".join(explain(summary))
    assert summary.seeds == SEEDS
    assert summary.calm >= SEEDS // 5  # nothing but delays and reordering
    assert summary.attempts > 3 * SEEDS
    assert summary.checkpoints > 2 * SEEDS


def test_schedules_of_the_harness_lose_nothing_and_count_nothing_twice() -> None:
    assert all(map(is_deep, DEEP_SEEDS))
    summary = run_seeds(DEEP_SEEDS)
    assert not summary.failures, "\n".join(explain(summary))
    assert summary.faults["crash"] > len(DEEP_SEEDS)
    assert summary.faults["lost task"] > 2 * len(DEEP_SEEDS)  # epochs that were taken back and run again


def test_a_seed_is_a_schedule() -> None:
    assert repr(make_schedule(17)) == repr(make_schedule(17))
    assert repr(make_schedule(17)) != repr(make_schedule(18))


def test_a_seed_replays_in_another_process() -> None:
    seeds = [0, 3, 5, DEEP_EVERY - 1]
    code = f"from tests.sim.runner import run_seed; print(*(run_seed(seed).trace for seed in {seeds}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"}
    again = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    traces = [run_seed(seed).trace for seed in seeds]
    assert again.stdout.split() == traces, again.stderr
    assert len(set(traces)) == len(seeds)


def test_the_canary_fails_and_its_replay_fails_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "20", "--canary"]) == 1
    captured = capsys.readouterr()
    assert "deleted without a discard" in captured.err
    failed = [int(line.rpartition("=")[2]) for line in captured.err.splitlines() if "replay it with: make sim" in line]
    assert len(failed) >= 8  # some seeds have nothing to delete
    assert f"{len(failed)} failed" in captured.out.splitlines()[-1]
    assert main(["--seed", str(failed[0]), "--canary"]) == 1
    assert "R3: " in capsys.readouterr().err
    assert main(["--seed", str(failed[0])]) == 0  # it was the planted bug


def test_a_wrong_result_fails_the_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(LightJob, "wrong_output", lambda self, truth, **_: ["row 7 is lost"])
    assert main(["--seed", "3"]) == 1
    captured = capsys.readouterr()
    assert "row 7 is lost" in captured.err and "make sim SEED=3" in captured.err
    assert "1 failed" in captured.out


def test_a_function_that_counts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = light_job.SumUp.process_element

    def twice(self, record, ctx):
        yield from honest(self, record, ctx)
        if record[0] == 2:
            self.bits.update((self.bits.value() or 0) + (1 << record[0]))

    monkeypatch.setattr(light_job.SumUp, "process_element", twice)
    assert len(run_seeds([0, 1, 2]).failures) == 3


def test_the_command_says_what_it_has_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 seeds, ")


def test_a_crash_point_that_is_never_hit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--places"]) == 1
    assert "C31.after" in capsys.readouterr().err
