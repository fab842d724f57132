"""The command `python -m bench`. Exit codes: 0 measured and checked, 1 an engine failed or miscounted, 2 usage."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.console import Console
from bench.datasets import DATASETS
from bench.engine import default_names, engine_names, load_engine
from bench.errors import BenchUsageError
from bench.report import to_json, to_table
from bench.rounds import Plan, run_plan
from bench.workloads import WORKLOADS, load_workload

FOLDER = Path(__file__).parents[1] / ".bench"
LIMIT_S = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the JSON file if one is named, print the table; the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        plan = make_plan(options)
    except BenchUsageError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    report = run_plan(plan, Console(sys.stderr))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(to_json(report), indent=2) + "\n")
    print(to_table(report))
    return 0 if report.checked else 1


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    listed = "\n".join(f"  {workload.name:7} {workload.title}" for workload in WORKLOADS.values())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Penstock and its peers side by side.",
        epilog=f"workloads:\n{listed}\n\nThe whole suite, with its page: python -m bench.publish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--workload", choices=list(WORKLOADS), default="w1", metavar="W", help="which workload (default w1), see below")
    add("--json", type=Path, metavar="FILE", help="write the result as JSON too")
    add(
        "--engines",
        metavar="A,B",
        help=f"which engines, of {', '.join(engine_names())} (default: all but variants of one engine)",
    )
    add("--rounds", type=int, help="interleaved rounds, whose medians count (default 3; with --quick 1)")
    add("--data", choices=sorted(DATASETS), help="which rows (default: those of the workload; with --quick few)")
    add("--rows-per-batch", type=int, metavar="N", help="rows per Spark micro-batch (default an eighth of the data)")
    add("--limit-s", type=float, default=LIMIT_S, metavar="S", help="time limit of one engine and round (default 900)")
    add("--quick", action="store_true", help="one round on little data: shows that it runs, measures nothing")
    return parser


def make_plan(options: argparse.Namespace) -> Plan:
    """The plan that the options describe. Raises BenchUsageError where they do not fit together."""
    workload = load_workload(options.workload)
    dataset = DATASETS[options.data or (workload.quick_data if options.quick else workload.data)]
    rounds = options.rounds if options.rounds is not None else (1 if options.quick else 3)
    if rounds < 1:
        raise BenchUsageError(f"--rounds is {rounds}; it must be at least 1")
    rows_per_batch = options.rows_per_batch if options.rows_per_batch is not None else dataset.rows_per_batch
    dataset.files_per_trigger(rows_per_batch)
    names = options.engines.split(",") if options.engines else default_names(options.workload)
    engines = tuple(load_engine(name.strip()) for name in dict.fromkeys(names))
    for engine in engines:
        if options.workload not in engine.workloads:
            raise BenchUsageError(f"engine {engine.name!r} has no program for workload {options.workload}")
    if options.quick:
        engines = tuple(engine.warming_up_less(workload.name) for engine in engines)
    return Plan(
        workload=options.workload,
        dataset=dataset,
        rows_per_batch=rows_per_batch,
        engines=engines,
        rounds=rounds,
        limit_s=options.limit_s,
        folder=FOLDER,
    )


if __name__ == "__main__":
    sys.exit(main())
