"""A thousand seeds of the simulator over two processes: the tier `sim`. `make test-all` runs ten thousand."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.choose import COUNT, FROM, chosen_seeds

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.sim, pytest.mark.timeout(3600)]


def run_simulator(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.sim", "--processes", "2", "--places", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_chosen_seeds_hold_every_invariant_and_hit_every_crash_point(capsys: pytest.CaptureFixture[str]) -> None:
    """If a crash point is no longer hit, choose again: `python -m tests.sim.choose`."""
    assert len(set(chosen_seeds())) == COUNT
    run = run_simulator("--chosen")
    with capsys.disabled():
        print(f"\n{run.stdout.strip()}")
    assert run.returncode == 0, run.stderr[-10_000:]
    assert run.stdout.splitlines()[-1].startswith(f"{COUNT} seeds, ")


@pytest.mark.full
def test_ten_thousand_seeds_hold_every_invariant_and_hit_every_crash_point(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_simulator("--seeds", str(FROM))
    with capsys.disabled():
        print(f"\n{run.stdout.strip()}")
    assert run.returncode == 0, run.stderr[-10_000:]
    assert run.stdout.splitlines()[-1].startswith(f"{FROM} seeds, ")
