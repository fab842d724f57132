"""The wheel in an empty environment outside the source tree: `penstock demo` runs there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.venvs import Venv, ensure_venv

ROOT = Path(__file__).resolve().parent.parent.parent
INHERITED = ("HOME", "JAVA_HOME", "LANG", "PATH")


@pytest.mark.full
@pytest.mark.process
@pytest.mark.timeout(1_800)
def test_an_installed_wheel_runs_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not tmp_path.is_relative_to(ROOT)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, stdout=subprocess.DEVNULL, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    monkeypatch.setenv("UV_SYSTEM_CERTS", "1")
    python = ensure_venv(Venv("installed", (str(wheel),)), tmp_path)
    own = {name: os.environ[name] for name in INHERITED if name in os.environ}
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=scratch, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = run(str(python), "-c", "import penstock; print(penstock.__file__)")
    assert Path(where).is_relative_to(tmp_path)
    shown = run(str(python.parent / "penstock"), "demo")
    assert "90000 events, 0 lost, 0 counted twice" in shown.splitlines()
