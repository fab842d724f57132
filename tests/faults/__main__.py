"""`python -m tests.faults`: faults with real processes, each job held against a batch oracle.

Suites: `matrix` (reliability F01 to F29, pairwise over settings), `fencing` (F18: drivers stopped at every
crash point, replaced and woken), `starts` (F19: several drivers started together), `failpoints` (every crash point of
PROTOCOL section 8), `stops` (deaths while a job is stopped with a savepoint), `kills` (thirty kills at random moments).
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults.events import Load, batch_result, write_events
from tests.faults.failpoints import UNALIGNED, Case, all_cases, chains, run_chain
from tests.faults.fencing import SETTINGS as FENCING_SETTINGS
from tests.faults.fencing import all_zombies, run_fencing, run_long_sleep
from tests.faults.jobs import JobProcess, Place
from tests.faults.kills import FINISH_LIMIT_S, KINDS, KilledJob, plan_strikes, run_killed
from tests.faults.matrix.all_cases import MATRIX, chosen
from tests.faults.matrix.run import run_matrix
from tests.faults.starts import SETTINGS as STARTS_SETTINGS
from tests.faults.starts import run_starts
from tests.faults.stops import CASES as STOPS
from tests.faults.stops import run_stop
from tests.quick_jvm import use_quick_jvm
from tests.waiting import Stopwatch

KILL_LOAD = Load(events=300_000, keys=10_000, files=100)
"""About 40 s undisturbed on two cores that have nothing else to do."""
POINT_LOAD = Load(events=30_000, keys=300, files=30)
SLEEP_LOAD = Load(events=12_000, keys=100, files=360)
START_LOAD = Load(events=20_000, keys=300, files=120)
STARTS = (2, 3, 4, 5)
RUNS_PER_KIND = 2
KILLS_PER_RUN = 5


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 if every fault hit and nothing was lost or doubled."""
    options = parse(arguments)
    use_quick_jvm()
    if options.list:
        say(*(fault for case in MATRIX for fault in case.faults), *map(str, all_cases()))
        say(*(f"kills {kind}" for kind in KINDS))
        return 0
    suites: dict[str, Callable[[Path], bool]] = {
        "matrix": lambda root: run_matrix(root, MATRIX, chosen(options.case), options.seed, say),
        "fencing": lambda root: run_zombies(root, all_zombies()),
        "starts": run_rounds,
        "failpoints": lambda root: run_points(root, all_cases()),
        "stops": run_stops,
        "kills": lambda root: run_kills(root, options.seed),
    }
    with tempfile.TemporaryDirectory(prefix="penstock-faults-") as folder:
        root = Path(options.keep or folder)
        if options.only is not None and options.only not in suites:
            return int(not run_points(root, [case for case in all_cases() if case.name == options.only]))
        only = "matrix" if options.case else options.only
        passed = [run(root) for name, run in suites.items() if only in (None, name)]
    return int(not all(passed))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="SUITE|C8", help="one suite, or one crash point")
    parser.add_argument(
        "--case", metavar="F12|disk_full", help="of the matrix only the cases of one fault, or one case"
    )
    parser.add_argument("--list", action="store_true", help="say what there is to run")
    parser.add_argument("--seed", type=int, default=1, help="of settings and moments (default 1)")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and leave everything there")
    options = parser.parse_args(arguments)
    names = {"matrix", "fencing", "starts", "failpoints", "stops", "kills", None, *(case.name for case in all_cases())}
    if options.only not in names:
        parser.error(f"no suite and no crash point {options.only!r}; see --list")
    if not chosen(options.case):
        parser.error(f"no case {options.case!r} in the matrix; see --list")
    return options


def run_stops(root: Path) -> bool:
    """One line per fault; True if each hit, and the job and its successor together were exact."""
    passed = []
    for number, fault in enumerate(STOPS):
        folder = root / f"stop-{number}"
        write_events(POINT_LOAD, folder / "events")
        result = run_stop(Place(folder / "job", folder / "events"), batch_result(folder / "events"), fault)
        say(str(result), *result.leftovers)
        passed.append(result.exact)
    say(f"stops {sum(passed)}/{len(passed)} exact")
    return all(passed)


def run_points(root: Path, cases: Sequence[Case]) -> bool:
    """One line per crash point; True if all of them hit and did no harm."""
    events = root / "few-events"
    write_events(POINT_LOAD, events)
    expected = batch_result(events)
    watch = Stopwatch()
    results = []
    for number, chain in enumerate(chains(cases)):
        settings = UNALIGNED if any(case.name == "C27" for case in chain) else ()
        place = Place(root / f"points-{number}", events, checkpoint_ms=100, batch_rows=100, settings=settings)
        results.append(run_chain(place, expected, chain))
        say(*results[-1].lines(), *results[-1].verdict.wrong, *results[-1].leftovers)
    hit = sum(case.armed in result.hits for result in results for case in result.cases)
    exact = sum(len(result.cases) for result in results if result.verdict.exact and not result.leftovers)
    say(f"failpoints {hit}/{len(cases)} hit, {exact} exact, {watch.seconds():.0f} s")
    return all(result.passed for result in results)


def run_zombies(root: Path, cases: Sequence[Case]) -> bool:
    """One line per zombie; True if every one was fenced and the jobs are exact."""
    events, many = root / "fencing-events", root / "many-events"
    write_events(POINT_LOAD, events)
    write_events(SLEEP_LOAD, many)
    expected = batch_result(events)
    watch = Stopwatch()
    results = []
    for number, chain in enumerate(chains(cases)):
        place = Place(root / f"fencing-{number}", events, checkpoint_ms=100, batch_rows=100, settings=FENCING_SETTINGS)
        results.append(run_fencing(place, expected, chain))
        say(*results[-1].lines())
    place = Place(root / "fencing-long", many, checkpoint_ms=10, settings=FENCING_SETTINGS)
    results.append(run_long_sleep(place, batch_result(many)))
    say(*results[-1].lines())
    total = sum(len(result.cases) for result in results)
    fenced = sum(wake.passed for result in results for wake in result.wakes)
    exact = sum(len(result.cases) for result in results if result.verdict.exact and not result.leftovers)
    say(f"fencing {fenced}/{total} fenced, {exact} exact, {watch.seconds():.0f} s")
    return all(result.passed for result in results)


def run_rounds(root: Path) -> bool:
    """Several drivers started together, round after round; True if one won each time and the log tells one story."""
    events = root / "start-events"
    write_events(START_LOAD, events)
    place = Place(root / "starts", events, checkpoint_ms=2_000, settings=STARTS_SETTINGS)
    watch = Stopwatch()
    result = run_starts(place, batch_result(events), STARTS)
    say(*result.lines, *result.wrong)
    say(f"starts {len(result.lines)}/{len(STARTS)} rounds with one winner, {watch.seconds():.0f} s")
    return len(result.lines) == len(STARTS) and not result.wrong


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
