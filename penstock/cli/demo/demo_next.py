"""What the demo leaves behind: a savepoint to look into, a program to run, and three commands that do so."""

import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.demo import first_program

ORDERS = (
    {"customer": "ada", "amount": 2.0},
    {"customer": "bob", "amount": 5.5},
    {"customer": "ada", "amount": 3.0},
)


@dataclass(frozen=True)
class KeptFolder:
    """The folder that stays when the demo has ended. The next run of the demo replaces it."""

    root: Path

    @staticmethod
    def of_user() -> "KeptFolder":
        """The one in the user's state folder."""
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return KeptFolder(Path(state) / "penstock" / "demo")

    @property
    def savepoints(self) -> Path:
        return self.root / "savepoints"

    @property
    def program(self) -> Path:
        return self.root / "totals.py"

    def prepare(self) -> None:
        """Remove what an earlier run left, and write a first program with its input."""
        if self.root.exists():
            shutil.rmtree(self.root)
        orders = self.root / "orders"
        orders.mkdir(parents=True)
        (orders / "1.json").write_text("".join(json.dumps(order) + "\n" for order in ORDERS), encoding="utf-8")
        shutil.copyfile(first_program.__file__, self.program)


def next_commands(kept: KeptFolder, savepoint: str, user: str) -> list[tuple[str, str]]:
    """Three commands to try, each with what it does. They can be typed as they are."""
    penstock, place = _command(), _typed(savepoint)
    return [
        (f"{penstock} state ls {place}", "the state that the job had in the middle"),
        (f"{penstock} state show {place} --operator totals --state totals --key {user}", "the totals of one user"),
        (f"{penstock} run -p 2 {_typed(kept.program)}", "a first program of your own; Ctrl-C suspends it"),
    ]


def _command() -> str:
    """The command as the user's shell finds it."""
    if shutil.which("penstock") is not None:
        return "penstock"
    beside = Path(sys.executable).parent / "penstock"  # in the virtual environment that runs this
    return shlex.quote(os.path.relpath(beside)) if beside.is_file() else f"{shlex.quote(sys.executable)} -m penstock"


def _typed(path: str | Path) -> str:
    """A path as one would type it.

    >>> _typed("/data/a b"), _typed(Path.home() / "x")
    ("'/data/a b'", '~/x')
    """
    text, home = str(path), f"{Path.home()}/"
    return f"~/{shlex.quote(text[len(home) :])}" if text.startswith(home) else shlex.quote(text)
