"""What an engine tells the benchmark about itself, and how engines are found.

An engine's program appends one JSON line per finished batch to the file given by `--events`: `rows`, `rows_out`
(left out when the engine cannot tell), `started_ms` and `finished_ms` in epoch millis. A program without batches
writes one line for its whole run; several processes write a file each.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import engines
from bench.errors import BenchUsageError
from bench.venvs import Venv

PROGRAMS = Path(__file__).parent / "programs"
PARALLELISM = 2  # Workers of every engine.


@dataclass(frozen=True)
class Round:
    """All that an engine needs for one run."""

    python: Path
    data: Path
    rows: int
    files_per_trigger: int
    work: Path
    workload: str = "w1"

    def events(self, process_index: int = 0) -> Path:
        """Where a process of the engine reports its batches."""
        return self.work / f"events-{process_index}.jsonl"


@dataclass(frozen=True)
class Engine:
    """An engine as a plug-in: its environment, its commands (one per process) and how its figures are read.

    `warmup_batches` are left out of the steady figure. `steady_batches` is how many the program runs after them
    before it stops by itself; None is the whole input.
    """

    name: str
    venv: Venv
    commands: Callable[[Round], list[list[str]]]
    warmup_batches: int
    steady_batches: int | None = None
    repeated_batches: int = 0
    """Of the input, read once more beforehand: a JVM is warm only after about ten batches."""
    by_default: bool = True
    """Whether it runs when no engines are named."""
    workloads: tuple[str, ...] = ("w1",)
    """Those it has a program for: `programs/<workload>_<engine>.py`."""

    def expected_rows(self, rows: int, rows_per_batch: int) -> int:
        """How many rows a complete run of this engine reads."""
        if self.steady_batches is None:
            return rows + self.repeated_batches * rows_per_batch
        return min(rows, (self.warmup_batches + self.steady_batches) * rows_per_batch)


def engine_names() -> list[str]:
    """Names of all engines there are."""
    return sorted(module.name for module in pkgutil.iter_modules(engines.__path__))


def default_names(workload: str = "w1") -> list[str]:
    """Names of the engines that are compared when none are named."""
    engines = [load_engine(name) for name in engine_names()]
    return [engine.name for engine in engines if engine.by_default and workload in engine.workloads]


def load_engine(name: str) -> Engine:
    """The engine of that name."""
    if name not in engine_names():
        raise BenchUsageError(f"there is no engine {name!r}; choose from {', '.join(engine_names())}")
    engine = importlib.import_module(f"bench.engines.{name}").ENGINE
    assert isinstance(engine, Engine) and engine.name == name
    return engine
