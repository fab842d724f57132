"""Which workloads are measured with which data and engines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.datasets import DATASETS
from bench.engine import Engine, engine_names, load_engine
from bench.errors import BenchUsageError
from bench.workload import Workload
from bench.workloads import load_workload

PENSTOCK = "penstock"


@dataclass(frozen=True)
class Case:
    """One workload on one set of data; its id names the result."""

    workload: str
    data: str
    rows_per_batch: int | None = None
    """None: the smallest that the data has."""
    peers: tuple[str, ...] | None = None
    """Which engines take part beside those of Penstock; None: all."""
    limit_s: float = 600.0

    @property
    def rows_per_epoch(self) -> int:
        """Rows of one micro-batch."""
        return self.rows_per_batch or DATASETS[self.data].rows_per_batch

    @property
    def id(self) -> str:
        """Workload, data and, where rows come in batches, rows per epoch."""
        size = [str(self.rows_per_epoch)] if load_workload(self.workload).reads_input else []
        return "-".join([self.workload, self.data, *size])

    def engines(self) -> tuple[Engine, ...]:
        """The engines, those of Penstock first."""
        loaded = [load_engine(name) for name in engine_names()]
        found = [engine for engine in loaded if engine.is_published and self.workload in engine.workloads]
        if self.peers is not None:
            found = [engine for engine in found if engine.name.startswith(PENSTOCK) or engine.name in self.peers]
        return tuple(sorted(found, key=lambda engine: (not engine.name.startswith(PENSTOCK), engine.name)))


SUITE = (
    Case("w1", "big"),
    Case("w1", "big", 500_000, peers=("passthrough",)),
    Case("w1", "big", 1_000_000, peers=("passthrough",)),
    Case("w1", "keys_1k", peers=("passthrough", "bytewax")),
    Case("w1", "keys_1m", peers=("passthrough", "bytewax")),
    Case("w2", "big"),
    Case("w3", "big"),
    Case("w4", "big"),
    Case("w5", "keys_100k", limit_s=900.0),
    Case("w5", "keys_1m", limit_s=900.0),
    Case("w5", "keys_10m", limit_s=1_800.0),
    Case("w6_q5", "nexmark"),
    Case("w6_q7", "nexmark"),
    Case("w6_q8", "nexmark"),
    Case("w6_q11", "nexmark"),
    Case("w7", "keys_100k"),
    Case("w7", "keys_1m"),
    Case("w8", "rate_1k", limit_s=240.0),
    Case("w8", "rate_10k", limit_s=240.0),
    Case("w8", "rate_50k", limit_s=240.0),
    Case("w9", "big"),
)


def chosen_cases(names: Sequence[str], *, is_quick: bool) -> list[Case]:
    """The cases of the workloads that are named, all without names. Quick: one with little data for each workload.

    >>> [case.id for case in chosen_cases(["w9", "w7"], is_quick=True)]
    ['w7-smoke', 'w9-smoke-2500']
    """
    for name in names:
        if not any(is_of(case.workload, name) for case in SUITE):
            raise BenchUsageError(f"no workload of the suite is named {name!r}")
    cases = [case for case in SUITE if not names or any(is_of(case.workload, name) for name in names)]
    if not is_quick:
        return cases
    workloads: list[Workload] = [load_workload(name) for name in dict.fromkeys(case.workload for case in cases)]
    first = {case.workload: case for case in reversed(cases)}
    return [replace(first[w.name], data=w.quick_data, rows_per_batch=None, limit_s=300.0) for w in workloads]


def is_of(workload: str, name: str) -> bool:
    """Whether a name means a workload: its own, or that of all queries of it.

    >>> is_of("w6_q5", "w6"), is_of("w6_q5", "w6_q5"), is_of("w6_q5", "w6_q7")
    (True, True, False)
    """
    return name in (workload, workload.partition("_")[0])
