"""What the demo leaves behind, and the commands that it proposes."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from penstock.cli.demo.demo_next import KeptFolder, next_commands


def test_each_run_replaces_what_the_last_one_left(tmp_path: Path) -> None:
    kept = KeptFolder(tmp_path / "demo")
    kept.prepare()
    (kept.root / "old").touch()
    kept.prepare()
    assert sorted(path.name for path in kept.root.iterdir()) == ["orders", "totals.py"]
    compile(kept.program.read_text(encoding="utf-8"), kept.program, "exec")


def test_the_commands_hold_the_path_of_the_program_where_the_shell_does_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    kept = KeptFolder(tmp_path / "a folder")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "penstock").touch()
    commands = [shlex.split(command) for command, _ in next_commands(kept, "/data/savepoint-1", "ada")]
    assert {command[0] for command in commands} == {"bin/penstock"}
    assert commands[0][1:] == ["state", "ls", "/data/savepoint-1"]
    assert commands[2][-1] == str(kept.program)
