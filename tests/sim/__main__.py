"""Runs fault schedules in the harness: `python -m tests.sim --seeds 500`, or the one of `--seed 17`."""

import argparse
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.sim.schedule import PLACES, make_schedule, run_schedule

MAX_FAILURES = 10


@dataclass
class Summary:
    """What came of some seeds."""

    schedules: int = 0
    crashes: int = 0
    checkpoints: int = 0
    lost_tasks: int = 0
    hits: set[str] = field(default_factory=set)
    failures: dict[int, str] = field(default_factory=dict)
    """Seed -> what went wrong."""

    def __str__(self) -> str:
        return (
            f"{self.schedules} schedules, {self.crashes} crashes, {self.lost_tasks} lost tasks, "
            f"{self.checkpoints} checkpoints, "
            f"{len(self.hits)} of {len(PLACES)} crash points hit, {len(self.failures)} failed"
        )


def run_seeds(seeds: Iterable[int]) -> Summary:
    """Run the schedules of these seeds; after ten failures the rest is left out."""
    summary = Summary()
    for seed in seeds:
        summary.schedules += 1
        try:
            outcome = run_schedule(seed)
        except Exception:
            summary.failures[seed] = traceback.format_exc(limit=-8)
            if len(summary.failures) >= MAX_FAILURES:
                break
            continue
        summary.crashes += outcome.crashes
        summary.checkpoints += outcome.checkpoints
        summary.lost_tasks += outcome.lost_tasks
        summary.hits |= outcome.hits
    return summary


def explain(summary: Summary) -> str:
    """Each failure with the command that shows it again."""
    return "\n".join(
        f"{text}seed {seed} failed; replay it with: make sim SEED={seed}" for seed, text in summary.failures.items()
    )


def main(arguments: list[str]) -> int:
    """Exit code 0 if nothing was lost and nothing counted twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one schedule, and show it")
    parser.add_argument("--seeds", type=int, default=500, help="run the schedules of the seeds 0, 1, 2, …")
    options = parser.parse_args(arguments)
    start_s = time.monotonic()
    if options.seed is not None:
        print(make_schedule(options.seed))
        summary = run_seeds([options.seed])
    else:
        summary = run_seeds(range(options.seeds))
    if summary.failures:
        print(explain(summary), file=sys.stderr)
    print(f"{summary}, {time.monotonic() - start_s:.0f} s")
    return int(bool(summary.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
