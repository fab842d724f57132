"""The suite, the document of results, its page and its plots."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.datasets import DATASETS
from bench.engine import Engine, engine_names, load_engine
from bench.errors import BenchUsageError
from bench.figures import Run, summarise
from bench.publish import __main__ as command
from bench.publish.machine import java_version, processor_name
from bench.publish.page import MARK, to_page
from bench.publish.plots import plots_of
from bench.publish.progress import Progress
from bench.publish.results import Circumstances, Document, empty, merge, read_results, write_results
from bench.publish.suite import SUITE, Case, chosen_cases
from bench.report import Report
from bench.rounds import Plan
from bench.workloads import WORKLOADS
from tests.bench.runs import make_run

MACHINE = {
    "cores": 2,
    "memory_gib": 24.0,
    "processor": "Made up",
    "system": "Linux 6",
    "python": "3.11.7",
    "java": "17",
}
BY = Circumstances("2026-05-04", "abc123", MACHINE, rounds=2)


def engines(*names: str) -> tuple[Engine, ...]:
    return tuple(map(load_engine, names))


def report(case: Case, runs: dict[str, list[Run]], **missing: str) -> Report:
    own = {name: summarise(done) for name, done in runs.items()}
    return Report(case.workload, case.data, DATASETS[case.data].rows, case.rows_per_epoch, True, own, missing)


def with_w3() -> Document:
    """Penstock and Spark are measured, Flink is partial, Pandas has not finished, Bytewax has miscounted."""
    case = Case("w3", "big")
    runs = {
        "penstock": [make_run(300.0, figures={"state process peak MB": 150.0}), make_run(100.0)],
        "spark_jvm": [make_run(50.0), make_run(150.0, foreign_cpu_percent=30.0)],
        "pyflink_thread": [make_run(7.0, partial=True, checked=False)],
        "bytewax": [make_run(900.0), make_run(900.0, checked=False)],
    }
    found = report(case, runs, spark_tws_pandas="did not finish")
    return merge(empty(), case, found, engines(*runs, "spark_tws_pandas"), BY)


def test_the_suite_has_every_workload_and_data_that_fits() -> None:
    assert {case.workload for case in SUITE} == set(WORKLOADS)
    assert len({case.id for case in SUITE}) == len(SUITE)
    for case in SUITE:
        DATASETS[case.data].files_per_trigger(case.rows_per_epoch)
        assert case.engines()[0].name.startswith("penstock")


def test_every_engine_is_in_the_suite_unless_it_answers_another_question() -> None:
    published = {engine.name for case in SUITE for engine in case.engines()}
    assert published == {name for name in engine_names() if load_engine(name).is_published}
    assert "penstock_every_second" not in published


def test_a_name_may_mean_all_queries_of_a_workload() -> None:
    assert [case.workload for case in chosen_cases(["w6"], is_quick=False)] == ["w6_q5", "w6_q7", "w6_q8", "w6_q11"]
    assert len(chosen_cases([], is_quick=False)) == len(SUITE)
    assert [case.workload for case in chosen_cases([], is_quick=True)] == list(dict.fromkeys(c.workload for c in SUITE))
    with pytest.raises(BenchUsageError, match="w99"):
        chosen_cases(["w99"], is_quick=False)


def test_only_complete_and_right_runs_have_a_rate_and_a_ratio() -> None:
    case = with_w3()["cases"]["w3-big-250000"]
    found = {name: (entry["status"], entry.get("rows_per_s")) for name, entry in case["engines"].items()}
    assert found == {
        "penstock": ("measured", 200.0),
        "spark_jvm": ("measured", 100.0),
        "pyflink_thread": ("partial", None),
        "bytewax": ("wrong counts", None),
        "spark_tws_pandas": ("did not finish", None),
    }
    assert case["ratios"] == {"spark_jvm": 2.0} and case["ratio_of"] == "penstock"
    assert case["engines"]["pyflink_thread"]["partial_rows_per_s"] == 7.0


def test_nothing_is_compared_with_a_penstock_that_has_failed() -> None:
    case = Case("w3", "big")
    found = report(case, {"penstock": [make_run(1.0)], "spark_jvm": [make_run(1.0)] * 2}, penstock="failed")
    entry = merge(empty(), case, found, engines("penstock", "spark_jvm"), BY)["cases"][case.id]
    assert entry["ratios"] == {} and "rows_per_s" not in entry["engines"]["penstock"]


def test_a_run_replaces_its_own_case_only(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "results.json"
    write_results(path, with_w3())
    case = Case("w9", "big")
    later = replace(BY, date="2026-06-01")
    document = merge(
        read_results(path), case, report(case, {"penstock": [make_run(5.0)] * 2}), engines("penstock"), later
    )
    assert document["cases"]["w3-big-250000"] == with_w3()["cases"]["w3-big-250000"]
    assert document["cases"]["w9-big-250000"]["date"] == "2026-06-01"
    assert read_results(tmp_path / "missing.json") == empty()


def test_without_results_the_page_says_of_each_workload_that_it_is_not_measured() -> None:
    page = to_page(empty())
    assert page.startswith(MARK) and page.count("Not measured yet.") == len(WORKLOADS)
    assert plots_of(empty()) == {}


def test_the_page_shows_the_figures_and_what_is_missing() -> None:
    page = to_page(with_w3())
    assert "| penstock | 200 | 300 100 | 100 | 150 |  |" in page
    assert "| spark_jvm ¹ | 100 | 50 150 | 100 |  | 2.00 |" in page
    assert "| pyflink_thread | partial |  | 100 |  |  |" in page
    assert "| spark_tws_pandas ¹ | did not finish |  |  |  |  |" in page
    assert "pyflink_thread was stopped after 600 s, before the end of its input." in page
    assert "In rounds of spark_jvm, other work used more than 5 % of the machine" in page
    assert "2026-05-04, commit abc123, medians of 2 rounds in turns; 2 cores (Made up), 24 GiB" in page
    assert "250,000 rows per epoch" in page and "bytewax 0.21.1" in page


def test_figures_that_are_not_rates_are_rows_of_their_table() -> None:
    case = Case("w8", "rate_1k")
    runs = {
        "penstock": [make_run(1.0, figures={"p50 ms": 400.0, "p99 ms": 900.0})] * 2,
        "bytewax": [make_run(1.0, figures={"p50 ms": 4.56})] * 2,
    }
    page = to_page(
        merge(empty(), case, report(case, runs, spark_tws_row="failed"), engines(*runs, "spark_tws_row"), BY)
    )
    assert "**rate_1k: 1,000 rows/s, 1,000 keys**" in page
    assert "| | penstock | bytewax | spark_tws_row |" in page and "| result | measured | measured | failed |" in page
    assert "| p50 ms | 400 | 4.6 |  |" in page and "| p99 ms | 900 |  |  |" in page


def scaling() -> Document:
    document = empty()
    for case, rate in ((Case("w5", "keys_100k"), 500.0), (Case("w5", "keys_10m"), 125.0)):
        runs = {"penstock_rocksdb": [make_run(rate)] * 2, "pyflink_thread": [make_run(rate / 100)] * 2}
        document = merge(document, case, report(case, runs), engines(*runs), BY)
    return document


def test_bars_are_as_long_as_rates_and_lines_go_through_all_points() -> None:
    plots = plots_of({"format": 1, "cases": {**with_w3()["cases"], **scaling()["cases"]}})
    assert set(plots) == {"w3-big-250000", "w5-keys_100k-250000", "w5-keys_10m-250000", "w5-keys"}
    widths = [
        float(width) for width in re.findall(r'class="(?:own|other)" .*?width="([\d.]+)"', plots["w3-big-250000"])
    ]
    assert len(widths) == 2 and widths[0] == pytest.approx(2 * widths[1])
    assert plots["w5-keys"].count("<polyline") == 2 and plots["w5-keys"].count("<circle") == 4
    for text in plots.values():
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg") and "prefers-color-scheme: dark" in text


def test_every_plot_is_on_the_page_and_every_picture_of_the_page_is_a_plot() -> None:
    for document in (with_w3(), scaling()):
        assert set(re.findall(r"\(plots/([\w.-]+)\.svg\)", to_page(document))) == set(plots_of(document))


def test_progress_estimates_from_what_was_measured_and_forgets_engines_that_are_out() -> None:
    now = [0.0]
    case = Case("w3", "big")
    progress = Progress([(case, engines("penstock", "bytewax"))], 2, empty(), lambda: now[0])
    assert progress.left() == "about 4 min"  # 90 s and 45 s, twice
    progress.begin(case)
    first = progress.before_round("penstock", 1)
    assert first == "[1/1 w3-big-250000, about 4 min left] penstock, round 1, about 2 min"
    now[0] = 30.0
    progress.before_round("bytewax", 1)
    assert progress.left() == "about 1 min"  # 30 s and 45 s, after this round
    progress.before_round("penstock", 2)
    progress.end(case)
    assert progress.left() == "about 0 s"


def test_the_command_writes_results_page_and_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Plan] = []

    def run_plan(plan: Plan, console: Any, before_round: Any) -> Report:
        seen.append(plan)
        runs = {engine.name: [make_run(10.0 * len(engine.name))] for engine in plan.engines}
        return report(Case(plan.workload, plan.dataset.name), runs)

    monkeypatch.setattr(command, "run_plan", run_plan)
    options = ["--quick", "--workloads", "w4,w9", "--folder", str(tmp_path)]
    assert command.main(options) == 0
    assert [plan.workload for plan in seen] == ["w4", "w9"] and {plan.dataset.name for plan in seen} == {"smoke"}
    assert set(read_results(tmp_path / "results.json")["cases"]) == {"w4-smoke-2500", "w9-smoke-2500"}
    assert (tmp_path / "plots" / "w4-smoke-2500.svg").exists()
    check = ["--render", "--check", "--folder", str(tmp_path)]
    assert command.main(check) == 0
    (tmp_path / "index.md").write_text("changed")
    (tmp_path / "plots" / "gone.svg").write_text("")
    assert command.main(check) == 1
    assert command.main(["--render", "--folder", str(tmp_path)]) == 0 == command.main(check)


def test_an_engine_without_figures_makes_the_command_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = report(Case("w9", "smoke"), {}, penstock="failed")
    monkeypatch.setattr(command, "run_plan", lambda *arguments: found)
    assert command.main(["--quick", "--workloads", "w9", "--folder", str(tmp_path)]) == 1
    assert "| penstock | failed |" in (tmp_path / "index.md").read_text()


def test_a_wrong_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--workloads", "w99"]) == 2
    assert "w99" in capsys.readouterr().err


def test_what_the_machine_says_of_itself(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n")
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.1"\n')
    assert processor_name(tmp_path / "cpuinfo") == "Some CPU @ 2 GHz"
    assert java_version(tmp_path / "release") == "17.0.1"
    assert processor_name(tmp_path / "none") == java_version(tmp_path / "none") == "unknown"
