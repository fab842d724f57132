"""Runs the simulator: `python -m tests.sim --seeds 10000`, or the one of `--seed 17`, with what happens in it.

A seed fails if an invariant of PROTOCOL section 9 does not hold at any step: see `tests/sim/ledger.py`.
"""

import argparse
import os
import sys
import time

from tests.sim.choose import chosen_seeds
from tests.sim.runner import MAX_FAILURES, explain, is_deep, run_many, run_seed, run_seeds
from tests.sim.schedule import make_schedule

LINES = 400


def main(arguments: list[str]) -> int:
    """Exit code 0 if every seed held; with `--places`, also if every crash point was hit."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed, and show what happens")
    parser.add_argument("--seeds", type=int, default=500, help="run the seeds from the first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--chosen", action="store_true", help="run the seeds of every day instead, see tests.sim.choose"
    )
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--canary", action="store_true", help="with a planted bug: every run should fail")
    parser.add_argument("--places", action="store_true", help="fail if a crash point was not hit")
    parser.add_argument("--failures", type=int, default=MAX_FAILURES, help="stop after so many")
    options = parser.parse_args(arguments)
    start_s = time.monotonic()
    if options.seed is not None:
        show(options.seed)
        summary = run_seeds([options.seed], canary=options.canary)
    else:
        seeds = chosen_seeds() if options.chosen else range(options.first, options.first + options.seeds)
        summary = run_many(seeds, options.processes, canary=options.canary, max_failures=options.failures)
    for line in explain(summary):
        print(line, file=sys.stderr)
    print(f"{summary}, {time.monotonic() - start_s:.0f} s")
    if options.places and summary.missed:
        print(f"crash points that were never hit: {', '.join(summary.missed)}", file=sys.stderr)
    return int(bool(summary.failures) or (options.places and bool(summary.missed)))


def show(seed: int) -> None:
    """What a seed is, and the last that happens in it."""
    if is_deep(seed):
        print(make_schedule(seed))
        return
    lines: list[str] = []
    try:
        run_seed(seed, lines.append)
    except BaseException as error:  # said again, with its place, by the run that counts
        lines.append(f"{type(error).__name__}: {error}")
    print("\n".join(lines[:1] + (["…"] if len(lines) > LINES else []) + lines[1:][-LINES:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
