"""The lines that end a run of the tests."""

import subprocess
from collections import Counter
from itertools import product

import pytest

from tests.loading import load_script

tiers = load_script("tiers")


def test_a_tier_ends_with_its_figures() -> None:
    outcome = tiers.Outcome(0, 12.4, Counter(passed=7, skipped=2))
    assert tiers.closing_lines("unit", outcome) == ["tier unit: 7 passed, 2 skipped, 12 s"]


@pytest.mark.parametrize(
    ("exit_code", "seconds", "counts", "first"),
    [
        (0, 241.0, {"passed": 1}, "warning: tier unit took 241 s, its share is 240 s"),
        (5, 1.0, {}, "warning: tier unit has no tests"),
        (2, 1.0, {}, "error: tier unit ended with pytest's exit code 2"),
        (1, 1.0, {"failed": 1, "error": 1}, "tier unit: 2 failed, 0 passed, 0 skipped, 1 s"),
    ],
)
def test_what_is_wrong_with_a_tier_is_said(exit_code: int, seconds: float, counts: dict[str, int], first: str) -> None:
    assert tiers.closing_lines("unit", tiers.Outcome(exit_code, seconds, Counter(counts)))[0] == first


def test_all_tiers_run_and_one_that_fails_fails_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = iter([tiers.Outcome(1, 1.0, Counter(failed=1)), tiers.Outcome(0, 2.0, Counter(passed=3))])
    monkeypatch.setattr(tiers, "run_tier", lambda tier, options: next(outcomes))
    assert tiers.main(["unit", "spark"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "tier unit: 1 failed, 0 passed, 0 skipped, 1 s",
        "tier spark: 3 passed, 0 skipped, 2 s",
        "============ 1 failed, 3 passed in 3.00s ============",
    ]


def test_a_tier_on_two_workers_counts_as_one_on_none() -> None:
    """Through a file that the process writes which was started, not its workers."""
    some = "tests/model/test_watermark.py"
    alone, spread = (
        tiers.run_tier(tiers.Tier("not spark", 60, options), [some, "-p", "no:cacheprovider"])
        for options in ((), tiers.SPREAD)
    )
    assert alone.exit_code == spread.exit_code == 0
    assert alone.counts == spread.counts and alone.counts["passed"] > 0


@pytest.mark.parametrize("marker", [tier.marker for tier in tiers.TIERS.values() if tier.marker])
def test_a_tier_reads_every_file_with_its_marker(marker: str) -> None:
    command = ["grep", "-rlw", "--include=*.py", f"mark.{marker}", "penstock", "scripts", "tests"]
    named = subprocess.run(command, cwd=tiers.ROOT, capture_output=True, text=True).stdout.split()
    others = ("conftest.py", "test_tiers.py")
    assert {name for name in named if not name.endswith(others)} <= set(tiers.files_with(marker))


def test_a_tier_reads_only_what_it_is_given_if_that_is_a_file() -> None:
    assert tiers.files_with("") == []
    assert "tests/spark/test_windows.py" in tiers.files_with("spark")
    assert "tests/model/test_watermark.py" not in tiers.files_with("spark")


def test_an_unknown_tier_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiers.main(["units"]) == 2
    assert "unit, sim, spark, process" in capsys.readouterr().err


def test_every_test_is_in_exactly_one_tier() -> None:
    markers = ("spark", "process", "full", "large", "cluster", "sim", "e2e")
    for chosen in product([False, True], repeat=len(markers)):
        of_test = dict(zip(markers, chosen, strict=True))
        assert sum(eval(tier.markers, of_test) for tier in tiers.TIERS.values()) == 1, of_test
