"""Runs every test there is, part by part: `python scripts/all_tests.py`, or some parts: `… unit-coverage mutants`.

All parts run, whatever the others came to. Each ends with a line of its own; the end repeats them, with the branch
coverage of the layers below `runtime/` and the command that runs the failed parts again. Exit code 1 if one failed.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COVERAGE = ROOT / "build" / "coverage.json"
LAYERS = ("graph", "checkpoint", "state", "storage", "codec", "model", "errors", "clock", "failpoint")
"""What must be covered by tests without Spark and without processes."""
KINDS = ("num_statements", "covered_lines", "num_branches", "covered_branches")
PYTHON = sys.executable
TIERS = (PYTHON, "scripts/tiers.py")
# Python 3.11 sometimes cannot trace a thread that starts just when another one does; that is no failure of a test.
UNTRACED = ("-W", "default::pytest.PytestUnraisableExceptionWarning")
COVERED = (
    *(f"--cov=penstock.{layer}" for layer in LAYERS),
    "--cov-branch",
    f"--cov-report=json:{COVERAGE}",
    *UNTRACED,
)
PARTS: dict[str, tuple[str, ...]] = {
    "unit-coverage": (*TIERS, "unit", "--", *COVERED, "--timeout=1200"),
    "sim": (*TIERS, "sim"),
    "spark": (*TIERS, "spark"),
    "process": (*TIERS, "process"),
    "full": (*TIERS, "full"),
    "e2e": (*TIERS, "e2e"),
    "large": (*TIERS, "large"),
    "mutants": (PYTHON, "-m", "tests.mutants"),
    "faults": (PYTHON, "-m", "tests.faults"),
}
"""In this order: what fails soon comes first."""


@dataclass(frozen=True)
class Result:
    """How a part ended."""

    part: str
    exit_code: int
    seconds: float

    def __str__(self) -> str:
        word = "passed" if self.exit_code == 0 else f"FAILED with exit code {self.exit_code}"
        return f"part {self.part}: {word}, {self.seconds:.0f} s"


def main(names: Sequence[str]) -> int:
    """Exit code 0 if every part passed, 2 if there is no such part."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"parts are {', '.join(PARTS)}; found {' '.join(unknown)}", file=sys.stderr)
        return 2
    results = []
    for name in names or PARTS:
        results.append(run_part(name))
        print(results[-1], flush=True)
    print("\n".join(closing_lines(results)), flush=True)
    return int(any(result.exit_code for result in results))


def run_part(name: str) -> Result:
    """Run one part; its output goes to the terminal."""
    if name == "unit-coverage":
        COVERAGE.parent.mkdir(exist_ok=True)
        COVERAGE.unlink(missing_ok=True)
    start_s = time.monotonic()
    environment = {"HYPOTHESIS_PROFILE": "thorough", **os.environ}
    exit_code = subprocess.run(PARTS[name], cwd=ROOT, env=environment, check=False).returncode
    return Result(name, exit_code, time.monotonic() - start_s)


def closing_lines(results: Sequence[Result]) -> list[str]:
    """What is printed at the end.

    >>> print(*closing_lines([Result("sim", 0, 40.2), Result("large", 1, 600.0)]), sep="\\n")
    part sim: passed, 40 s
    part large: FAILED with exit code 1, 600 s
    run what failed again: make test-all PARTS="large"
    """
    lines = [str(result) for result in results]
    if any(result.part == "unit-coverage" for result in results) and COVERAGE.exists():
        lines += coverage_lines(json.loads(COVERAGE.read_text(encoding="utf-8")))
    failed = [result.part for result in results if result.exit_code]
    return [
        *lines,
        f'run what failed again: make test-all PARTS="{" ".join(failed)}"' if failed else "all parts passed",
    ]


def coverage_lines(report: Mapping[str, Any]) -> list[str]:
    """The figures for each layer, and those of all together.

    >>> counts = {"num_statements": 10, "covered_lines": 9, "num_branches": 4, "covered_branches": 3}
    >>> print(*coverage_lines({"files": {"penstock/graph/stages.py": {"summary": counts}}}), sep="\\n")
    coverage of graph: 75.0 % of 4 branches, 90.0 % of 10 lines
    coverage of the layers below runtime/: 75.0 % of 4 branches, 90.0 % of 10 lines
    """
    layers = {layer: _sum(report, f"penstock/{layer}") for layer in LAYERS}
    lines = [f"coverage of {layer}: {_shares(counts)}" for layer, counts in layers.items() if counts["num_statements"]]
    total = {kind: sum(counts[kind] for counts in layers.values()) for kind in KINDS}
    return [*lines, f"coverage of the layers below runtime/: {_shares(total)}"]


def _sum(report: Mapping[str, Any], prefix: str) -> dict[str, int]:
    found = [file["summary"] for path, file in report["files"].items() if path.startswith((f"{prefix}/", f"{prefix}."))]
    return {kind: sum(summary[kind] for summary in found) for kind in KINDS}


def _shares(counts: Mapping[str, int]) -> str:
    branches, lines = counts["num_branches"], counts["num_statements"]
    return (
        f"{100 * counts['covered_branches'] / max(1, branches):.1f} % of {branches} branches, "
        f"{100 * counts['covered_lines'] / max(1, lines):.1f} % of {lines} lines"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
