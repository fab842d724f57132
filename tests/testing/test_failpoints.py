"""Every crash point of PROTOCOL section 8: the code passes it, a suite exercises it, and the job survives it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import failpoint
from penstock.failpoint import NAMES, Failpoint
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, ManualClock, Watermark
from penstock.testing.harness_options import HarnessOptions
from tests.faults.failpoints import DRIVER, TASK, TASKMANAGER
from tests.sim.invariants import Watch
from tests.sim.job import LAST_DUE_MS, Event, Sinks, difference, expected, found, large_graph
from tests.sim.profile import PLACES
from tests.sim.schedule import armed, snapshot_limits

HARNESS_PLACES = [place for place in PLACES if not place.startswith(("C27", "C28"))]
"""Those that a harness without rows in flight and without savepoints passes."""
SIDES = ("before", "after")

WHERE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(NAMES, ("harness",)),
    **dict.fromkeys(TASK, ("harness", "processes: task")),
    **dict.fromkeys(TASKMANAGER, ("harness", "processes: tm")),
    **dict.fromkeys(DRIVER, ("harness", "processes: driver")),
    **dict.fromkeys(set(TASKMANAGER) & set(DRIVER), ("harness", "processes: tm, driver")),
    "C27": ("harness: test_unaligned", "processes: test_back_pressure"),
    "C28": ("harness: test_savepoints", "processes: test_savepoints"),
}
"""Where a point is exercised. `harness`: the tests below and the schedules; `processes`: tests/faults, with kill -9."""


def test_every_crash_point_is_exercised_in_the_harness_and_with_real_processes() -> None:
    assert set(WHERE) == set(NAMES)
    assert [name for name, suites in WHERE.items() if len(suites) < 2] == []


def test_the_engine_passes_every_crash_point_before_and_after() -> None:
    package = Path(penstock.__file__).parent
    passed = {
        place
        for path in package.rglob("*.py")
        if "testing" not in path.parts  # what the harness passes in place of Spark does not count
        for place in passages(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert passed == {f"{name}.{side}" for name in WHERE for side in SIDES}


def passages(tree: ast.Module) -> Iterator[str]:
    """`C8.before` for each call of failpoint.before("C8"); a variable stands for every name in its function."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        literals = {
            str(node.value)
            for node in ast.walk(function)
            if isinstance(node, ast.Constant) and re.fullmatch(r"C\d+", str(node.value))
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("failpoint.before", "failpoint.after"):
                side = ast.unparse(node.func).rpartition(".")[2]
                (given,) = node.args
                names = {str(given.value)} if isinstance(given, ast.Constant) else literals
                yield from (f"{name}.{side}" for name in names)


EVENTS = [
    Event(number, "abc"[number % 3], "xyz"[number % 2], amount, 10 * number + 1, 1_700_000_000_000 + 100 * number + 1)
    for number, amount in enumerate([3, 5, 8, 0, 14, 22, 7, 6, 10, 0, 33, 9, 4, 5, 21, 2, 11, 1, 12, 0, 13, 5, 7, 8])
]
SCRIPT: list[Any] = [
    *EVENTS[:4],
    *(CHECKPOINT, *EVENTS[4:8], Watermark(40), Advance(450)),
    *(CHECKPOINT, *EVENTS[8:12], CRASH, *EVENTS[12:14], Watermark(120)),
    *(CHECKPOINT, *EVENTS[14:18], Advance(1_000)),
    *(CHECKPOINT, CHECKPOINT, *EVENTS[18:22], CRASH, *EVENTS[22:]),
]
"""Rows, timers of both clocks, five checkpoints, two crashes: every point is passed, those of recovery too."""


class Run:
    """The script with failpoints armed, from the first start to the end."""

    def __init__(self, *points: Failpoint) -> None:
        self.watch, self.sinks = Watch(), Sinks()
        self.stores = (self.sinks.rows.store, self.sinks.buckets.store)
        options = HarnessOptions(None, ManualClock(), self.watch.storage, self._crashed)
        with snapshot_limits(0, 3), armed(list(points)):
            self.harness = Harness(large_graph(2, self.sinks), options)
            self.harness.feed([*SCRIPT, Advance(LAST_DUE_MS)]).finish()

    def _crashed(self) -> None:
        self.watch.check_committed(self.stores)


@pytest.fixture(scope="module")
def passed() -> dict[str, int]:
    """How often an undisturbed run passes each place."""
    points = [Failpoint(place, "raise", hit=10**9) for place in HARNESS_PLACES]
    Run(*points)
    return {point.place: point.seen for point in points}


@pytest.mark.parametrize("place", HARNESS_PLACES)
def test_a_crash_at_this_point_loses_nothing_and_doubles_nothing(place: str, passed: dict[str, int]) -> None:
    count = passed[place]
    assert count > 0, f"the script never passes {place}"
    for hit in {1, count}:
        crash_at(place, hit, count)


@pytest.mark.full
@pytest.mark.parametrize("place", HARNESS_PLACES)
def test_a_crash_in_the_middle_of_the_script_loses_nothing_either(place: str, passed: dict[str, int]) -> None:
    crash_at(place, passed[place] // 2 + 1, passed[place])


def crash_at(place: str, hit: int, count: int) -> None:
    point = Failpoint(place, "raise", hit=hit)
    run = Run(point)
    assert point.seen >= hit and run.harness.crashes == 3, f"{place} did not crash the job at its {hit}. passage"
    wrong = difference(found(run.harness, run.sinks), expected(EVENTS, large=True))
    assert not wrong, f"crash at the {hit}. of {count} passages of {place}:\n" + "\n".join(wrong)
    run.harness.crash().finish()
    run.watch.check_end(run.stores)


def test_the_script_without_a_fault_is_as_the_oracle_says() -> None:
    run = Run()
    assert run.harness.crashes == 2
    assert difference(found(run.harness, run.sinks), expected(EVENTS, large=True)) == []


def test_timers_fire_exactly_once_in_both_domains() -> None:
    run = Run(Failpoint("C7.after", "raise", hit=5))
    fired = [row for row in run.sinks.rows.rows if row[0] == "timer"]
    timed = [event for event in EVENTS if event.amount]
    assert sorted(row[1] for row in fired) == sorted([e.at for e in timed] + [e.due for e in timed])


def test_a_point_of_another_role_does_not_fire() -> None:
    point = Failpoint("C8.before", "raise", role="driver")
    run = Run(point)
    assert point.seen == 0 and run.harness.crashes == 2


def test_an_unknown_point_is_refused() -> None:
    with pytest.raises(ValueError, match="no failpoint 'C32.before'"):
        failpoint.parse("C32.before:kill")
