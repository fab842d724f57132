"""What a client costs workload W1: rounds of W1 alone and of W1 with the client beside it, in turns.

The client is a program of `bench/programs`. From the end of the warm-up to the last row it does its work and checks
what it gets; then it leaves a JSON file. If it fails, its round has failed. W1 has a longer steady phase than in
`python -m bench`: a cost of a few percent does not show within ten seconds.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.__main__ import FOLDER
from bench.console import Console
from bench.datasets import DATASETS, PARQUET_FILES
from bench.engine import PROGRAMS, Engine, Round
from bench.engines import penstock
from bench.figures import lost_percent
from bench.report import Report, notes, to_json
from bench.rounds import Plan, run_plan

STEADY_REPEATED_BATCHES = 40
REPEATED_BATCHES = penstock.REPEATED_BATCHES + STEADY_REPEATED_BATCHES
LIMIT_S = 900.0
ALONE = "alone"
Found = dict[str, float]
"""What a client has left of one round."""


@dataclass(frozen=True)
class Client:
    """A program of `bench/programs`, and the name of W1 with it."""

    program: str
    name: str
    w1_options: tuple[str, ...] = ()
    """Of W1 in both kinds of rounds."""
    alone_options: tuple[str, ...] = ()
    """Of W1 without the client, besides."""


@dataclass(frozen=True)
class Comparison:
    """All rounds, and what the client has left of each of its own."""

    report: Report
    name: str
    found: tuple[Found, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every round ran, with right counts."""
        return self.report.checked and {ALONE, self.name} <= set(self.report.engines)

    @property
    def lost_percent(self) -> float:
        """The part of W1's throughput that the client costs: of the medians."""
        return lost_percent(self.report.engines[ALONE], self.report.engines[self.name])


@dataclass(frozen=True)
class Verdict:
    """The figures for people and for programs, and whether all of them are within their limits."""

    lines: tuple[str, ...]
    figures: dict[str, float]
    is_within_limits: bool


def run_benchmark(
    client: Client, arguments: Sequence[str] | None, description: str, judge: Callable[[Comparison], Verdict]
) -> int:
    """Measure, print the rounds and the verdict, write the JSON file if one is named; the exit code."""
    options = make_parser(description).parse_args(arguments)
    comparison = compare(client, options)
    if not comparison.is_complete:
        print("not measured: a round has failed, or its counts are wrong", file=sys.stderr)
        return 1
    verdict = judge(comparison)
    print("\n".join([*verdict.lines, *notes(comparison.report)]))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(to_document(comparison, verdict), indent=2) + "\n")
    return 0 if verdict.is_within_limits else 1


def make_parser(description: str) -> argparse.ArgumentParser:
    """The options of both benchmarks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON too")
    parser.add_argument("--rounds", type=_positive, help="rounds of each kind (default 3; with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="one round on little data: shows that it runs")
    return parser


def compare(client: Client, options: argparse.Namespace) -> Comparison:
    """Run all rounds."""
    dataset = DATASETS["smoke" if options.quick else "big"]
    rounds = options.rounds or (1 if options.quick else 3)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        results = Path(name)
        engines = make_engines(client, results)
        plan = Plan("w1", dataset, dataset.rows_per_batch, engines, rounds, LIMIT_S, FOLDER)
        report = run_plan(plan, Console(sys.stderr))
        paths = [results / f"{client.name}-{number}.json" for number in range(1, rounds + 1)]
        found = tuple(json.loads(path.read_text()) for path in paths if path.exists())
    return Comparison(report, client.name, found)


def make_engines(client: Client, results: Path) -> tuple[Engine, Engine]:
    """W1 alone and W1 with the client, which writes a file into the folder `results`."""

    def w1(round_: Round) -> list[list[str]]:
        more = ["--repeated-batches", str(REPEATED_BATCHES), *client.w1_options]
        return [[*command, *more] for command in penstock.commands(round_)]

    def alone(round_: Round) -> list[list[str]]:
        return [[*command, *client.alone_options] for command in w1(round_)]

    def with_client(round_: Round) -> list[list[str]]:
        rows = round_.rows + REPEATED_BATCHES * round_.files_per_trigger * (round_.rows // PARQUET_FILES)
        command = [
            str(round_.python),
            str(PROGRAMS / client.program),
            *("--data", str(round_.data / "parquet")),
            *("--work", str(round_.work)),
            *("--events", str(round_.events())),
            *("--warmup-batches", str(penstock.REPEATED_BATCHES)),
            *("--rows", str(rows)),
            *("--result", str(results / f"{round_.work.name}.json")),
        ]
        return [*w1(round_), command]

    first = replace(penstock.ENGINE, name=ALONE, commands=alone, repeated_batches=REPEATED_BATCHES)
    return first, replace(first, name=client.name, commands=with_client)


def to_document(comparison: Comparison, verdict: Verdict) -> dict[str, Any]:
    """The document that `--json` writes: that of `python -m bench`, and what is measured here."""
    return {
        **to_json(comparison.report),
        "found": list(comparison.found),
        "figures": {name: round(value, 2) for name, value in verdict.figures.items()},
        "within_limits": verdict.is_within_limits,
    }


def rate_lines(comparison: Comparison, describe: Callable[[Found], str]) -> list[str]:
    """A line for each round: both rates, and what the client has found."""
    engines = comparison.report.engines
    rounds = zip(engines[ALONE].runs, engines[comparison.name].runs, comparison.found, strict=True)
    return [
        f"round {number}: {alone.rows_per_s:,.0f} rows/s alone, {beside.rows_per_s:,.0f} rows/s {comparison.name}, "
        f"{describe(found)}"
        for number, (alone, beside, found) in enumerate(rounds, 1)
    ]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
