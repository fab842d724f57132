"""What windows emit, by a program that keeps lists in memory and looks at every window whenever time passes.

It knows nothing of state, timers or triggers: a window is a list of elements with the times at which it fires.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = 2**63 - 1
BEFORE = -(2**63)


class Event(NamedTuple):
    """A record of the tests."""

    key: str
    time: int
    number: int


@dataclass(frozen=True)
class Clock:
    """Event time or processing time passes."""

    to: int
    is_event_time: bool


@dataclass(frozen=True)
class Case:
    """A kind of window with its trigger and lateness, as the oracle understands it."""

    kind: str
    """tumbling, sliding, session, dynamic session, count, sliding count or global."""
    is_event_time: bool
    size: int
    """Of a window, or the gap of a session."""
    slide: int = 0
    offset: int = 0
    trigger: str = "default"
    """default, continuous, count, never."""
    every: int = 0
    """Milliseconds of a continuous trigger, elements of a count trigger."""
    purges: bool = False
    lateness: int = 0


@dataclass
class Pane:
    """The elements of one key and window."""

    key: str
    start: int
    end: int
    elements: list[Event] = field(default_factory=list)
    count: int = 0
    next_fire: int | None = None
    """Of a continuous trigger."""
    alarms: set[int] = field(default_factory=set)
    """Times at which the trigger looks at the window."""

    @property
    def last(self) -> int:
        return self.end - 1 if self.end < NEVER else NEVER


Result = tuple[str, int, int, tuple[Event, ...]]
"""Key, start, end, and the elements in a fixed order."""


class WindowOracle:
    """Feed it with `run`, then look at `results` and `late`."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.watermark, self.now = BEFORE, 0
        self.panes: list[Pane] = []
        self.counts: dict[str, int] = {}
        self.results: list[Result] = []
        self.late: list[Event] = []

    def run(self, items: Iterable[Event | Clock]) -> "WindowOracle":
        for item in items:
            if isinstance(item, Event):
                self._add(item)
            elif item.is_event_time:
                self.watermark = max(self.watermark, item.to)
                self._pass_time()
            else:
                self.now = max(self.now, item.to)
                self._pass_time()
        return self

    def end(self) -> "WindowOracle":
        self.watermark = NEVER
        self._pass_time()
        return self

    # ---- elements

    def _add(self, event: Event) -> None:
        added = False
        for start, end in list(self._windows(event)):
            pane = self._pane(event.key, start, end)
            if self.case.is_event_time and self._removed_at(pane) <= self.watermark:
                continue
            if pane not in self.panes:
                self.panes.append(pane)
            added = True
            pane.elements.append(event)
            self._look_at_element(pane, event)
        if not added and self.case.is_event_time and event.time + self.case.lateness <= self.watermark:
            self.late.append(event)

    def _windows(self, event: Event) -> Iterator[tuple[int, int]]:
        case, time = self.case, event.time if self.case.is_event_time else self.now
        if case.kind == "tumbling":
            start = (time - case.offset) // case.size * case.size + case.offset
            yield start, start + case.size
        elif case.kind == "sliding":
            for start in range(time - case.size + 1, time + 1):
                if (start - case.offset) % case.slide == 0:
                    yield start, start + case.size
        elif case.kind == "session":
            yield time, time + case.size
        elif case.kind == "dynamic session":
            yield time, time + gap_of(event)
        elif case.kind == "global":
            yield 0, NEVER
        else:
            number = self.counts[event.key] = self.counts.get(event.key, -1) + 1
            slide = case.slide or case.size
            for window in range(number // slide + 1):
                if window * slide <= number < window * slide + case.size:
                    yield window, NEVER

    def _pane(self, key: str, start: int, end: int) -> Pane:
        if "session" not in self.case.kind:
            found = [pane for pane in self.panes if (pane.key, pane.start, pane.end) == (key, start, end)]
            return found[0] if found else Pane(key, start, end)
        near = [p for p in self.panes if p.key == key and p.start <= end and p.end >= start]
        near.sort(key=lambda pane: pane.start)
        if not near:
            return Pane(key, start, end)
        first, last = near[0], max(near, key=lambda pane: pane.end)
        start, end = min(start, first.start), max(end, last.end)
        if len(near) == 1 and (near[0].start, near[0].end) == (start, end):
            return near[0]
        return self._merge(near, start, end)

    def _merge(self, near: Sequence[Pane], start: int, end: int) -> Pane:
        merged = Pane(near[0].key, start, end)
        for pane in near:
            merged.elements += pane.elements
            merged.count += pane.count
            self.panes.remove(pane)
        fires = [pane.next_fire for pane in near if pane.next_fire is not None]
        if fires:
            merged.next_fire = min(fires)
            merged.alarms.add(merged.next_fire)
        if self.case.trigger == "default" and merged.last > self._time:
            merged.alarms.add(merged.last)
        self.panes.append(merged)
        return merged

    @property
    def _time(self) -> int:
        return self.watermark if self.case.is_event_time else self.now

    def _look_at_element(self, pane: Pane, event: Event) -> None:
        case = self.case
        if case.trigger == "count" or (case.trigger == "default" and "count" in case.kind):
            pane.count += 1
            if pane.count >= (case.every or case.size):  # more if windows were merged
                pane.count = 0
                self._fire(pane)
        elif case.trigger in ("default", "continuous") and case.kind != "global":
            if case.is_event_time and pane.last <= self.watermark:
                self._fire(pane)
                return
            if case.trigger == "default" or case.is_event_time:
                pane.alarms.add(pane.last)
            if case.trigger == "continuous" and pane.next_fire is None:
                time = event.time if case.is_event_time else self.now
                self._continue(pane, time - time % case.every)

    def _continue(self, pane: Pane, time: int) -> None:
        pane.next_fire = min(time + self.case.every, pane.last)
        pane.alarms.add(pane.next_fire)

    # ---- time

    def _pass_time(self) -> None:
        """Ring the alarms that are due, the earliest first; remove windows whose time has come."""
        while True:
            due = [
                (time, pane.key, pane.start, pane.end)
                for pane in self.panes
                for time in {*pane.alarms, self._removed_at(pane)}
                if time <= self._time and time < NEVER or (time == NEVER == self._time and time in pane.alarms)
            ]
            if not due:
                return
            time, key, start, end = min(due)
            (pane,) = [p for p in self.panes if (p.key, p.start, p.end) == (key, start, end)]
            if time in pane.alarms:
                pane.alarms.discard(time)
                self._ring(pane, time)
            if time == self._removed_at(pane):
                self.panes.remove(pane)

    def _ring(self, pane: Pane, time: int) -> None:
        case = self.case
        if case.trigger == "default":
            self._fire(pane)
        elif case.trigger == "continuous":
            if case.is_event_time and time == pane.last:
                self._fire(pane)
            elif time == pane.next_fire:
                self._continue(pane, time)
                self._fire(pane)

    def _removed_at(self, pane: Pane) -> int:
        return min(pane.last + self.case.lateness, NEVER)

    def _fire(self, pane: Pane) -> None:
        if pane.elements:
            self.results.append((pane.key, pane.start, pane.end, tuple(sorted(pane.elements))))
        if self.case.purges:
            pane.elements = []


def gap_of(event: Event) -> int:
    """The gap of a dynamic session."""
    return 1 + event.number % 5
