"""Runs tiers of the tests, one after the other: `python scripts/tiers.py unit sim spark process`.

Each tier is a run of pytest and ends with the line `tier <name>: N passed, N skipped, S s`. Several tiers end with one
closing line in pytest's form, which adds them up. The exit code is 1 if any tier failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS = 5
"""pytest's exit code when nothing was collected."""


@dataclass(frozen=True)
class Tier:
    """Which tests belong to a tier, how long they should take together on two cores, and how they are spread."""

    markers: str
    share_s: int
    options: tuple[str, ...] = ()
    """Of pytest."""
    marker: str = ""
    """All tests of the tier have it: only files that name it are read, which saves each worker seconds."""


SPREAD = ("-n", "2", "--dist", "worksteal")
"""Over two processes, where tests are independent and keep a core busy."""
SPREAD_WAITING = ("-n", "3", "--dist", "worksteal")
"""Over three, where tests wait for processes to start and for time to pass."""
NOT_TODAY = "not full and not large and not cluster and not e2e"
TIERS = {
    "unit": Tier(f"not spark and not process and not sim and {NOT_TODAY}", 4 * 60, SPREAD),
    "sim": Tier(f"sim and {NOT_TODAY}", 60, marker="sim"),
    "spark": Tier(f"spark and not process and not sim and {NOT_TODAY}", 5 * 60, SPREAD_WAITING, "spark"),
    "process": Tier(f"process and not sim and {NOT_TODAY}", 5 * 60, SPREAD_WAITING, "process"),
    "full": Tier("full and not large and not cluster and not e2e", 60 * 60, marker="full"),
    "e2e": Tier("e2e", 60 * 60, marker="e2e"),
    "large": Tier("large and not cluster and not e2e", 60 * 60, marker="large"),
    "cluster": Tier("cluster and not e2e", 60 * 60, marker="cluster"),
}


@dataclass(frozen=True)
class Outcome:
    """How a tier ended."""

    exit_code: int
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)


def main(arguments: list[str]) -> int:
    """Exit code 0 if every named tier passed. What follows `--` is handed to pytest."""
    names, _, options = partition(arguments)
    unknown = [name for name in names if name not in TIERS]
    if unknown or not names:
        print(f"tiers are {', '.join(TIERS)}; found {' '.join(unknown) or 'none'}", file=sys.stderr)
        return 2
    outcomes = []
    for name in names:
        outcomes.append(run_tier(TIERS[name], options))
        print("\n".join(closing_lines(name, outcomes[-1])), flush=True)
    if len(outcomes) > 1:
        print(total_line(outcomes), flush=True)
    return int(any(outcome.exit_code not in (0, NO_TESTS) for outcome in outcomes))


def partition(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    """The arguments before `--`, the separator, and those after it."""
    if "--" not in arguments:
        return arguments, "", []
    at = arguments.index("--")
    return arguments[:at], "--", arguments[at + 1 :]


def run_tier(tier: Tier, options: list[str]) -> Outcome:
    """The outcome of one pytest process; its counts come through a file that `tests/conftest.py` writes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "counts.json"
        environment = {**os.environ, "PENSTOCK_TEST_COUNTS": str(report)}
        start_s = time.monotonic()
        files = [] if any(Path(option.partition("::")[0]).exists() for option in options) else files_with(tier.marker)
        command = [sys.executable, "-m", "pytest", "-q", "-m", tier.markers, *tier.options, *options, *files]
        exit_code = subprocess.run(command, env=environment, check=False).returncode
        seconds = time.monotonic() - start_s
        counts = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return Outcome(exit_code, seconds, Counter(counts))


def files_with(marker: str) -> list[str]:
    """The test files that name a marker, and those of the folder with its name; none for no marker: read all."""
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if marker and belongs(path, marker)]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def belongs(path: Path, marker: str) -> bool:
    """Whether a file may have tests with the marker; `tests/spark/conftest.py` marks those of its folder."""
    return marker in path.relative_to(ROOT).parts or f"mark.{marker}" in path.read_text(encoding="utf-8")


def closing_lines(name: str, outcome: Outcome) -> list[str]:
    """What is printed after a tier; the line with its figures is the last.

    >>> closing_lines("unit", Outcome(0, 12.4, Counter(passed=7)))
    ['tier unit: 7 passed, 0 skipped, 12 s']
    """
    lines = []
    share_s = TIERS[name].share_s
    if outcome.exit_code == NO_TESTS:
        lines.append(f"warning: tier {name} has no tests")
    if outcome.seconds > share_s:
        lines.append(f"warning: tier {name} took {outcome.seconds:.0f} s, its share is {share_s} s")
    counts = outcome.counts
    failed = counts["failed"] + counts["error"]
    if not failed and outcome.exit_code not in (0, NO_TESTS):
        lines.append(f"error: tier {name} ended with pytest's exit code {outcome.exit_code}")
    failures = f"{failed} failed, " if failed else ""
    lines.append(
        f"tier {name}: {failures}{counts['passed']} passed, {counts['skipped']} skipped, {outcome.seconds:.0f} s"
    )
    return lines


def total_line(outcomes: list[Outcome]) -> str:
    """The closing line of all tiers together, in pytest's form.

    >>> total_line([Outcome(0, 61.2, Counter(passed=7)), Outcome(1, 2.3, Counter(passed=1, failed=2))])
    '============ 2 failed, 8 passed in 63.50s ============'
    """
    counts: Counter[str] = sum((outcome.counts for outcome in outcomes), Counter())
    seconds = sum(outcome.seconds for outcome in outcomes)
    kinds = ("failed", "passed", "skipped", "xfailed", "xpassed", "error")
    parts = ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind]) or "no tests ran"
    return f"============ {parts} in {seconds:.2f}s ============"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
