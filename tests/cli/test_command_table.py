"""Commands are imported when they are used: a command that only looks imports neither Spark nor the JobManager."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from penstock.cli.command_table import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "py4j", "pandas", "httpx", "penstock.jobmanager", "penstock.spark", "penstock.datastream")
CHECKS = ("pydantic",)
"""Of values that need a check; those of commands that only look need none."""
ARROW = ("pyarrow", "numpy")
JOBS = ("psutil", "penstock.control.registry", "penstock.control.effective_settings")
"""What only commands on jobs need."""
PARTS_OF_ARROW = ("pyarrow.compute", "pyarrow.fs", "pyarrow.parquet")
"""What takes longer to import than a summary of a savepoint to make."""
(SNAPSHOT,) = (ROOT / "tests" / "golden" / "0.1.0" / "hashmap-canonical").glob("savepoint-*")
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
        (["--help"], HEAVY + ARROW + JOBS + CHECKS),
        (["--version"], HEAVY + ARROW + JOBS + CHECKS),
        (["list", "-a", "-Dk=v"], (*HEAVY, *ARROW, *CHECKS, "psutil")),
        (["status", "unknown"], (*HEAVY, *ARROW, *CHECKS, "psutil")),
        (["logs", "unknown"], HEAVY + ARROW + CHECKS),
        (["run", "--help"], HEAVY),
        (["savepoint", "--help"], HEAVY + ARROW),
        (["cancel", "--help"], HEAVY + ARROW),
        (["state", "ls", "absent"], HEAVY + JOBS + CHECKS + PARTS_OF_ARROW),
        (["checkpoints", "list", "absent"], HEAVY + CHECKS),
        (["info", "absent.py"], HEAVY),
        (["restore", "--help"], ("pyspark", "py4j", "pandas", "httpx", "penstock.spark")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(tmp_path: Path, arguments: list[str], absent: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, ",".join(absent), *arguments]
    environment = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "imported:", done.stdout + done.stderr


def test_a_command_on_snapshots_does_not_let_pyarrow_import_pandas(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    for arguments in (["ls", str(SNAPSHOT)], ["diff", str(SNAPSHOT), str(SNAPSHOT)]):
        command = [sys.executable, "-X", "importtime", "-m", "penstock", "state", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "pyarrow" in done.stderr and "pandas." not in done.stderr
        found = [name for name in PARTS_OF_ARROW + JOBS + ("penstock.state.heap",) if name in done.stderr]
        assert arguments[0] != "ls" or not found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each_docstring(name: str) -> None:
    entry = COMMANDS[name]
    found = getattr(import_module(f"penstock.cli.{entry.module}"), entry.function)
    text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert text is not None and entry.help == text.splitlines()[0]
