"""How far the suite is, and how long the rest may take."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.engine import Engine
from bench.publish.suite import Case


class Progress:
    """The rounds to come, with an estimate for each: from the results there are, or else what is typical."""

    def __init__(
        self,
        cases: Sequence[tuple[Case, Sequence[Engine]]],
        rounds: int,
        results: dict[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._numbers = {case.id: number for number, (case, _) in enumerate(cases, 1)}
        self._to_come = {
            (case.id, engine.name, number): estimate(case, engine, results)
            for case, engines in cases
            for number in range(1, rounds + 1)
            for engine in engines
        }
        self._case = ""
        self._clock = clock
        self._started: tuple[tuple[str, str, int], float] | None = None

    def begin(self, case: Case) -> None:
        """A case begins."""
        self._case = case.id

    def end(self, case: Case) -> None:
        """A case has ended, also for engines that have failed or were stopped."""
        self._note_end()
        self._to_come = {key: seconds for key, seconds in self._to_come.items() if key[0] != case.id}

    def before_round(self, engine: str, number: int) -> str:
        """The line before a round."""
        self._note_end()
        # Rounds that were left out since: of an engine that has failed or was stopped.
        gone = [key for key in self._to_come if key[0] == self._case and key[2] < number]
        for key in gone:
            del self._to_come[key]
        key = (self._case, engine, number)
        text = (
            f"[{self._numbers[self._case]}/{len(self._numbers)} {self._case}, {self.left()} left] "
            f"{engine}, round {number}, about {duration(self._to_come.get(key, 0.0))}"
        )
        self._to_come.pop(key, None)
        self._started = key, self._clock()
        return text

    def left(self) -> str:
        """How long what is to come may take."""
        return f"about {duration(sum(self._to_come.values()))}"

    def _note_end(self) -> None:
        """Learn from the round that has ended how long its engine takes."""
        if self._started is None:
            return
        (case, engine, _), began = self._started
        self._started = None
        took_s = self._clock() - began
        for key in self._to_come:
            if key[:2] == (case, engine):
                self._to_come[key] = took_s


def estimate(case: Case, engine: Engine, results: dict[str, Any]) -> float:
    """Seconds for a round: the longest that was measured, or what is typical, but never above the limit."""
    runs = results["cases"].get(case.id, {}).get("engines", {}).get(engine.name, {}).get("runs", ())
    return min(case.limit_s, max((run["wall_s"] for run in runs), default=engine.typical_s))


def duration(seconds: float) -> str:
    """For people.

    >>> duration(45), duration(600), duration(4000)
    ('45 s', '10 min', '1 h 07 min')
    """
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
