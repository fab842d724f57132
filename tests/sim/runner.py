"""Runs seeds: one, or many over several processes. A seed is a run, whatever runs it."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterator, Sequence

from tests.checkpoint.checker import Violation
from tests.sim.canary import planted
from tests.sim.outcome import Outcome, Summary
from tests.sim.schedule import run_schedule
from tests.sim.simulation import Simulation

BATCH = 50
MAX_FAILURES = 10
DEEP_EVERY = 40
"""Every so many seeds the harness runs a job with every kind of state, one life after the other; else the simulator."""


def is_deep(seed: int) -> bool:
    """Whether the seed's run is one of the harness."""
    return seed % DEEP_EVERY == DEEP_EVERY - 1


def run_seed(seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
    """The run of a seed; raises what is wrong. `tell` is told what happens, line by line."""
    return run_schedule(seed) if is_deep(seed) else Simulation(seed, tell).run()


def run_seeds(seeds: Sequence[int], *, canary: bool = False, max_failures: int = MAX_FAILURES) -> Summary:
    """Run these seeds in this process; after some failures the rest is left out."""
    summary = Summary()
    with planted(canary):
        for seed in seeds:
            try:
                summary.add(run_seed(seed))
            except (Exception, Violation):
                summary.seeds += 1
                summary.failures[seed] = traceback.format_exc(limit=-8)
                if len(summary.failures) >= max_failures:
                    break
    return summary


def run_many(
    seeds: Sequence[int], processes: int, *, canary: bool = False, max_failures: int = MAX_FAILURES
) -> Summary:
    """Run these seeds over so many processes."""
    if processes <= 1 or len(seeds) <= BATCH:
        return run_seeds(seeds, canary=canary, max_failures=max_failures)
    summary = Summary()
    batches = [(seeds[start : start + BATCH], canary) for start in range(0, len(seeds), BATCH)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for part in pool.imap(_run_batch, batches):
            summary.merge(part)
            if len(summary.failures) >= max_failures:
                break
    return summary


def explain(summary: Summary) -> Iterator[str]:
    """Each failure with the command that shows it again."""
    for seed, text in sorted(summary.failures.items()):
        yield f"{text}seed {seed} failed; replay it with: make sim SEED={seed}"


def _run_batch(batch: tuple[Sequence[int], bool]) -> Summary:
    seeds, canary = batch
    return run_seeds(seeds, canary=canary)
