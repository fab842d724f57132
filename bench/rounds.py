"""Runs the rounds: each engine once per round, one after the other, so that a slow minute hits all of them alike."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.console import Console
from bench.datasets import Dataset, ensure_dataset
from bench.engine import Engine, Round
from bench.errors import BenchError
from bench.figures import Batch, Run, counts_match, parse_batches, steady_rate, summarise
from bench.processes import run_processes
from bench.report import Report
from bench.venvs import ensure_venv


@dataclass(frozen=True)
class Plan:
    """What one call of the benchmark does. Everything it writes is below `folder`."""

    workload: str
    dataset: Dataset
    rows_per_batch: int
    engines: tuple[Engine, ...]
    rounds: int
    limit_s: float
    folder: Path


def run_plan(plan: Plan, console: Console) -> Report:
    """Measure all engines. One that fails is said and left out of further rounds; the others go on."""
    console.say(f"data {plan.dataset.name}: {plan.dataset.rows:,} events over {plan.dataset.keys:,} keys")
    data = ensure_dataset(plan.dataset, plan.folder / "data")
    pythons = make_environments(plan, console)
    runs: dict[str, list[Run]] = {engine.name: [] for engine in plan.engines}
    for number in range(1, plan.rounds + 1):
        for engine in plan.engines:
            if engine.name not in pythons:
                continue
            label = f"round {number}/{plan.rounds} {engine.name}"
            round_ = Round(
                python=pythons[engine.name],
                data=data,
                rows=plan.dataset.rows,
                files_per_trigger=plan.dataset.files_per_trigger(plan.rows_per_batch),
                work=plan.folder / "work" / f"{engine.name}-{number}",
                workload=plan.workload,
            )
            try:
                run = run_round(plan, engine, round_, console)
            except BenchError as error:
                console.say(f"{label}: {error}")
                del pythons[engine.name]
            else:
                console.say(f"{label}: {describe(run)}")
                runs[engine.name].append(run)
    return make_report(plan, runs)


def make_environments(plan: Plan, console: Console) -> dict[str, Path]:
    """The Python of each engine whose environment could be made; the others are said."""
    pythons = {}
    for engine in plan.engines:
        console.live(f"environment of {engine.name} …")
        try:
            pythons[engine.name] = ensure_venv(engine.venv, plan.folder / "venvs")
        except (BenchError, OSError) as error:
            console.say(f"{engine.name}: {error}")
    return pythons


def run_round(plan: Plan, engine: Engine, round_: Round, console: Console) -> Run:
    """Run an engine once. Its work folder, with its logs, stays only if this raises."""
    shutil.rmtree(round_.work, ignore_errors=True)
    round_.work.mkdir(parents=True)

    def show(elapsed_s: float) -> None:
        rows = sum(batch.rows for batch in read_batches(round_.work))
        console.live(f"{engine.name}: {elapsed_s:.0f} s, {rows:,} rows")

    usage = run_processes(engine.commands(round_), round_.work, plan.limit_s, show)
    batches = read_batches(round_.work)
    expected_rows = engine.expected_rows(plan.dataset.rows, plan.rows_per_batch)
    run = Run(
        rows_per_s=steady_rate(batches, engine.warmup_batches),
        peak_rss_mb=usage.peak_rss_mb,
        wall_s=usage.wall_s,
        rows=sum(batch.rows for batch in batches),
        batches=len(batches),
        foreign_cpu_percent=usage.foreign_cpu_percent,
        checked=not usage.stopped_at_limit and counts_match(batches, expected_rows),
        partial=usage.stopped_at_limit,
    )
    shutil.rmtree(round_.work)
    return run


def read_batches(work: Path) -> list[Batch]:
    """What the processes of a round have reported so far."""
    return [batch for path in sorted(work.glob("events-*.jsonl")) for batch in parse_batches(path.read_text())]


def describe(run: Run) -> str:
    """One line about a round."""
    if run.partial:
        note = ", stopped at the time limit"
    else:
        note = "" if run.checked else f", WRONG ROW COUNT ({run.rows:,} rows read)"
    return f"{run.rows_per_s:,.0f} rows/s, {run.peak_rss_mb:,.0f} MB, {run.wall_s:.0f} s{note}"


def make_report(plan: Plan, runs: Mapping[str, Sequence[Run]]) -> Report:
    """The report of all rounds that ran; engines without one are left out."""
    return Report(
        workload=plan.workload,
        data=plan.dataset.name,
        rows=plan.dataset.rows,
        rows_per_batch=plan.rows_per_batch,
        checked=all(len(done) == plan.rounds and all(run.checked for run in done) for done in runs.values()),
        engines={name: summarise(done) for name, done in runs.items() if done},
    )
