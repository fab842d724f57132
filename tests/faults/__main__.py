"""`python -m tests.faults`: thirty kills at random moments, and every crash point, with real processes."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import Case, all_cases, chains, run_chain
from tests.faults.fencing import SETTINGS as FENCING_SETTINGS
from tests.faults.fencing import run_fencing
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, KINDS, KilledJob, plan_strikes, run_killed
from tests.waiting import Stopwatch

KILL_LOAD = Load(events=300_000, keys=10_000, files=100)
"""About 40 s undisturbed on two cores that have nothing else to do."""
POINT_LOAD = Load(events=30_000, keys=300, files=30)
RUNS_PER_KIND = 2
KILLS_PER_RUN = 5


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 if every fault hit and nothing was lost or doubled."""
    options = parse(arguments)
    cases = [case for case in all_cases() if options.only in (None, case.name)]
    if options.list:
        print("\n".join([*(f"kills {kind}" for kind in KINDS), *map(str, cases)]))
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-faults-") as folder:
        root = Path(options.keep or folder)
        passed = True
        if options.only != "kills":
            passed = run_points(root, cases)
        if options.only in (None, "kills"):
            passed = run_kills(root, options.seed) and passed
    return int(not passed)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", metavar="C8|kills", help="one crash point, or the kills")
    parser.add_argument("--list", action="store_true", help="say what there is to run")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills (default 1)")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and leave everything there")
    options = parser.parse_args(arguments)
    names = {"kills", None, *(case.name for case in all_cases())}
    if options.only not in names:
        parser.error(f"no fault {options.only!r}; see --list")
    return options


def run_points(root: Path, cases: Sequence[Case]) -> bool:
    """One line per crash point; True if all of them hit and did no harm."""
    events = root / "few-events"
    write_events(POINT_LOAD, events)
    expected = batch_result(events)
    watch = Stopwatch()
    results = []
    for number, chain in enumerate(chains(cases)):
        place = Place(root / f"points-{number}", events, checkpoint_ms=100, batch_rows=100)
        results.append(run_chain(place, expected, chain))
        say(*results[-1].lines(), *results[-1].verdict.wrong, *results[-1].leftovers)
    hit = sum(case.armed in result.hits for result in results for case in result.cases)
    exact = sum(len(result.cases) for result in results if result.verdict.exact and not result.leftovers)
    say(f"failpoints {hit}/{len(cases)} hit, {exact} exact, {watch.seconds():.0f} s")
    return all(result.passed for result in results)


def run_zombies(root: Path, cases: Sequence[Case]) -> bool:
    """One line per zombie; True if every one was fenced and the jobs are exact."""
    events = root / "fencing-events"
    write_events(POINT_LOAD, events)
    expected = batch_result(events)
    watch = Stopwatch()
    results = []
    for number, chain in enumerate(chains(cases)):
        place = Place(root / f"fencing-{number}", events, checkpoint_ms=100, batch_rows=100, settings=FENCING_SETTINGS)
        results.append(run_fencing(place, expected, chain))
        say(*results[-1].lines())
    fenced = sum(wake.passed for result in results for wake in result.wakes)
    exact = sum(len(result.cases) for result in results if result.verdict.exact and not result.leftovers)
    say(f"fencing {fenced}/{len(cases)} fenced, {exact} exact, {watch.seconds():.0f} s")
    return all(result.passed for result in results)


def run_kills(root: Path, seed: int) -> bool:
    """Thirty kills in six runs of the job; True if all of them hit and nothing was lost or doubled."""
    events = root / "events"
    write_events(KILL_LOAD, events)
    expected = batch_result(events)
    watch = Stopwatch()
    with JobProcess(Place(root / "undisturbed", events)) as job:
        assert job.wait(FINISH_LIMIT_S) == 0, job.log_tail()
    say(f"undisturbed: {watch.seconds():.0f} s, start of Spark included")
    results: list[KilledJob] = []
    for kind in KINDS:
        for run in range(RUNS_PER_KIND):
            run_seed = seed * 1000 + len(results)
            say(f"{KILLS_PER_RUN} kills of a {kind}, seed {run_seed}")
            strikes = plan_strikes([kind] * KILLS_PER_RUN, KILL_LOAD.files, run_seed)
            place = Place(root / f"kills-{kind}-{run}", events)
            results.append(run_killed(place, expected, strikes, say))
            say(f"{results[-1].verdict}", *results[-1].leftovers)
    say(f"kills took {watch.seconds():.0f} s")
    hits = sum(hit.counts for result in results for hit in result.hits)
    lost, doubled = (sum(getattr(result.verdict, name) for result in results) for name in ("lost", "doubled"))
    total = len(results) * KILLS_PER_RUN
    say(f"kills {hits}/{total} hit, {lost} lost, {doubled} doubled")
    return hits == total and all(result.exact for result in results)


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
