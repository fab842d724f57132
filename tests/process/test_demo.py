"""The demo, with less data than `penstock demo` has: it kills, recovers, checks, and leaves what it proposes to try."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.main import main
from tests.process.programs import environment, said_in
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.process

SMALL = (
    "from penstock.cli.demo.demo_command import *; "
    "raise SystemExit(run_demo(ClickStream(clicks=12_000, users=200), files=12))"
)


def test_the_demo_kills_a_taskmanager_and_ends_exact_and_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert "12000 events, 0 lost, 0 counted twice" in lines
    assert re.search(r"^3  kill -9 \d+: a TaskManager", run.stdout, re.MULTILINE)
    assert re.search(r"recovered after [\d.]+ s: attempt 2 has restored checkpoint \d+", run.stdout)
    delivery, said = said_in(run.stderr)
    assert delivery == "delivery: exactly once, end to end"
    assert re.fullmatch(r"attempt 1 has failed, the job restarts in 0.5 s: .* is lost: .*", said)
    assert [path.name for path in scratch.iterdir()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "tmp"]
    check_what_to_try_next(lines[lines.index("Try next:") + 1 :], capsys)


def check_what_to_try_next(lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The commands work as they are printed. The last one starts Spark; that its program works is shown elsewhere."""
    ls, show, run = (shlex.split(line) for line in lines if not line.lstrip().startswith("#"))
    assert main(ls[1:]) == 0
    assert "totals" in capsys.readouterr().out
    assert main(show[1:]) == 0
    assert "user-00042" in capsys.readouterr().out
    assert run[1:4] == ["run", "-p", "2"]
    assert Path(run[4]).is_file()
