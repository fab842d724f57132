"""Commands are imported when they are used: a command that only looks imports neither Spark nor the JobManager."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from penstock.cli.command_table import COMMANDS

HEAVY = ("pyspark", "py4j", "pandas", "httpx", "penstock.jobmanager", "penstock.spark", "penstock.datastream")
ARROW = ("pyarrow", "numpy")
PROGRAM = """
import sys
from penstock.cli.main import main

main(sys.argv[2:])
found = [name for name in sys.argv[1].split(",") if name in sys.modules]
print("imported:", *found)
"""


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], HEAVY + ARROW),
        (["--version"], HEAVY + ARROW),
        (["list", "-a"], HEAVY + ARROW),
        (["status", "unknown"], HEAVY + ARROW),
        (["logs", "unknown"], HEAVY + ARROW),
        (["run", "--help"], HEAVY),
        (["savepoint", "--help"], HEAVY + ARROW),
        (["cancel", "--help"], HEAVY + ARROW),
        (["state", "ls", "absent"], HEAVY),
        (["checkpoints", "list", "absent"], HEAVY),
        (["info", "absent.py"], HEAVY),
        (["restore", "--help"], ("pyspark", "py4j", "pandas", "httpx", "penstock.spark")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(tmp_path: Path, arguments: list[str], absent: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, ",".join(absent), *arguments]
    environment = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "imported:", done.stdout + done.stderr


def test_a_command_on_snapshots_does_not_let_pyarrow_import_pandas(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    (snapshot,) = (root / "tests" / "golden" / "0.1.0" / "hashmap-canonical").glob("savepoint-*")
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}
    for arguments in (["ls", str(snapshot)], ["diff", str(snapshot), str(snapshot)]):
        command = [sys.executable, "-X", "importtime", "-m", "penstock", "state", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "pyarrow" in done.stderr and "pandas." not in done.stderr
        assert arguments[0] != "ls" or "pyarrow.compute" not in done.stderr  # it takes longer than the rest


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each_docstring(name: str) -> None:
    entry = COMMANDS[name]
    found = getattr(import_module(f"penstock.cli.{entry.module}"), entry.function)
    text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert text is not None and entry.help == text.splitlines()[0]
