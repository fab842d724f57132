"""Runs the matrix: one line for each fault, and one for all."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.events import Expected, Load, batch_result, write_events
from tests.faults.jobs import Place
from tests.faults.matrix.case import MatrixCase
from tests.faults.matrix.cells import Cell, draw_cells, missing_pairs
from tests.faults.matrix.scene import Scene
from tests.faults.matrix.tools import missing
from tests.waiting import Stopwatch

LOAD = Load(events=8_000, keys=200, files=20)
SETTINGS = (
    ("penstock.epoch.interval", "250 ms"),  # so that there is time for faults
    ("penstock.driver.timeout", "2 s"),
    ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"),
)


@dataclass(frozen=True)
class CaseResult:
    """What came of one case."""

    case: MatrixCase
    cell: Cell
    hits: Sequence[str] = ()
    """For each fault what shows that it hit; fewer if the case broke off."""
    wrong: Sequence[str] = ()
    seconds: float = 0.0
    skipped: str | None = None

    @property
    def hit_count(self) -> int:
        return sum(map(bool, self.hits))

    @property
    def exact_count(self) -> int:
        return 0 if self.wrong or self.skipped else self.hit_count

    @property
    def passed(self) -> bool:
        return self.skipped is not None or self.exact_count == len(self.case.faults)

    def lines(self) -> list[str]:
        """One per fault, then what is wrong."""
        if self.skipped is not None:
            return [f"{fault}: SKIPPED, {self.skipped}" for fault in self.case.faults]
        hits = [*self.hits, *[""] * (len(self.case.faults) - len(self.hits))]
        words = [f"hit ({hit})" if hit else "NOT HIT" for hit in hits]
        end = "NOT EXACT" if self.wrong else "exact"
        lines = [f"{fault} | {self.cell}: {word}, {end}" for fault, word in zip(self.case.faults, words, strict=True)]
        lines[-1] += f", {self.seconds:.0f} s"
        return [*lines, *(f"  {line}" for text in self.wrong for line in text.splitlines())]


def run_matrix(
    root: Path, cases: Sequence[MatrixCase], chosen: Sequence[MatrixCase], seed: int, say: Callable[[str], None]
) -> bool:
    """Run the chosen ones of all cases; True if every fault hit and nothing was lost or doubled.

    The settings of a case depend on the seed and on all cases, so that one case alone runs as it does among them.
    """
    events = root / "matrix-events"
    write_events(LOAD, events)
    expected = batch_result(events)
    cells = draw_cells([case.cell_request for case in cases], seed)
    watch = Stopwatch()
    results = []
    for case, cell in zip(cases, cells, strict=True):
        if case in chosen:
            results.append(run_case(case, cell, root, expected, seed))
            for line in results[-1].lines():
                say(line)
    say(closing_line(results, seed, watch.seconds()))
    unmet = missing_pairs([case.cell_request for case in cases], cells)
    if unmet:
        say(f"{len(unmet)} pairs of settings meet in no case, such as {min(unmet)}")
    return all(result.passed for result in results)


def closing_line(results: Sequence[CaseResult], seed: int, seconds: float) -> str:
    """What `matrix 24/24 hit, 24 exact` stands for: faults, not jobs."""
    total = sum(len(result.case.faults) for result in results if result.skipped is None)
    skipped = sum(len(result.case.faults) for result in results if result.skipped is not None)
    hit, exact = (sum(getattr(result, name) for result in results) for name in ("hit_count", "exact_count"))
    end = f", {skipped} skipped" if skipped else ""
    return f"matrix {hit}/{total} hit, {exact} exact{end}, seed {seed}, {seconds:.0f} s"


def run_case(case: MatrixCase, cell: Cell, root: Path, expected: Expected, seed: int) -> CaseResult:
    """Run one job through its faults to its end, and judge it."""
    reasons = [reason for tool in case.needs if (reason := missing(tool)) is not None]
    if reasons:
        return CaseResult(case, cell, skipped="; ".join(reasons))
    place = Place(
        root / case.name,
        root / "matrix-events",
        checkpoint_ms=int(cell["interval_ms"]),
        batch_rows=int(cell["batch_rows"]),
        parallelism=int(cell["parallelism"]),
        sink=cell["sink"],
        settings=(*cell.settings, *SETTINGS),
    )
    scene = Scene(place, cell, expected, random.Random(f"{seed} {case.name}"))
    watch = Stopwatch()
    hits: Sequence[str] = ()
    try:
        hits = case.run(scene)
        wrong = scene.judge()
    except Exception as error:  # the other cases are still worth running
        wrong = [*scene.wrong, f"{type(error).__name__}: {error}"]
    finally:
        scene.close()
    return CaseResult(case, cell, hits, wrong, watch.seconds())
