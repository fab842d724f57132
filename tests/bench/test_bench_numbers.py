"""Every benchmark figure of the documentation is in docs/benchmarks/results.json."""

from statistics import median
from typing import Any

import pytest

from bench.publish import __main__ as command
from bench.publish.numbers import MarkedNumber, marked_numbers, problem
from bench.publish.results import MEASURED, read_results
from tests.docs.pages import ROOT, all_pages

RESULTS = command.PAGES / "results.json"
PAGES = [*all_pages(), ROOT / "CHANGELOG.md"]


def test_marked_numbers_are_those_of_the_results() -> None:
    document = read_results(RESULTS)
    found = [
        f"{path.relative_to(ROOT)}: {wrong}"
        for path in PAGES
        for number in marked_numbers(path.read_text(encoding="utf-8"))
        if (wrong := problem(number, document))
    ]
    assert not found, "\n".join(found)


def test_the_page_and_the_plots_are_made_from_the_results() -> None:
    assert command.main(["--render", "--check"]) == 0, "run `make docs-sources`"


def test_results_are_the_medians_and_ratios_of_their_runs() -> None:
    for name, case in read_results(RESULTS)["cases"].items():
        rates = {}
        for engine, entry in case["engines"].items():
            assert (entry["status"] == MEASURED) == ("rows_per_s" in entry), (name, engine)
            if entry["status"] != MEASURED:
                continue
            runs = entry["runs"]
            rates[engine] = median(run["rows_per_s"] for run in runs)
            assert len(runs) == case["rounds"] and all(run["checked"] and not run["partial"] for run in runs)
            assert entry["rows_per_s"] == pytest.approx(rates[engine], rel=1e-3, abs=0.1), (name, engine)
        for engine, ratio in case["ratios"].items():
            assert ratio == pytest.approx(rates[case["ratio_of"]] / rates[engine], rel=1e-2, abs=1e-3), (name, engine)


DOCUMENT: dict[str, Any] = {"cases": {"w3": {"ratios": {"bytewax": 2.38}, "checked": True, "date": "2026-05-04"}}}


@pytest.mark.parametrize("shown", ["2.4", "2.38", "2"])
def test_a_number_may_be_rounded(shown: str) -> None:
    assert problem(MarkedNumber(shown, "w3/ratios/bytewax"), DOCUMENT) is None


@pytest.mark.parametrize(
    ("shown", "path"),
    [
        ("2.5", "w3/ratios/bytewax"),
        ("", "w3/ratios/bytewax"),
        ("2.4", "w3/ratios/spark_jvm"),
        ("2.4", "w3/ratios/bytewax/rows"),
        ("1", "w3/checked"),
        ("2026", "w3/date"),
    ],
)
def test_a_number_that_is_not_in_the_results_is_found(shown: str, path: str) -> None:
    assert problem(MarkedNumber(shown, path), DOCUMENT) is not None


def test_a_mark_belongs_to_the_number_before_it() -> None:
    text = "From 3 to 180,000<!-- bench: a/b --> rows/s, and 2.4 <!-- bench: c --> times; <!-- bench: d -->"
    assert list(marked_numbers(text)) == [
        MarkedNumber("180,000", "a/b"),
        MarkedNumber("2.4", "c"),
        MarkedNumber("", "d"),
    ]
