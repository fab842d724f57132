"""What an engine tells the benchmark about itself, and how engines are found.

An engine's program appends one JSON line per finished batch to the file given by `--events`: `rows`, `rows_out`
(left out when the engine cannot tell), `started_ms` and `finished_ms` in epoch millis. A program without batches
writes one line for its whole run; several processes write a file each. Figures that are not rates are a JSON object in
`figures.json`, beside the file of the first process.

A new engine is a module in `bench/engines`. A variant of Penstock is a few lines there: see `variant` in
`bench/engines/penstock.py`.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import engines
from bench.datasets import PARQUET_FILES, Dataset
from bench.errors import BenchUsageError
from bench.inputs import Expected, Form, Input, Reading
from bench.venvs import Venv
from bench.workload import Workload

PROGRAMS = Path(__file__).parent / "programs"
PARALLELISM = 2  # Workers of every engine.
QUICK_WARMUP_BATCHES = 2


@dataclass(frozen=True)
class Round:
    """All that an engine needs for one run."""

    python: Path
    data: Path
    rows: int
    files_per_trigger: int
    work: Path
    workload: str = "w1"
    input: Input | None = None
    """For programs that do not read the dataset's own files."""
    dataset: Dataset | None = None

    @property
    def program(self) -> str:
        """The first part of the program's name; the queries of one workload share a program."""
        return self.workload.partition("_")[0]

    @property
    def query(self) -> str:
        """Which query of the workload; empty if it has one only."""
        return self.workload.partition("_")[2]

    def events(self, process_index: int = 0) -> Path:
        """Where a process of the engine reports its batches."""
        return self.work / f"events-{process_index}.jsonl"


def standalone_options(round_: Round) -> list[str]:
    """Options of programs that make their rows themselves."""
    assert round_.dataset is not None
    size = ["--rows", str(round_.rows), "--keys", str(round_.dataset.keys)]
    return [*size, "--rows-per-s", str(round_.dataset.events_per_s)]


def common_options(round_: Round) -> list[str]:
    """Options of programs of one process."""
    return ["--parallelism", str(PARALLELISM), "--work", str(round_.work), "--events", str(round_.events())]


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
    is_published: bool = True
    """Whether it is part of the suite; False for variants that answer another question."""
    typical_s: float = 90.0
    """How long a round takes, until there are results to learn it from."""
    workloads: tuple[str, ...] = ("w1",)
    """Those it has a program for: `programs/<workload>_<engine>.py`."""
    reads_dataset: tuple[str, ...] = ()
    """Those whose programs read the dataset's own files, and do not get an input that was made for them."""
    form: Form = Form.BATCHES
    """Of the input that is made for it."""
    state_process: str = ""
    """A part of the command line of the processes that keep the state, whose memory is a figure of its own."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """By workload: what is not like for like."""

    def reading(self, workload: Workload, dataset: Dataset, files_per_trigger: int) -> Reading:
        """Which rows of the dataset it reads, and how often beforehand."""
        repeated, warmup = self.repeated_batches * files_per_trigger, self.warmup_batches * files_per_trigger
        if workload.fills_keys:
            rows_per_batch = files_per_trigger * dataset.rows_per_file
            repeated = max(repeated, -(-dataset.keys // rows_per_batch) * files_per_trigger)
            warmup = max(repeated, warmup)
        measured = PARQUET_FILES
        if self.steady_batches is not None:
            measured = min(measured, max(0, warmup - repeated) + self.steady_batches * files_per_trigger)
        return Reading(self.form, repeated, measured, warmup)

    def warming_up_less(self, workload: str) -> "Engine":
        """With at most two batches before the measured ones, where that can be chosen: not to be measured."""
        if workload in self.reads_dataset:
            return self
        return replace(
            self,
            warmup_batches=min(self.warmup_batches, QUICK_WARMUP_BATCHES),
            repeated_batches=min(self.repeated_batches, QUICK_WARMUP_BATCHES),
        )

    def expected(self, rows: int, rows_per_batch: int) -> Expected:
        """What is expected of a program that reads the dataset's own files: one row out for each row in."""
        count = self.expected_rows(rows, rows_per_batch)
        return Expected(count, count)

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
