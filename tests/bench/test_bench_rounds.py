"""Whole calls of the benchmark with an engine of a few lines of Python."""

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import rounds
from bench.__main__ import main, make_parser, make_plan
from bench.console import Console
from bench.datasets import Dataset
from bench.engine import Engine, Round, default_names, engine_names, load_engine
from bench.errors import BenchUsageError, RoundFailedError
from bench.processes import Usage, run_processes
from bench.report import Report
from bench.rounds import Plan, run_plan
from bench.venvs import STAMP, Venv, ensure_venv, install_commands

TINY = Dataset("tiny", rows=800, keys=30, events_per_s=100)

# Reports eight batches of a second each, or as many as it is told to.
PROGRAM = """
import json, sys
path, batches = sys.argv[1], int(sys.argv[2])
with open(path, "w") as events:
    for n in range(batches):
        events.write(json.dumps({"rows": 100, "rows_out": 100, "started_ms": n * 1e3, "finished_ms": n * 1e3 + 1e3}))
        events.write("\\n")
"""


def scripted(name: str, program: str, *arguments: str, steady_batches: int | None = None) -> Engine:
    def commands(round_: Round) -> list[list[str]]:
        return [[sys.executable, "-c", program, str(round_.events()), *arguments]]

    return Engine(name, Venv(name, ()), commands, warmup_batches=1, steady_batches=steady_batches)


