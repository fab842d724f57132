"""What a client costs workload W1: figures against their limits, the commands of a round, the values of look-ups."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from bench import client_cost, queries, watching
from bench.client_cost import ALONE, REPEATED_BATCHES, Comparison, Found, make_engines, make_parser, to_document
from bench.console import Console
from bench.datasets import Dataset
from bench.engine import Round
from bench.engines import penstock
from bench.figures import summarise
from bench.programs.epoch_log import Progress
from bench.programs.w1_values import check_values, early_keys, final_counts
from bench.report import Report
from bench.rounds import Plan
from tests.bench.runs import make_run

TINY = Dataset("tiny", rows=800, keys=30, events_per_s=100)


def make_report(rates: dict[str, list[float]], *, checked: bool = True) -> Report:
    engines = {name: summarise([make_run(rate) for rate in own]) for name, own in rates.items()}
    return Report("w1", "tiny", 800, 100, checked, engines)


def compare(name: str, alone: list[float], beside: list[float], found: list[Found]) -> Comparison:
    return Comparison(make_report({ALONE: alone, name: beside}), name, tuple(found))


def answered(*rates: float) -> list[Found]:
    return [{"lookups": 10 * rate, "seconds": 10.0, "latency_ms": 2.0, "latency_p95_ms": 3.5} for rate in rates]


def write_keys(path: Path, keys: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    pa_parquet.write_table(pa.table({"key": keys, "value": [0.0] * len(keys)}), path)


def test_the_cost_is_that_of_the_medians_and_may_be_below_zero() -> None:
    comparison = compare("queried", [100.0, 200.0, 900.0], [150.0, 10.0, 180.0], answered(1, 1, 1))
    assert comparison.lost_percent == pytest.approx(25.0)
    assert compare("queried", [100.0], [110.0], answered(1)).lost_percent == pytest.approx(-10.0)


def test_queries_are_within_their_limits_at_the_limits() -> None:
    verdict = queries.judge(compare("queried", [100.0] * 3, [90.5, 90.5, 1.0], answered(20_000, 20_000, 1)))
    assert verdict.is_within_limits and verdict.figures["lookups_per_s"] == 20_000
    assert verdict.lines == (
        "round 1: 100 rows/s alone, 90 rows/s queried, 20,000 look-ups/s, 2.0 ms (95 %: 3.5 ms)",
        "round 2: 100 rows/s alone, 90 rows/s queried, 20,000 look-ups/s, 2.0 ms (95 %: 3.5 ms)",
        "round 3: 100 rows/s alone, 1 rows/s queried, 1 look-ups/s, 2.0 ms (95 %: 3.5 ms)",
        "look-ups: 20,000/s (limit: at least 20,000/s): kept",
        "cost: 9.5 % of the rows/s (limit: at most 10 %): kept",
    )


@pytest.mark.parametrize(("rate", "lookups"), [(100.0, 19_000.0), (80.0, 30_000.0)])
def test_one_missed_limit_of_queries_is_enough(rate: float, lookups: float) -> None:
    verdict = queries.judge(compare("queried", [100.0], [rate], answered(lookups)))
    assert not verdict.is_within_limits and sum("MISSED" in line for line in verdict.lines) == 1


@pytest.mark.parametrize(("rate", "is_within"), [(98.5, True), (97.5, False), (105.0, True)])
def test_watching_may_cost_two_percent(rate: float, is_within: bool) -> None:
    verdict = watching.judge(compare("watched", [100.0], [rate], [{"events": 60, "scrapes": 13}]))
    assert verdict.is_within_limits == is_within
    assert verdict.lines[0].endswith(" rows/s watched, 60 events, 13 scrapes")


def test_the_json_document_is_that_of_the_benchmark_and_the_figures() -> None:
    comparison = compare("watched", [100.0], [98.5], [{"events": 60, "scrapes": 13}])
    document = to_document(comparison, watching.judge(comparison))
    assert set(document["engines"]) == {"alone", "watched"} and document["checked"]
    assert document["figures"] == {"lost_percent": 1.5} and document["within_limits"]
    assert document["found"] == [{"events": 60, "scrapes": 13}]


@pytest.mark.parametrize(
    ("report", "is_complete"),
    [
        (make_report({ALONE: [1.0], "watched": [1.0]}), True),
        (make_report({ALONE: [1.0], "watched": [1.0]}, checked=False), False),
        (make_report({ALONE: [1.0]}), False),
    ],
)
def test_a_failed_round_or_a_wrong_count_makes_the_comparison_incomplete(report: Report, is_complete: bool) -> None:
    assert Comparison(report, "watched", ()).is_complete == is_complete


def test_both_kinds_of_rounds_run_the_same_job(tmp_path: Path) -> None:
    round_ = Round(Path("python"), tmp_path, rows=800, files_per_trigger=2, work=tmp_path / "queried-1")
    alone, queried = make_engines(queries.CLIENT, tmp_path)
    [job], [same_job, client] = alone.commands(round_), queried.commands(round_)
    assert job == same_job
    assert job == [*penstock.commands(round_)[0], "--repeated-batches", str(REPEATED_BATCHES), "--queryable"]
    options = dict(zip(client[2::2], client[3::2], strict=True))
    assert options["--rows"] == str(alone.expected_rows(TINY.rows, TINY.rows_per_batch)) == str(800 + 80 * 100)
    assert options["--result"] == str(tmp_path / "queried-1.json")
    assert options["--warmup-batches"] == str(queried.warmup_batches)


def test_watching_is_compared_with_a_job_that_has_no_server(tmp_path: Path) -> None:
    round_ = Round(Path("python"), tmp_path, rows=800, files_per_trigger=2, work=tmp_path / "watched-1")
    alone, watched = make_engines(watching.CLIENT, tmp_path)
    [job], [served_job, _] = alone.commands(round_), watched.commands(round_)
    assert job == [*served_job, "--without-server"]


@pytest.mark.parametrize(("rate", "code"), [(99.0, 0), (90.0, 1)])
def test_the_exit_code_says_whether_the_limits_are_kept(
    rate: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_plan(plan: Plan, console: Console) -> Report:
        [with_client] = [engine for engine in plan.engines if engine.name == "watched"]
        for number in range(1, plan.rounds + 1):
            round_ = Round(Path("python"), tmp_path, 800, 2, tmp_path / f"watched-{number}")
            Path(with_client.commands(round_)[1][-1]).write_text('{"events": 60, "scrapes": 13}')
        return make_report({ALONE: [100.0] * plan.rounds, "watched": [rate] * plan.rounds})

    monkeypatch.setattr(client_cost, "run_plan", run_plan)
    assert watching.main(["--rounds", "2", "--json", str(tmp_path / "out" / "w.json")]) == code
    assert "round 2: 100 rows/s alone" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "w.json").read_text())["within_limits"] == (code == 0)


def test_without_figures_nothing_is_judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(client_cost, "run_plan", lambda plan, console: make_report({ALONE: [1.0]}, checked=False))
    assert queries.main(["--quick"]) == 1
    assert "not measured" in capsys.readouterr().err


def test_rounds_are_at_least_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_parser("x").parse_args([]).rounds is None
    with pytest.raises(SystemExit, match="2"):
        make_parser("x").parse_args(["--rounds", "0"])
    assert "0 is less than 1" in capsys.readouterr().err


def test_a_client_knows_from_the_batches_how_far_the_program_is(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    progress = Progress(events, warmup_batches=1, rows=30)
    assert not progress.is_warm() and not progress.is_done()
    with events.open("w", buffering=1) as file:
        file.write('{"rows": 10}\n{"rows"')
        assert progress.is_warm() and not progress.is_done()
        file.write(": 20}\n")
        file.flush()
        assert progress.is_warm() and progress.is_done()


def test_the_final_count_of_a_key_has_each_name_of_a_file(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "input"
    write_keys(data / "part-0.parquet", ["a", "a", "b"])
    write_keys(data / "part-1.parquet", ["b", "c"])
    work.mkdir()
    for name, number in (("part-0", 0), ("part-1", 1), ("again-0", 0), ("again-1", 0)):
        os.link(data / f"part-{number}.parquet", work / f"{name}.parquet")
    assert final_counts(work) == {"a": 6, "b": 4, "c": 1}


def test_only_keys_of_the_oldest_quarter_of_the_files_are_asked_for(tmp_path: Path) -> None:
    for number in range(8):
        write_keys(tmp_path / "data" / f"part-{number}.parquet", [f"k{number}", "k0"])
    assert early_keys(tmp_path / "data") == ["k0", "k1"]


def test_counts_up_to_the_final_one_are_plausible() -> None:
    check_values(["a", "b", "a"], [(1, 0.5), (2, 1.5), (3, 2.5)], {"a": 3, "b": 2})


@pytest.mark.parametrize("value", [None, (0, 0.0), (4, 1.0), (2.0, 1.0), (True, 1.0)])
def test_a_value_that_no_moment_of_the_job_can_have_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="'a'"):
        check_values(["a"], [value], {"a": 3})


def test_an_answer_for_another_number_of_keys_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        check_values(["a", "a"], [(1, 0.0)], {"a": 3})
