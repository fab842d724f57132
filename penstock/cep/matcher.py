"""Finds the matches of a pattern: processes the events of a key in order and keeps the key's partial matches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cep.condition import IterativeCondition
from penstock.cep.expression import Facts
from penstock.cep.match_plan import Choice, MatchPlan, Position
from penstock.cep.partial_matches import PartialMatches, Tip
from penstock.errors import UnsupportedValueError

SEPARATOR = "::"
"""Separates the ids of choices in the state. Pattern names contain no colon."""

Match = dict[str, list[Any]]
"""The events of a match by the name of their pattern."""


@dataclass(frozen=True)
class TimedOut:
    """A partial match whose time is over."""

    match: Match
    timestamp: int
    """When its time was over."""


class Matcher:
    """Runs a plan. It has no state of its own: the caller passes the partial matches."""

    def __init__(self, plan: MatchPlan, processing_time: Any) -> None:
        self._plan = plan
        self._processing_time = processing_time
        self._waits: dict[tuple[str, str], Wait] = {}
        self._start = Wait(plan.start.choices)

    def process(self, matches: PartialMatches, event: Any, timestamp: int) -> list[Match]:
        """Process an event and return the matches that it completes. Time must have been advanced to its timestamp."""
        context = MatchContext(self, matches, timestamp, self._processing_time)
        step = EventStep(matches, event, timestamp, Facts(event, context))
        outcomes: dict[tuple[str, str, bool], EventOutcome] = {}
        for tip in [tip for tip in matches.tips.values() if tip.waiting_for]:
            wait = self.wait(tip)
            key = (tip.position, tip.waiting_for, tip.fresh)
            outcome = outcomes.get(key) if wait.is_shared else None
            if outcome is None:
                context.turn_to(tip)
                step.facts.forget_match()
                outcome = self._outcome(wait, step.facts, fresh=tip.fresh, since=timestamp - tip.last_time)
                outcomes[key] = outcome
            self._apply(outcome, tip, step)
        context.turn_to(None)
        step.facts.forget_match()
        for target, goes_on in self._outcome(self._start, step.facts, fresh=True, since=0).takes:
            self._take(None, target, step, goes_on=goes_on)
        return self._emit(matches, step.completed)

    def advance(self, matches: PartialMatches, now: int) -> tuple[list[Match], list[TimedOut]]:
        """Advance time. Returns the matches that are complete now, and the partial matches that timed out."""
        completed, timed_out = [], []
        for tip in [tip for tip in matches.tips.values() if tip.waiting_for]:
            deadline = self.deadline(tip)
            if deadline is None or deadline > now:
                continue
            is_match = any(choice.is_pending for choice in self.wait(tip).choices)
            if is_match:
                completed.append(tip)
            else:
                timed_out.append(TimedOut(self._events(matches, matches.path(tip)), deadline))
            self._close(matches, tip, keep=tip.complete or is_match)
        return self._emit(matches, completed), timed_out

    def deadline(self, tip: Tip) -> int | None:
        """The time from which nothing can continue a partial match; None if there is no such time."""
        if not tip.waiting_for:
            return None
        limits = [] if self._plan.window_ms is None else [tip.start_time + self._plan.window_ms]
        gap = self.wait(tip).gap_ms
        if gap is not None:
            limits.append(tip.last_time + gap)
        return min(limits, default=None)

    def wait(self, tip: Tip) -> "Wait":
        """The open choices of a partial match."""
        key = (tip.position, tip.waiting_for)
        wait = self._waits.get(key)
        if wait is None:
            wait = self._waits[key] = self._find_wait(*key)
        return wait

    def events_of(self, matches: PartialMatches, tip: Tip | None, name: str) -> list[Any]:
        """The events of a partial match that a pattern has accepted."""
        path = [] if tip is None else matches.path(tip)
        return [matches.event(event) for position, event in path if self._position(position).name == name]

    def _find_wait(self, position: str, waiting_for: str) -> "Wait":
        known = {choice.id: choice for choice in self._position(position).choices}
        ids = waiting_for.split(SEPARATOR)
        missing = [name for name in ids if name not in known]
        if missing:
            raise _changed(f"{missing[0]!r} after {position!r}", position)
        return Wait(tuple(known[name] for name in ids))

    def _position(self, position: str) -> Position:
        found = self._plan.positions.get(position)
        if found is None:
            raise _changed(repr(position), position)
        return found

    def _outcome(self, wait: "Wait", facts: Facts, *, fresh: bool, since: int) -> "EventOutcome":
        """Decide what an event does to a partial match."""
        takes: dict[str, bool] = {}
        open_choices = []
        ends = False
        for choice in wait.choices:
            if choice.gap_ms is not None and since >= choice.gap_ms or fresh and not choice.entry.holds(facts):
                continue
            if choice.ends:
                ends = True
                continue
            stops = choice.stop is not None and choice.stop.holds(facts)
            if choice.target is not None and choice.take is not None and choice.take.holds(facts):
                takes[choice.target] = takes.get(choice.target, False) or not stops
            if not stops and choice.ignore is not None and choice.ignore.holds(facts):
                open_choices.append(choice.id)
        pairs = tuple((self._position(target), goes_on) for target, goes_on in takes.items())
        return EventOutcome(pairs, SEPARATOR.join(open_choices), ends)

    def _apply(self, outcome: "EventOutcome", tip: Tip, step: "EventStep") -> None:
        for target, goes_on in outcome.takes:
            self._take(tip, target, step, goes_on=goes_on)
        if outcome.ends:
            step.completed.append(tip)
        if not outcome.waiting_for:
            self._close(step.matches, tip, keep=tip.complete or outcome.ends)
        elif outcome.waiting_for != tip.waiting_for or (tip.fresh and self.wait(tip).has_entry):
            tip.waiting_for, tip.fresh = outcome.waiting_for, False
            step.matches.change(tip)

    def _take(self, tip: Tip | None, target: Position, step: "EventStep", *, goes_on: bool) -> None:
        waits = goes_on and target.choices
        if not waits and not target.accepts:
            return
        longer = step.matches.extend(tip, target.id, step.event_number(), step.timestamp)
        if waits:
            longer.waiting_for = SEPARATOR.join(choice.id for choice in target.choices)
        if target.accepts:
            step.completed.append(longer)

    def _close(self, matches: PartialMatches, tip: Tip, *, keep: bool) -> None:
        """Drop a partial match that nothing can continue, unless it still has to be emitted."""
        tip.waiting_for = ""
        if keep:
            matches.change(tip)
        else:
            matches.drop(tip)

    def _emit(self, matches: PartialMatches, completed: Iterable[Tip]) -> list[Match]:
        """The matches that can be emitted now, ordered by their start.

        With a strategy that skips, a match waits until no match that started before it can still come.
        """
        strategy = self._plan.skip_strategy
        for tip in completed:
            tip.complete = True
            matches.change(tip)
        held = [tip for tip in matches.tips.values() if tip.complete] if strategy.is_skip_strategy else list(completed)
        held.sort(key=_age)
        emitted: list[Match] = []
        for tip in held:
            if tip.node not in matches.tips:
                continue  # an earlier match has discarded it
            if strategy.is_skip_strategy:
                waiting = [other.start_event for other in matches.tips.values() if other.waiting_for]
                if waiting and min(waiting) < tip.start_event:
                    break
            path = matches.path(tip)
            emitted.append(self._events(matches, path))
            self._discard(matches, strategy.first_kept(self._numbers(path)))
            if tip.node in matches.tips:
                tip.complete = False
                if tip.waiting_for:
                    matches.change(tip)
                else:
                    matches.drop(tip)
        return emitted

    def _discard(self, matches: PartialMatches, first_kept: int | None) -> None:
        if first_kept is not None:
            for tip in [tip for tip in matches.tips.values() if tip.start_event < first_kept]:
                matches.drop(tip)

    def _numbers(self, path: list[tuple[str, int]]) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, event in path:
            found.setdefault(self._position(position).name, []).append(event)
        return found

    def _events(self, matches: PartialMatches, path: list[tuple[str, int]]) -> Match:
        return {name: [matches.event(event) for event in events] for name, events in self._numbers(path).items()}


class Wait:
    """The open choices of a partial match, and what can be derived from them."""

    def __init__(self, choices: tuple[Choice, ...]) -> None:
        self.choices = choices
        gaps = [choice.gap_ms for choice in choices]
        limited = [gap for gap in gaps if gap is not None]
        self.gap_ms = max(limited) if limited and len(limited) == len(gaps) else None
        """When the last choice times out; None if one never does."""
        self.has_entry = any(list(choice.entry.tests()) for choice in choices)
        """Whether a choice has a condition on the first event after the position."""
        guards = [
            guard
            for choice in choices
            for guard in (choice.take, choice.ignore, choice.entry, choice.stop)
            if guard is not None
        ]
        self.is_shared = not limited and all(test.is_simple for guard in guards for test in guard.tests())
        """Whether an event does the same to every partial match that waits like this."""


@dataclass(frozen=True)
class EventOutcome:
    """What an event does to a partial match."""

    takes: tuple[tuple[Position, bool], ...]
    """The positions of the longer matches, and whether each may continue or can only be complete."""
    waiting_for: str
    """The choices that are still open."""
    ends: bool
    """Whether the match is complete without the event."""


class EventStep:
    """One event while the partial matches are tried in turn. It is stored when the first of them accepts it."""

    def __init__(self, matches: PartialMatches, event: Any, timestamp: int, facts: Facts) -> None:
        self.matches = matches
        self.timestamp = timestamp
        self.facts = facts
        self.completed: list[Tip] = []
        self._event = event
        self._number: int | None = None

    def event_number(self) -> int:
        """The event's number."""
        if self._number is None:
            self._number = self.matches.add_event(self._event)
        return self._number


class MatchContext(IterativeCondition.Context):
    """The context that iterative conditions get."""

    def __init__(self, matcher: Matcher, matches: PartialMatches, timestamp: int, processing_time: Any) -> None:
        self._matcher = matcher
        self._matches = matches
        self._timestamp = timestamp
        self._processing_time = processing_time
        self._tip: Tip | None = None

    def turn_to(self, tip: Tip | None) -> None:
        """Answer for this partial match from now on."""
        self._tip = tip

    def get_events_for_pattern(self, name: str) -> list[Any]:
        return self._matcher.events_of(self._matches, self._tip, name)

    def timestamp(self) -> int:
        return self._timestamp

    def current_processing_time(self) -> int:
        time: int = self._processing_time()
        return time


def _age(tip: Tip) -> tuple[int, int]:
    return tip.start_event, tip.node


def _changed(what: str, position: str) -> UnsupportedValueError:
    return UnsupportedValueError(
        f"a saved partial match waits at {what}, which the pattern does not have",
        f"keep the patterns up to {position!r} unchanged, or give the operator a new uid and start without state",
    )
