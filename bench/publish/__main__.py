"""The command `python -m bench.publish`: the whole suite, its results and their page.

Exit codes: 0 all chosen cases are measured, 1 an engine failed, did not finish or miscounted, 2 usage.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from bench.__main__ import FOLDER
from bench.console import Console
from bench.datasets import DATASETS
from bench.engine import Engine
from bench.errors import BenchUsageError
from bench.publish.machine import ROOT, commit, describe_machine
from bench.publish.page import to_page
from bench.publish.plots import plots_of
from bench.publish.progress import Progress
from bench.publish.results import MEASURED, Circumstances, merge, read_results, write_results
from bench.publish.suite import Case, chosen_cases
from bench.rounds import Plan, run_plan

PAGES = ROOT / "docs" / "benchmarks"
QUICK = FOLDER / "quick"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure case by case; the files are brought up to date after each."""
    options = make_parser().parse_args(arguments)
    folder = options.folder or (QUICK if options.quick else PAGES)
    if options.render:
        return render(folder, is_check=options.check)
    try:
        cases = chosen_cases(options.workloads.split(",") if options.workloads else [], is_quick=options.quick)
        chosen = {case.id: pick(case, options.engines, is_quick=options.quick) for case in cases}
    except BenchUsageError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    cases = [case for case in cases if chosen[case.id]]
    rounds = options.rounds or (1 if options.quick else 3)
    progress = Progress([(case, chosen[case.id]) for case in cases], rounds, read_results(folder / "results.json"))
    console = Console(sys.stderr)
    console.say(
        f"{len(cases)} case{'s' if len(cases) != 1 else ''}, {progress.left()} if all engines take part to the end"
    )
    if options.dry_run:
        print("\n".join(f"{case.id}: {', '.join(engine.name for engine in chosen[case.id])}" for case in cases))
        return 0
    are_measured = [measure(case, chosen[case.id], rounds, folder, progress) for case in cases]
    console.say(f"results: {folder / 'results.json'}, page: {folder / 'index.md'}")
    return 0 if all(are_measured) else 1


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.publish", description="Measure the suite and write its page."
    )
    add = parser.add_argument
    add("--workloads", metavar="W,W", help="only these, for example w1,w6_q5 or w6; the other results stay as they are")
    add("--engines", metavar="E,E", help="only these engines; a case that is measured has no others then")
    add("--rounds", type=positive, help="rounds in turns, whose medians count (default 3; with --quick 1)")
    add("--quick", action="store_true", help="little data, into .bench/quick: shows that everything runs")
    add("--folder", type=Path, help="where results.json and the page are (default docs/benchmarks)")
    add("--render", action="store_true", help="measure nothing: write the page and the plots of results.json again")
    add("--check", action="store_true", help="with --render: write nothing, and fail if they are not current")
    add("--dry-run", action="store_true", help="list what would be measured")
    return parser


def positive(text: str) -> int:
    """A number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def pick(case: Case, names: str | None, *, is_quick: bool) -> tuple[Engine, ...]:
    """The engines of a case, those with a name in the list if there is one."""
    engines = [engine for engine in case.engines() if not names or engine.name in names.split(",")]
    return tuple(engine.warming_up_less(case.workload) if is_quick else engine for engine in engines)


def measure(case: Case, engines: tuple[Engine, ...], rounds: int, folder: Path, progress: Progress) -> bool:
    """Measure one case and write it down; whether all its engines were measured."""
    progress.begin(case)
    by = Circumstances(datetime.now(timezone.utc).date().isoformat(), commit(), describe_machine(), rounds)
    dataset = DATASETS[case.data]
    plan = Plan(case.workload, dataset, case.rows_per_epoch, engines, rounds, case.limit_s, FOLDER)
    report = run_plan(plan, Console(sys.stderr), progress.before_round)
    progress.end(case)
    document = merge(read_results(folder / "results.json"), case, report, engines, by)
    write_results(folder / "results.json", document)
    render(folder, is_check=False)
    entries = document["cases"][case.id]["engines"].values()
    return all(entry["status"] == MEASURED for entry in entries)


def render(folder: Path, *, is_check: bool) -> int:
    """Write the page and the plots, or compare them; 1 if a comparison fails."""
    document = read_results(folder / "results.json")
    files = {folder / "index.md": to_page(document)}
    files |= {folder / "plots" / f"{name}.svg": text for name, text in plots_of(document).items()}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left = sorted(path for path in folder.glob("plots/*.svg") if path not in files)
    if is_check:
        for path in [*stale, *left]:
            print(f"{path} is not current: run `python -m bench.publish --render`", file=sys.stderr)
        return int(bool(stale or left))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    for path in left:
        path.unlink()
    return 0


def end_in_order(number: int, frame: FrameType | None) -> None:
    """End the processes of the round too, when this one is told to end."""
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end_in_order)
    sys.exit(main())
