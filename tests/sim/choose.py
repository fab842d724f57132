"""Chooses the seeds of every day from the first ten thousand: `python -m tests.sim.choose`, and writes them down.

A seed has marks: each crash point with what was done there and to which actor, each fault, each setting. The next seed
is always the one whose marks the chosen ones have least often. What a seed does follows from the code that it runs, so
after changes to the protocol the choice gets worse with time; `tests/sim/test_chosen_seeds.py` says when it is too bad.
"""

import argparse
import heapq
import multiprocessing
import sys
from collections import Counter
from collections.abc import Mapping, Set
from pathlib import Path

from tests.sim.profile import PLACES
from tests.sim.runner import run_seed

FILE = Path(__file__).with_name("chosen_seeds.txt")
FROM = 10_000
COUNT = 1_000


def main(arguments: list[str]) -> int:
    """Exit code 0 if the chosen seeds hit every crash point."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.choose", description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--count", type=int, default=COUNT)
    options = parser.parse_args(arguments)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        found = dict(pool.imap(_marks_of, range(FROM), chunksize=50))
    chosen = choose(found, options.count)
    FILE.write_text("".join(f"{seed}\n" for seed in sorted(chosen)), encoding="utf-8")
    seen = Counter(mark for seed in chosen for mark in found[seed])
    everywhere = set[str]().union(*found.values())
    rarest = {place: sum(count for mark, count in seen.items() if mark.startswith(f"{place} ")) for place in PLACES}
    place = min(rarest, key=lambda name: rarest[name])
    print(f"{len(chosen)} seeds with {len(seen)} of {len(everywhere)} marks; {place} is hit {rarest[place]} times")
    return int(not all(rarest.values()))


def choose(marks: Mapping[int, Set[str]], count: int) -> list[int]:
    """So many seeds. A mark that the chosen ones have n times already is worth 1 / (n + 1).

    >>> choose({1: {"a"}, 2: {"a", "b"}, 3: {"c"}, 4: {"b"}}, 3)
    [2, 3, 1]
    """
    seen: Counter[str] = Counter()
    chosen: list[int] = []

    def worth(seed: int) -> float:
        return sum(1 / (seen[mark] + 1) for mark in sorted(marks[seed]))

    # What a seed is worth only falls, so the best of the outdated figures is looked at again first.
    heap = [(-worth(seed), seed) for seed in marks]
    heapq.heapify(heap)
    while heap and len(chosen) < count:
        _, seed = heapq.heappop(heap)
        now = (-worth(seed), seed)
        if heap and now > heap[0]:
            heapq.heappush(heap, now)
        else:
            chosen.append(seed)
            seen.update(marks[seed])
    return chosen


def chosen_seeds() -> list[int]:
    """Those that were written down."""
    return [int(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def _marks_of(seed: int) -> tuple[int, Set[str]]:
    return seed, run_seed(seed).marks


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
