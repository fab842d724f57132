"""What the subtasks of the attempt that runs have done, and what they do now."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.clock import Clock
from penstock.model.subtask_work import PassedRows, SubtaskFigures
from penstock.model.time import MIN_WATERMARK
from penstock.runtime.process.messages import SubtaskReport

WINDOW_S = 10.0
"""Rates are means over this time."""
SAMPLE_S = 0.5
LEAST_S = 1.0


@dataclass(frozen=True)
class WorkTotals:
    """Of one subtask since the start of the attempt."""

    rows_in: int = 0
    rows_out: int = 0
    busy_us: int = 0
    handing_us: int = 0


@dataclass
class _Known:
    """What is known of one subtask."""

    totals: WorkTotals = WorkTotals()
    samples: list[tuple[float, WorkTotals]] = field(default_factory=list)
    """WorkTotals of the last seconds with their times, oldest first."""
    watermark: int = MIN_WATERMARK
    waiting: int = 0
    inputs: list[int] = field(default_factory=list)
    operators: list[PassedRows] = field(default_factory=list)

    def note(self, now_s: float, totals: WorkTotals) -> None:
        """New totals. Those that follow soon replace the last ones, so that few are kept."""
        self.totals = totals
        if len(self.samples) > 1 and now_s - self.samples[-2][0] < SAMPLE_S:
            self.samples[-1] = (now_s, totals)
        else:
            self.samples.append((now_s, totals))
        while len(self.samples) > 2 and now_s - self.samples[1][0] >= WINDOW_S:
            del self.samples[0]


class JobWork:
    """The figures of subtasks, as of the last committed epoch. A restart begins with none. Thread safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._subtasks: dict[tuple[str, int], _Known] = {}
        self._started_s = clock.monotonic_s()

    def begin_attempt(self) -> None:
        """Forget what the attempt before has done."""
        with self._lock:
            self._subtasks.clear()
            self._started_s = self._clock.monotonic_s()

    def committed(self, reports: Iterable[SubtaskReport]) -> None:
        """An epoch is committed."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            for report in reports:
                place = (report.subtask.stage, report.subtask.index)
                known = self._subtasks.setdefault(place, _Known(samples=[(self._started_s, WorkTotals())]))
                work, old = report.work, known.totals
                totals = WorkTotals(
                    old.rows_in + sum(work.inputs),
                    old.rows_out + report.rows_out,
                    old.busy_us + work.busy_us,
                    old.handing_us + work.handing_us,
                )
                known.note(now_s, totals)
                known.watermark, known.waiting = report.watermark, report.waiting
                known.inputs = _sums(known.inputs, work.inputs)
                before = known.operators or [PassedRows()] * len(work.operators)
                known.operators = [
                    PassedRows(one.rows_in + more.rows_in, one.rows_out + more.rows_out)
                    for one, more in zip(before, work.operators, strict=True)
                ]

    def subtasks(self, *, epoch_runs: bool) -> list[SubtaskFigures]:
        """The figures, by vertex and index. While an epoch with rows runs, rates are those up to the last commit."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            return [
                _figures(place, known, None if epoch_runs else now_s, now_s - self._started_s)
                for place, known in sorted(self._subtasks.items())
            ]


def _figures(place: tuple[str, int], known: _Known, until_s: float | None, elapsed_s: float) -> SubtaskFigures:
    last_s = known.samples[-1][0] if until_s is None else until_s
    old = [sample for sample in known.samples if last_s - sample[0] >= WINDOW_S]
    since_s, before = old[-1] if old else known.samples[0]
    seconds = max(last_s - since_s, LEAST_S)
    busy = min(1000.0, (known.totals.busy_us - before.busy_us) / seconds / 1000)
    pressed = min(1000.0 - busy, (known.totals.handing_us - before.handing_us) / seconds / 1000)
    busy_ms, pressed_ms = known.totals.busy_us // 1000, known.totals.handing_us // 1000
    return SubtaskFigures(
        *place,
        rows_in=known.totals.rows_in,
        rows_out=known.totals.rows_out,
        rows_in_per_s=round((known.totals.rows_in - before.rows_in) / seconds, 1),
        rows_out_per_s=round((known.totals.rows_out - before.rows_out) / seconds, 1),
        busy_ms_per_s=round(busy, 1),
        back_pressured_ms_per_s=round(pressed, 1),
        idle_ms_per_s=round(1000 - round(busy, 1) - round(pressed, 1), 1),
        busy_ms=busy_ms,
        back_pressured_ms=pressed_ms,
        idle_ms=max(0, round(1000 * elapsed_s) - busy_ms - pressed_ms),
        watermark=known.watermark if known.watermark > MIN_WATERMARK else None,
        rows_waiting=known.waiting,
        inputs=known.inputs,
        operators=known.operators,
    )


def _sums(known: list[int], more: list[int]) -> list[int]:
    return [one + other for one, other in zip(known or [0] * len(more), more, strict=True)]
