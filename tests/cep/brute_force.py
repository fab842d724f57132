"""A matcher that finds matches by trying every assignment of events to slots.

It checks what lies between two events of a match, and shares nothing with the product's matcher. It knows the events of
one key in their order, each as a letter and a time.
"""

from dataclasses import dataclass
from itertools import combinations

from penstock.cep import AfterMatchSkipStrategy
from tests.cep.shapes import RELAXED, STRICT, Rule, Shape, Slot, Tokens, is_cut, written_out

Assignment = tuple[tuple[str, int], ...]
"""The names of patterns and the numbers of their events."""


@dataclass(frozen=True, order=True)
class Moment:
    """When something happens: at a time, first what is over, then the events."""

    time: int
    event: int = -1


@dataclass(frozen=True)
class Found:
    """A match, and when it was complete."""

    events: Assignment
    moment: Moment

    @property
    def start(self) -> int:
        """The number of its first event."""
        return self.events[0][1]

    @property
    def order(self) -> tuple[int, ...]:
        """Of matches that start and end with the same events, one whose event before the last came first is first."""
        return tuple(number for _, number in reversed(self.events))


class BruteForce:
    """Finds the matches of a shape in the events of one key."""

    def __init__(
        self, parts: tuple[Shape, ...], events: list[str], times: list[int] | None = None, window: int | None = None
    ) -> None:
        self.events = events
        self.times = list(range(len(events))) if times is None else times
        self.window = window
        self.sequences = set(written_out(parts, len(events) + 1))

    def matches(self) -> list[Found]:
        """Every match, without skipping, in the order of their completion."""
        found = set()
        for tokens in self.sequences:
            slots = [token for token in tokens if isinstance(token, Slot)]
            if not slots or is_cut(tokens) or len(slots) > len(self.events):
                continue
            for numbers in combinations(range(len(self.events)), len(slots)):
                moment = self._completed(tokens, numbers)
                if moment is not None:
                    found.add(Found(_assignment(tokens, numbers), moment))
        return sorted(found, key=lambda match: (match.moment, match.start, match.order))

    def matches_after_skipping(self, strategy: AfterMatchSkipStrategy) -> list[Assignment]:
        """The matches that a skip strategy leaves, in the order in which they are emitted."""
        held: list[Found] = []
        emitted: list[Assignment] = []
        first_kept = 0
        all_matches = self.matches()
        moments = {self._moment(n) for n in range(len(self.events))} | {match.moment for match in all_matches}
        if self.window is not None:  # a partial match that is over holds back no others
            moments |= {Moment(time + self.window) for time in self.times}
        for moment in sorted(moments):
            held += [m for m in all_matches if m.moment == moment and m.start >= first_kept]
            held.sort(key=lambda match: (match.start, match.moment, match.order))
            while held:
                match = held[0]
                waiting = {start for start in self.open_starts(moment) if start >= first_kept}
                if strategy.is_skip_strategy and waiting and min(waiting) < match.start:
                    break
                emitted.append(match.events)
                numbers: dict[str, list[int]] = {}
                for name, number in match.events:
                    numbers.setdefault(name, []).append(number)
                first_kept = max(first_kept, strategy.first_kept(numbers) or 0)
                held = [other for other in held[1:] if other.start >= first_kept]
        return emitted

    def open_starts(self, moment: Moment) -> set[int]:
        """The first events of the partial matches that something could continue after a moment."""
        return {assignment[0][1] for assignment in self.open(moment)}

    def timed_out(self) -> set[tuple[Assignment, int]]:
        """The partial matches whose time is over, and when."""
        assert self.window is not None
        found = set()
        ended = {(match.events, match.moment.time) for match in self.matches() if match.moment.event == -1}
        for time in {time + self.window for time in self.times}:
            before = Moment(time - 1, len(self.events))
            for assignment in self.open(before):
                if self.times[assignment[0][1]] + self.window == time and (assignment, time) not in ended:
                    found.add((assignment, time))
        return found

    def open(self, moment: Moment) -> set[Assignment]:
        """The partial matches that something could continue after a moment."""
        now = sum(self._moment(number) <= moment for number in range(len(self.events))) - 1
        found: set[Assignment] = set()
        for tokens in self.sequences:
            places = [index for index, token in enumerate(tokens) if isinstance(token, Slot)]
            for count in range(1, len(places) + 1):
                end = len(tokens) if count == len(places) else places[count] + 1
                behind = tokens[places[count - 1] + 1 : end]
                kinds = {"slot" if isinstance(token, Slot) else token.kind for token in behind}
                if not kinds & {"slot", "entry", "pending"}:
                    continue
                for numbers in combinations(range(now + 1), count):
                    if kinds & {"slot", "pending"}:
                        is_open = self._may_wait(behind, numbers[-1], now)
                    else:  # the next event decides
                        is_open = numbers[-1] == now
                    if (
                        is_open
                        and not self._is_over(numbers[0], moment)
                        and self._fits(tokens[: places[count - 1] + 1], numbers, final=False)
                    ):
                        found.add(_assignment(tokens, numbers))
        return found

    def _moment(self, number: int) -> Moment:
        return Moment(self.times[number], number)

    def _is_over(self, start: int, moment: Moment) -> bool:
        return self.window is not None and moment.time - self.times[start] >= self.window

    def _completed(self, tokens: Tokens, numbers: tuple[int, ...]) -> Moment | None:
        """When this assignment is a complete match; None if it is none."""
        places = [index for index, token in enumerate(tokens) if isinstance(token, Slot)]
        behind = [token for token in tokens[places[-1] + 1 :] if isinstance(token, Rule)]
        first, last = numbers[0], numbers[-1]
        waits = [rule for rule in behind if rule.kind in ("entry", "pending")]
        if self._is_over(first, self._moment(last)) or not self._fits(tokens, numbers, final=not waits):
            return None
        if not waits:
            return self._moment(last)
        if any(rule.kind == "pending" for rule in behind):
            assert self.window is not None
            over = self.times[first] + self.window
            before = sum(time < over for time in self.times) - 1
            return Moment(over) if self._may_wait(tuple(behind), last, before) else None
        following = last + 1
        if following >= len(self.events) or self._is_over(first, self._moment(following)):
            return None
        return self._moment(following) if self._may_wait(tuple(behind), last, following) else None

    def _fits(self, tokens: Tokens, numbers: tuple[int, ...], *, final: bool) -> bool:
        """Whether the slots fit the events with these numbers."""
        rules: list[Rule] = []
        index = 0
        for token in tokens:
            if isinstance(token, Rule):
                rules.append(token)
                continue
            before = numbers[index - 1] if index else None
            is_last = final and index == len(numbers) - 1
            if not self._fits_slot(token, rules, before, numbers[index], is_last=is_last):
                return False
            rules = []
            index += 1
        return True

    def _fits_slot(self, slot: Slot, rules: list[Rule], before: int | None, at: int, *, is_last: bool) -> bool:
        event = self.events[at]
        if event not in slot.letters or event in slot.refused:
            return False
        if before is None:
            return self._greedy_allows(rules, at - 1, at)
        if not self._may_wait((*rules, slot), before, at - 1):
            return False
        if at == before + 1 and any(rule.kind == "entry" and event in rule.letters for rule in rules):
            return False
        stopped = any(rule.kind == "stop" and event in rule.letters for rule in rules)
        return (is_last or not stopped) and self._greedy_allows(rules, before, at)

    def _may_wait(self, tokens: Tokens, before: int, now: int) -> bool:
        """Whether the events after `before` up to `now` may lie before the slot that comes next, or before the end."""
        rules = [token for token in tokens if isinstance(token, Rule)]
        slot = next((token for token in tokens if isinstance(token, Slot)), None)
        between = self.events[before + 1 : now + 1]
        if between and any(rule.kind == "entry" and between[0] in rule.letters for rule in rules):
            return False
        if any(rule.kind in ("stop", "pending") and event in rule.letters for rule in rules for event in between):
            return False
        if slot is not None:
            if slot.strategy == STRICT and between:
                return False
            if slot.strategy == RELAXED and any(event in slot.letters for event in between):
                return False
            if any(event in slot.blocked for event in between):
                return False
        return self._greedy_allows(rules, before, now)

    def _greedy_allows(self, rules: list[Rule], before: int, now: int) -> bool:
        """A greedy pattern lets nothing go on while an event fits it, unless the next event is the end of it."""
        events = self.events[before + 1 : now + 1]
        for rule in rules:
            is_ended = bool(rule.until and events and events[0] in rule.until)
            if rule.kind == "greedy" and not is_ended and any(event in rule.letters for event in events):
                return False
        return True


def _assignment(tokens: Tokens, numbers: tuple[int, ...]) -> Assignment:
    slots = [token for token in tokens if isinstance(token, Slot)]
    return tuple((slot.name, number) for slot, number in zip(slots, numbers, strict=False))