@pytest.fixture
def no_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines run on the Python of the tests."""
    monkeypatch.setattr(rounds, "ensure_venv", lambda venv, root: Path(sys.executable))


def run(tmp_path: Path, *engines: Engine, rounds_count: int = 2) -> tuple[Report, str]:
    plan = Plan("w1", TINY, TINY.rows_per_batch, engines, rounds_count, 60.0, tmp_path)
    said = io.StringIO()
    return run_plan(plan, Console(said)), said.getvalue()


@pytest.mark.process
@pytest.mark.usefixtures("no_environments")
def test_engines_take_turns_and_are_checked(tmp_path: Path) -> None:
    report, said = run(tmp_path, scripted("one", PROGRAM, "8"), scripted("two", PROGRAM, "8"))
    assert [line.split(":")[0] for line in said.splitlines()[1:]] == [
        "round 1/2 one",
        "round 1/2 two",
        "round 2/2 one",
        "round 2/2 two",
    ]
    assert report.checked
    assert [(s.rows_per_s, len(s.runs)) for s in report.engines.values()] == [(100.0, 2), (100.0, 2)]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.process
@pytest.mark.usefixtures("no_environments")
def test_lost_rows_make_the_report_unchecked(tmp_path: Path) -> None:
    report, said = run(tmp_path, scripted("lossy", PROGRAM, "7"))
    assert not report.checked and "WRONG ROW COUNT (700 rows read)" in said


@pytest.mark.process
@pytest.mark.usefixtures("no_environments")
def test_an_engine_that_stops_by_itself_is_checked_for_its_part(tmp_path: Path) -> None:
    report, _ = run(tmp_path, scripted("brief", PROGRAM, "3", steady_batches=2))
    assert report.checked and report.engines["brief"].runs[0].rows == 300


@pytest.mark.process
@pytest.mark.usefixtures("no_environments")
def test_an_engine_that_fails_is_said_with_its_last_words_and_the_others_go_on(tmp_path: Path) -> None:
    report, said = run(
        tmp_path, scripted("broken", "raise SystemExit('no such table')"), scripted("fine", PROGRAM, "8")
    )
    assert not report.checked and list(report.engines) == ["fine"]
    assert "no such table" in said and said.count("broken") == 2  # its label and its log file: one round only
    assert (tmp_path / "work" / "broken-1" / "process-0.log").exists()


@pytest.mark.process
@pytest.mark.usefixtures("no_environments")
def test_at_the_time_limit_the_rate_is_that_of_the_finished_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_to_the_limit(*arguments: Any, **options: Any) -> Usage:
        return replace(run_processes(*arguments, **options), stopped_at_limit=True)

    monkeypatch.setattr(rounds, "run_processes", run_to_the_limit)
    report, said = run(tmp_path, scripted("slow", PROGRAM, "4"), rounds_count=1)
    assert report.engines["slow"].runs[0].partial and report.engines["slow"].rows_per_s == 100.0
    assert not report.checked and "stopped at the time limit" in said


@pytest.mark.process
def test_nothing_is_left_running_after_the_time_limit(tmp_path: Path) -> None:
    seen: set[psutil.Process] = set()

    def clock() -> float:
        """Stands still until the child of the child is there, then is past every limit."""
        seen.update(psutil.Process().children(recursive=True))
        return 1e9 if len(seen) == 2 else 0.0

    waits = "import signal; signal.pause()"
    starts_another = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {waits!r}])"
    usage = run_processes([[sys.executable, "-c", starts_another]], tmp_path, 60.0, lambda _: None, clock)
    assert usage.stopped_at_limit and usage.peak_rss_mb > 0
    _, alive = psutil.wait_procs(list(seen), timeout=10)
    assert alive == []


@pytest.mark.process
def test_a_failing_process_ends_the_others(tmp_path: Path) -> None:
    fails, waits = (
        [sys.executable, "-c", "raise SystemExit(3)"],
        [sys.executable, "-c", "import signal; signal.pause()"],
    )
    with pytest.raises(RoundFailedError, match="ended with 3"):
        run_processes([waits, fails], tmp_path, 60.0, lambda _: None)


def test_each_engine_file_is_an_engine_of_its_name() -> None:
    assert {"penstock", "passthrough", "spark_tws_row", "bytewax"} <= set(default_names())
    assert [load_engine(name).name for name in engine_names()] == engine_names()
    assert "penstock_every_second" in set(engine_names()) - set(default_names())


def test_transform_with_state_is_expected_to_stop_after_two_steady_batches() -> None:
    engine = load_engine("spark_tws_row")
    assert engine.expected_rows(2_000_000, 250_000) == 750_000
    assert engine.expected_rows(2_000_000, 1_000_000) == 2_000_000
    assert load_engine("penstock").expected_rows(2_000_000, 250_000) == 2_000_000 + 40 * 250_000


def test_passthrough_runs_the_same_job_with_the_functions_off(tmp_path: Path) -> None:
    round_ = Round(Path("python"), tmp_path, rows=800, files_per_trigger=1, work=tmp_path)
    [with_functions], [without] = load_engine("penstock").commands(round_), load_engine("passthrough").commands(round_)
    assert without == [*with_functions, "--passthrough"]


def test_quick_is_one_round_on_smoke_data_unless_told_otherwise() -> None:
    plan = make_plan(make_parser().parse_args(["--quick"]))
    assert (plan.dataset.name, plan.rounds, plan.rows_per_batch) == ("smoke", 1, 2_500)
    plan = make_plan(make_parser().parse_args(["--quick", "--data", "mid", "--rounds", "2", "--engines", "bytewax"]))
    assert (plan.dataset.name, plan.rounds, [e.name for e in plan.engines]) == ("mid", 2, ["bytewax"])


def test_the_default_is_three_rounds_of_all_engines_on_big() -> None:
    plan = make_plan(make_parser().parse_args([]))
    assert (plan.workload, plan.dataset.name, plan.rounds, plan.rows_per_batch) == ("w1", "big", 3, 250_000)
    assert [engine.name for engine in plan.engines] == default_names()


@pytest.mark.parametrize("options", [["--engines", "flunk"], ["--rounds", "0"], ["--rows-per-batch", "7"]])
def test_options_that_do_not_fit_are_a_usage_error(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchUsageError):
        make_plan(make_parser().parse_args(options))
    assert main(options) == 2
    assert capsys.readouterr().err.startswith("bench: ")


def test_an_environment_is_made_again_only_when_its_stamp_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def pretend(command: list[str], name: str) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        made.append(name)

    monkeypatch.setattr("bench.venvs._run", pretend)
    steps = len(install_commands(Venv("a", ("x==1",)), tmp_path / "a"))
    assert ensure_venv(Venv("a", ("x==1",)), tmp_path) == tmp_path / "a" / "bin" / "python"
    ensure_venv(Venv("a", ("x==1",)), tmp_path)
    assert len(made) == steps
    ensure_venv(Venv("a", ("x==2",)), tmp_path)
    assert len(made) == 2 * steps and "x==2" in (tmp_path / "a" / STAMP).read_text()
