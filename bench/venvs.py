"""Virtual environments under `.bench/venvs`, one per engine, so that no engine's libraries hold back another's.

An environment carries a stamp of what it was made from. A stamp that is missing (a set-up that was interrupted) or
different (other versions, another Python) means: delete it and make it again.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchSetupError

STAMP = "bench-stamp.txt"
INSTALL_LIMIT_S = 1_800


@dataclass(frozen=True)
class Venv:
    """What to install. With a `project`, that source tree too, editable: it is always measured as it is now."""

    name: str
    requirements: tuple[str, ...]
    project: Path | None = None

    def stamp(self) -> str:
        """The text that tells whether an environment still is what this one describes."""
        lines = [sys.version, *self.requirements]
        if self.project is not None:
            pyproject = (self.project / "pyproject.toml").read_bytes()
            lines.append(f"{self.project} {hashlib.sha256(pyproject).hexdigest()}")
        return "\n".join(lines) + "\n"


def ensure_venv(venv: Venv, root: Path) -> Path:
    """The environment's Python, after making the environment if it is missing or out of date."""
    folder = root / venv.name
    python = folder / "bin" / "python"
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == venv.stamp():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    for command in install_commands(venv, folder):
        _run(command, venv.name)
    stamp.write_text(venv.stamp())
    return python


def install_commands(venv: Venv, folder: Path) -> list[list[str]]:
    """Commands that make the environment: by uv where it is installed, otherwise by venv and pip."""
    packages = [*venv.requirements, *(["--editable", str(venv.project)] if venv.project else [])]
    python = str(folder / "bin" / "python")
    if importlib.util.find_spec("uv") is not None:
        uv = [sys.executable, "-m", "uv", "--quiet"]
        return [
            [*uv, "venv", "--python", sys.executable, str(folder)],
            [*uv, "pip", "install", "--compile-bytecode", "--python", python, *packages],  # pip compiles too
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", *packages],
    ]


def _run(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchSetupError(
            f"environment {name!r} was not installed within {INSTALL_LIMIT_S} s by `{' '.join(command)}`"
        ) from error
    if done.returncode != 0:
        raise BenchSetupError(
            f"environment {name!r} could not be installed: `{' '.join(command)}` ended with "
            f"{done.returncode}:\n{done.stderr.strip()}"
        )
