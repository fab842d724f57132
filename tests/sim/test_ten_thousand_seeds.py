"""The simulator at full size, over two processes: the tier `sim`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 10_000


@pytest.mark.sim
@pytest.mark.timeout(1800)
def test_ten_thousand_seeds_hold_every_invariant_and_hit_every_crash_point(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "tests.sim", "--seeds", str(SEEDS), "--processes", "2", "--places"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    with capsys.disabled():
        print(f"\n{run.stdout.strip()}")
    assert run.returncode == 0, run.stderr[-10_000:]
    assert run.stdout.splitlines()[-1].startswith(f"{SEEDS} seeds, ")
