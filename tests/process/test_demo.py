"""The demo, with less data than `penstock demo` has: it kills, recovers, checks, and leaves nothing behind."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.programs import environment, said_in
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.process

SMALL = (
    "from penstock.cli.demo.demo_command import *; "
    "raise SystemExit(run_demo(ClickStream(clicks=12_000, users=200), files=12))"
)


def test_the_demo_kills_a_taskmanager_and_ends_exact_and_clean(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    own = {name: value for name, value in environment(tmp_path).items() if name != "SPARK_LOCAL_DIRS"}
    run = subprocess.run(
        [sys.executable, "-c", SMALL],
        cwd=tmp_path,
        env={**own, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[-1] == "12000 events, 0 lost, 0 counted twice"
    assert re.search(r"^3  kill -9 \d+: a TaskManager", run.stdout, re.MULTILINE)
    assert re.search(r"recovered after [\d.]+ s: attempt 2 has restored checkpoint \d+", run.stdout)
    (said,) = said_in(run.stderr)
    assert re.fullmatch(r"attempt 1 has failed, the job restarts in 1 s: .* is lost: .*", said)
    assert [path.name for path in scratch.iterdir()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tmp"]
