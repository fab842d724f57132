"""Runs the mutants: `python -m tests.mutants`, or some of them: `python -m tests.mutants M5 R17`.

Each is planted in a copy of the source, and the tests that should find it are run there. The exit code is 1 if one
survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("penstock", "tests", "scripts", "pyproject.toml")
LIMIT_S = 300


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    killer: str | None
    finding: str
    seconds: float

    def __str__(self) -> str:
        end = f"killed by {self.killer}" if self.killer is not None else "SURVIVED"
        return f"{self.mutant.name:9} {end} in {self.seconds:.0f} s: {self.mutant.what}; {self.finding}"


def main(arguments: list[str]) -> int:
    """Exit code 1 if a mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    started_s = time.monotonic()
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(try_mutant, chosen):
            print(verdict, flush=True)
            verdicts.append(verdict)
    survivors = [verdict.mutant.name for verdict in verdicts if verdict.killer is None]
    print(f"{len(verdicts)} mutants, {len(survivors)} survived {survivors or ''}, {time.monotonic() - started_s:.0f} s")
    return int(bool(survivors) or not verdicts)


def try_mutant(mutant: Mutant) -> Verdict:
    """Plant it in a copy, and run its tests until one fails."""
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-") as folder:
        copy = Path(folder)
        for name in COPIED:
            _copy(ROOT / name, copy / name)
        plant(mutant, copy)
        for killer in mutant.killers:
            finding = _run(killer, copy)
            if finding is not None:
                return Verdict(mutant, killer, finding, time.monotonic() - started_s)
    return Verdict(mutant, None, "no test fails", time.monotonic() - started_s)


def plant(mutant: Mutant, folder: Path) -> None:
    """Change the source below a folder; ValueError if a place is not there exactly once."""
    for edit in mutant.edits:
        path = folder / edit.path
        text = path.read_text(encoding="utf-8")
        if text.count(edit.old) != 1:
            raise ValueError(f"{mutant.name}: {edit.path} has {edit.old!r} {text.count(edit.old)} times, expected once")
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


def _run(killer: str, folder: Path) -> str | None:
    """What the tests found; None if they passed."""
    kind, *rest = killer.split()
    if kind == "sim":
        command = [sys.executable, "-B", "-m", "tests.sim", "--processes", "1", "--failures", "1", "--seeds", *rest]
    else:
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", kind, *rest]
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "no-shrinking"}
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None  # that nothing was found in time is no finding
    if run.returncode == 0:
        return None
    return _finding(run.stderr.splitlines() if kind == "sim" else run.stdout.splitlines())


def _finding(lines: Sequence[str]) -> str:
    """The line that says what is wrong. Anything but a failed test is an error of the mutant itself."""
    for index, line in enumerate(lines):
        if " failed; replay it with" in line:
            return lines[index - 1].strip()[:150]
        if line.startswith("FAILED "):
            return line.removeprefix("FAILED ")[:150]
    raise RuntimeError("the tests could not be run:\n" + "\n".join(lines[-20:]))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
