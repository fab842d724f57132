"""Under which settings each case of the matrix runs: drawn from a seed, so that all pairs of values meet.

Pairwise: for any two factors, every value of the one meets every value of the other in some case. The group of the
fault (processes, damage, storage, work) is one more factor.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

FACTORS: dict[str, tuple[str, ...]] = {
    "backend": ("hashmap", "rocksdb", "rocksdb-full"),
    "parallelism": ("1", "2", "3"),
    "sink": ("file", "print"),
    "retained": ("1", "3"),
    "interval_ms": ("100", "400"),
    "inline": ("0 b", "20 kb"),
    "batch_rows": ("100", "10000"),
    "compression": ("false", "true"),
    "unaligned": ("false", "true"),
}
GROUPS = ("process", "damage", "storage", "work")
_DRAWS = 300

Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Cell:
    """One value for each factor."""

    values: tuple[tuple[str, str], ...]

    def __getitem__(self, factor: str) -> str:
        return dict(self.values)[factor]

    def __str__(self) -> str:
        return " ".join(
            [self["backend"], f"p{self['parallelism']}", self["sink"], f"retained {self['retained']}"]
            + [f"every {self['interval_ms']} ms", f"inline {self['inline']}", f"batches {self['batch_rows']}"]
            + [name for name in ("compression", "unaligned") if self[name] == "true"]
        )

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """As configuration of the job; what `Place` has fields for is not among it."""
        backend = self["backend"]
        return (
            ("state.backend.type", backend.partition("-")[0]),
            ("execution.checkpointing.incremental", "false" if backend.endswith("-full") else "true"),
            ("execution.checkpointing.num-retained", self["retained"]),
            ("execution.checkpointing.data-inline-threshold", self["inline"]),
            ("execution.checkpointing.snapshot-compression", self["compression"]),
            ("execution.checkpointing.unaligned.enabled", self["unaligned"]),
        )


@dataclass(frozen=True)
class CellRequest:
    """What is known of a case before its settings are drawn."""

    group: str
    fixed: Mapping[str, str]
    """Factors that the case needs at one value."""


def draw_cells(requests: Sequence[CellRequest], seed: int) -> list[Cell]:
    """A cell for each request: of many random ones, the one with most pairs that have not met yet."""
    chance = random.Random(seed)
    met: set[Pair] = set()
    cells = []
    for request in requests:
        drawn = [_random_cell(request.fixed, chance) for _ in range(_DRAWS)]
        best = max(drawn, key=lambda cell: len(_pairs(cell, request.group) - met))
        met |= _pairs(best, request.group)
        cells.append(best)
    return cells


def missing_pairs(requests: Sequence[CellRequest], cells: Sequence[Cell]) -> set[Pair]:
    """Pairs of values that meet in no case."""
    met = {pair for request, cell in zip(requests, cells, strict=True) for pair in _pairs(cell, request.group)}
    return all_pairs() - met


def all_pairs() -> set[Pair]:
    """Every pair of values of two different factors."""
    factors = {"group": GROUPS, **FACTORS}
    return {
        ((left, a), (right, b))
        for left, right in combinations(factors, 2)
        for a, b in product(factors[left], factors[right])
    }


def _random_cell(fixed: Mapping[str, str], chance: random.Random) -> Cell:
    return Cell(tuple((name, fixed.get(name) or chance.choice(values)) for name, values in FACTORS.items()))


def _pairs(cell: Cell, group: str) -> set[Pair]:
    return set(combinations((("group", group), *cell.values), 2))
