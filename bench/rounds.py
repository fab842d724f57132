"""Runs the rounds: each engine once per round, one after the other, so that a slow minute hits all of them alike."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.console import Console
from bench.datasets import Dataset, ensure_dataset
from bench.engine import Engine, Round
from bench.errors import BenchError, NotFinishedError, RoundFailedError
from bench.figures import (
    STATE_PROCESS,
    Batch,
    Run,
    batches_of_warmup,
    counts_match,
    parse_batches,
    steady_rate,
    summarise,
)
from bench.inputs import Expected, Input, ensure_input
from bench.processes import Usage, run_processes
from bench.report import Report
from bench.venvs import ensure_venv
from bench.workload import Workload
from bench.workloads import load_workload


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


def no_label(engine: str, number: int) -> str:
    """Nothing to say before a round."""
    return ""


def run_plan(plan: Plan, console: Console, before_round: Callable[[str, int], str] = no_label) -> Report:
    """Measure all engines; one that fails or does not finish is said and left out of further rounds.

    `before_round` gets an engine's name and the number of the round; what it returns is said.
    """
    console.say(f"data {plan.dataset.name}: {plan.dataset.rows:,} events over {plan.dataset.keys:,} keys")
    pythons, missing = make_environments(plan, console)
    runs: dict[str, list[Run]] = {engine.name: [] for engine in plan.engines}
    for number in range(1, plan.rounds + 1):
        for engine in plan.engines:
            if engine.name not in pythons:
                continue
            if said := before_round(engine.name, number):
                console.say(said)
            label = f"round {number}/{plan.rounds} {engine.name}"
            try:
                run = run_round(plan, engine, make_round(plan, engine, pythons[engine.name], number, console), console)
            except BenchError as error:
                console.say(f"{label}: {error}")
                missing[engine.name] = "did not finish" if isinstance(error, NotFinishedError) else "failed"
                del pythons[engine.name]
                continue
            console.say(f"{label}: {describe(run)}")
            runs[engine.name].append(run)
            if run.partial:
                del pythons[engine.name]
    return make_report(plan, runs, missing)


def make_environments(plan: Plan, console: Console) -> tuple[dict[str, Path], dict[str, str]]:
    """The Python of each engine whose environment could be made; the others are said, and returned with the reason."""
    pythons, missing = {}, {}
    for engine in plan.engines:
        console.live(f"environment of {engine.name} …")
        try:
            pythons[engine.name] = ensure_venv(engine.venv, plan.folder / "venvs")
        except (BenchError, OSError) as error:
            console.say(f"{engine.name}: {error}")
            missing[engine.name] = "not installed"
    return pythons, missing


def make_round(plan: Plan, engine: Engine, python: Path, number: int, console: Console) -> Round:
    """All that the engine needs, its input included."""
    workload, files = load_workload(plan.workload), plan.dataset.files_per_trigger(plan.rows_per_batch)
    data, own = plan.folder / "data", None
    if plan.workload in engine.reads_dataset:
        console.live(f"data {plan.dataset.name} …")
        data = ensure_dataset(plan.dataset, data)
    elif workload.reads_input:
        console.live(f"input of {plan.workload} for {engine.name} …")
        own = ensure_input(workload, plan.dataset, engine.reading(workload, plan.dataset, files), data / "inputs")
    return Round(
        python=python,
        data=data,
        rows=plan.dataset.rows,
        files_per_trigger=files,
        work=plan.folder / "work" / f"{engine.name}-{number}",
        workload=plan.workload,
        input=own,
        dataset=plan.dataset,
    )


def run_round(plan: Plan, engine: Engine, round_: Round, console: Console) -> Run:
    """Run an engine once. Its work folder, with its logs, stays only if this raises."""
    shutil.rmtree(round_.work, ignore_errors=True)
    round_.work.mkdir(parents=True)

    def show(elapsed_s: float) -> None:
        rows = sum(batch.rows for batch in read_batches(round_.work))
        console.live(f"{engine.name}: {elapsed_s:.0f} s, {rows:,} rows")

    usage = run_processes(engine.commands(round_), round_.work, plan.limit_s, show, mark=engine.state_process)
    expected, warmup_batches = expectation(plan, engine, round_.input, read_batches(round_.work))
    run = to_run(round_.work, usage, expected, warmup_batches)
    shutil.rmtree(round_.work)
    return run


def expectation(plan: Plan, engine: Engine, own: Input | None, batches: Sequence[Batch]) -> tuple[Expected, int]:
    """What a complete run has read and written, and how many of these batches are warm-up."""
    workload: Workload = load_workload(plan.workload)
    if own is not None:
        warmup = batches_of_warmup(batches, own.expected.warmup_rows)
        is_one = warmup == len(batches) and sum(batch.rows for batch in batches) == own.expected.rows
        return own.expected, 0 if is_one else warmup  # an engine without batches may have put all rows into one
    if workload.reads_input:
        return engine.expected(plan.dataset.rows, plan.rows_per_batch), engine.warmup_batches
    made = workload.made_rows(plan.dataset)
    return Expected(made, made), 0


def to_run(work: Path, usage: Usage, expected: Expected, warmup_batches: int) -> Run:
    """The figures of a round that has ended. Raises where there are none."""
    batches = read_batches(work)
    try:
        rate = steady_rate(batches, warmup_batches)
    except RoundFailedError as error:
        if usage.stopped_at_limit:
            raise NotFinishedError(f"stopped at the time limit after {usage.wall_s:.0f} s: {error}") from error
        raise
    of_state = {STATE_PROCESS: usage.peak_of_marked_mb} if usage.peak_of_marked_mb else {}
    return Run(
        rows_per_s=rate,
        peak_rss_mb=usage.peak_rss_mb,
        wall_s=usage.wall_s,
        rows=sum(batch.rows for batch in batches),
        batches=len(batches),
        foreign_cpu_percent=usage.foreign_cpu_percent,
        checked=not usage.stopped_at_limit and counts_match(batches, expected.rows, expected.rows_out),
        partial=usage.stopped_at_limit,
        figures={**of_state, **read_figures(work)},
    )


def read_batches(work: Path) -> list[Batch]:
    """What the processes of a round have reported so far."""
    return [batch for path in sorted(work.glob("events-*.jsonl")) for batch in parse_batches(path.read_text())]


def read_figures(work: Path) -> dict[str, float]:
    """The figures that are not rates, if the program has left any."""
    path = work / "figures.json"
    return {name: float(value) for name, value in json.loads(path.read_text()).items()} if path.exists() else {}


def describe(run: Run) -> str:
    """One line about a round."""
    if run.partial:
        note = ", stopped at the time limit"
    else:
        note = "" if run.checked else f", WRONG ROW COUNT ({run.rows:,} rows read)"
    figures = "".join(f", {name} {value:,.1f}" for name, value in run.figures.items())
    return f"{run.rows_per_s:,.0f} rows/s, {run.peak_rss_mb:,.0f} MB, {run.wall_s:.0f} s{figures}{note}"


def make_report(plan: Plan, runs: Mapping[str, Sequence[Run]], missing: Mapping[str, str]) -> Report:
    """The report of all rounds that ran; engines without one are left out."""
    return Report(
        workload=plan.workload,
        data=plan.dataset.name,
        rows=plan.dataset.rows,
        rows_per_batch=plan.rows_per_batch,
        checked=all(len(done) == plan.rounds and all(run.checked for run in done) for done in runs.values()),
        engines={name: summarise(done) for name, done in runs.items() if done},
        missing=missing,
    )
