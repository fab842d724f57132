"""The walk through the first hour notices what goes wrong."""

from pathlib import Path
from typing import Any

import pytest

from tests.loading import load_script

first_hour = load_script("first_hour")
MISTAKE = first_hour.Mistake(("run", "job.py"), 2, "job.py:4")


def walk_with(folder: Path, script: str) -> Any:
    """A walk whose `penstock` is a shell script."""
    command = folder / "bin" / "penstock"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    command.chmod(0o755)
    return first_hour.Walk(folder, folder / "bin" / "python")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'error: at job.py:4' >&2; exit 2", "exit code 2: error: at job.py:4"),
        ("echo 'error: at job.py:4' >&2; exit 1", "FAILED: exit code 1: error: at job.py:4"),
        ("echo 'error: at job.py:5' >&2; exit 2", "FAILED: no word of job.py:4: error: at job.py:5"),
        ("exit 0", "FAILED: exit code 0:"),
        (
            """echo '  File "/x/site-packages/penstock/a.py"' >&2; echo 'job.py:4' >&2; exit 2""",
            """FAILED: frames that are not the user's: ['  File "/x/site-packages/penstock/a.py"']""",
        ),
    ],
)
def test_a_mistake_needs_its_exit_code_and_its_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, said: str
) -> None:
    walk = walk_with(tmp_path, script)
    walk.step("mistake", lambda step: first_hour.make(step, MISTAKE))
    assert capsys.readouterr().out.strip().endswith(said)
    assert walk.failed == int(said.startswith("FAILED"))


def test_a_command_that_does_not_end_is_killed_and_fails_its_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_hour, "LIMIT_S", 0.2)
    walk = walk_with(tmp_path, "exec sleep 600")
    walk.step("list", lambda step: first_hour.answers(step, ("list",)))
    assert walk.failed == 1 and "did not end within" in capsys.readouterr().out


@pytest.mark.parametrize(("limit_s", "failed"), [(0.0, 1), (600.0, 0)])
def test_a_command_that_only_looks_has_a_limit_of_time(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    limit_s: float,
    failed: int,
) -> None:
    monkeypatch.setattr(first_hour, "COMMAND_S", limit_s)
    walk = walk_with(tmp_path, "exit 0")
    walk.step("list", lambda step: first_hour.answers(step, ("list",)))
    assert walk.failed == failed and ("more than 0.0 s" in capsys.readouterr().out) == bool(failed)


@pytest.mark.parametrize(
    ("script", "limit_s", "said"),
    [
        ("echo '9 events, 0 lost, 0 counted twice'", 600.0, "9 events, 0 lost, 0 counted twice"),
        ("echo '9 events, 0 lost, 0 counted twice'", 0.0, "FAILED: more than 0 s"),
        ("echo '90 events, 10 lost, 0 counted twice'", 600.0, "90 events, 10 lost, 0 counted twice"),
        ("echo 'no Spark' >&2; exit 1", 600.0, "FAILED: no Spark"),
    ],
)
def test_the_demo_has_a_limit_of_time_and_is_exact(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    limit_s: float,
    said: str,
) -> None:
    monkeypatch.setattr(first_hour, "DEMO_S", limit_s)
    walk = walk_with(tmp_path, script)
    walk.step("demo", first_hour.demo)
    shown = capsys.readouterr().out.strip()
    assert shown.endswith(said) and walk.failed == int("FAILED" in shown)
    assert walk.failed == int(not (said.startswith("9 ")))


def test_a_step_shows_the_cpu_time_of_its_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    walk = walk_with(tmp_path, "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done")
    walk.step("busy", lambda step: str(step.run(walk.penstock).returncode))
    assert float(capsys.readouterr().out.split()[3]) > 0


def test_there_are_ten_mistakes_and_their_programs_exist() -> None:
    assert len(first_hour.MISTAKES) == 10
    named = {argument for mistake in first_hour.MISTAKES.values() for argument in mistake.arguments}
    assert set(first_hour.MISTAKEN_PROGRAMS) <= named
