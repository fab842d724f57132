"""Compiles a pattern into the plan that the matcher runs.

The plan is built from the last pattern to the first. A `_Fork` is what can follow at one place: a list of `_Step`s (a
pattern that accepts one event) and of `_Way`s, which lead to other forks under conditions. A repetition is a fork that
can be reached from itself, so ways are followed only when all forks exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.cep.expression import ALWAYS, Expression, Negation, all_of, any_of
from penstock.cep.match_plan import Choice, MatchPlan, Position
from penstock.cep.pattern import GroupPattern, Pattern, parts_of
from penstock.cep.pattern_checks import check_pattern, first_to_last_ms
from penstock.cep.quantifier import ConsumingStrategy, WithinType

START = ""
"""The id of the position before any event."""


@dataclass(eq=False)
class _Fork:
    """What can follow at one place."""

    items: "list[_Step | _Way]" = field(default_factory=list)
    accepts: bool = False
    """Whether the match may end here."""


@dataclass(eq=False)
class _Step:
    """A pattern that accepts one event; or, without `take`, one that waits for the end."""

    name: str
    take: Expression | None
    ignore: Expression | None
    gap_ms: int | None
    following: _Fork
    entry: Expression = ALWAYS
    stop: Expression | None = None
    ends: bool = False
    is_pending: bool = False
    id: str = ""


@dataclass(frozen=True)
class _Way:
    """Whatever can follow at another place, under conditions."""

    fork: _Fork
    entry: Expression = ALWAYS
    """Must hold for the first event only."""
    lasting: Expression = ALWAYS
    """Must hold for every event up to the accepted one."""
    stop: Expression | None = None


@dataclass(frozen=True)
class _Entry:
    """How the first event of a pattern follows the event before it."""

    strategy: ConsumingStrategy
    gap_ms: int | None


def compile_pattern(pattern: Pattern) -> MatchPlan:
    """The plan of a pattern. Raises UsageError for a pattern that can never match."""
    check_pattern(pattern)
    start = _Compiler().sequence(parts_of(pattern), _Fork(accepts=True), None)
    steps = _number(start)
    positions = {
        step.id: Position(step.id, step.name, _choices(step.following), step.following.accepts) for step in steps
    }
    return MatchPlan(
        Position(START, "", _choices(start), accepts=False),
        positions,
        first_to_last_ms(pattern),
        pattern.get_after_match_skip_strategy(),
    )


class _Compiler:
    """Holds the until-conditions of the groups around the current pattern."""

    def __init__(self) -> None:
        self._untils: list[Expression] = []

    def sequence(self, parts: list[Pattern], tail: _Fork, head: _Entry | None) -> _Fork:
        """What can follow before a sequence; `head` overrides how its first pattern follows."""
        fork = tail
        for index in range(len(parts) - 1, -1, -1):
            part = parts[index]
            following = parts[index + 1] if index + 1 < len(parts) else None
            if part._strategy is ConsumingStrategy.NOT_FOLLOW:
                fork = self._not_followed_by(part, fork, is_last=following is None)
            elif part._strategy is ConsumingStrategy.NOT_NEXT:
                fork = self._not_next(part, fork)
            else:
                fork = self._part(part, fork, _entry_of(part, head if index == 0 else None), following)
        return fork

    def _not_followed_by(self, part: Pattern, fork: _Fork, *, is_last: bool) -> _Fork:
        stop = _condition(part)
        if not is_last:
            return _Fork([_Way(fork, stop=stop)], fork.accepts)
        gap = part._windows.get(WithinType.PREVIOUS_AND_CURRENT)
        step = _Step(part.get_name(), None, Negation(stop), gap, fork, stop=stop, is_pending=True)
        return _Fork([step])

    def _not_next(self, part: Pattern, fork: _Fork) -> _Fork:
        entry = Negation(_condition(part))
        items: list[_Step | _Way] = [_Way(fork, entry=entry)]
        if fork.accepts:
            items.append(_Step(part.get_name(), None, None, None, fork, entry=entry, ends=True))
        return _Fork(items)

    def _part(self, part: Pattern, tail: _Fork, first: _Entry, following: Pattern | None) -> _Fork:
        """What can follow before a pattern that accepts events."""
        quantifier = part.get_quantifier()
        if quantifier.is_greedy and quantifier.minimum != quantifier.maximum:
            tail = _restrict(part, tail)
        if quantifier.maximum is None:
            after = _Fork(accepts=tail.accepts)
            after.items = [*self._again(part, after, following).items, _Way(tail)]
            count = quantifier.minimum
        else:
            after, count = tail, quantifier.maximum
        for done in range(count - 1, 0, -1):  # what can follow after that many occurrences
            again = self._again(part, after, following)
            after = _Fork([*again.items, _Way(tail)], tail.accepts) if done >= quantifier.minimum else again
        fork = self._once(part, after, first, inner=False)
        return _Fork([*fork.items, _Way(tail)], tail.accepts) if quantifier.is_optional else fork

    def _again(self, part: Pattern, after: _Fork, following: Pattern | None) -> _Fork:
        """What can follow before a further occurrence of a pattern. A not-pattern after it applies here too."""
        quantifier = part.get_quantifier()
        gap = quantifier.window_ms or part._windows.get(WithinType.PREVIOUS_AND_CURRENT)
        once = self._once(part, after, _Entry(quantifier.inner_strategy, gap), inner=True)
        if following is not None and following._strategy is ConsumingStrategy.NOT_FOLLOW:
            return _Fork([_Way(once, stop=_condition(following))], once.accepts)
        if following is not None and following._strategy is ConsumingStrategy.NOT_NEXT:
            return _Fork([_Way(once, entry=Negation(_condition(following)))], once.accepts)
        return once

    def _once(self, part: Pattern, after: _Fork, entry: _Entry, *, inner: bool) -> _Fork:
        """What can follow before one occurrence of a pattern."""
        if isinstance(part, GroupPattern):
            if part._until is not None:
                self._untils.append(Negation(part._until))
            fork = self.sequence(parts_of(part.get_group()), after, entry)
            if part._until is not None:
                self._untils.pop()
            return fork
        until = None if part._until is None else Negation(part._until)
        condition = _condition(part)
        ignore: Expression | None = None
        if entry.strategy is not ConsumingStrategy.STRICT:
            skipped = Negation(condition) if entry.strategy is ConsumingStrategy.SKIP_TILL_NEXT else ALWAYS
            ignore = all_of(skipped, until if inner else None, *self._untils)
        return _Fork([_Step(part.get_name(), all_of(condition, until, *self._untils), ignore, entry.gap_ms, after)])


def _entry_of(part: Pattern, head: _Entry | None) -> _Entry:
    gap = part._windows.get(WithinType.PREVIOUS_AND_CURRENT)
    if head is None:
        return _Entry(part._strategy, gap)
    return replace(head, gap_ms=min((span for span in (gap, head.gap_ms) if span is not None), default=None))


def _restrict(part: Pattern, tail: _Fork) -> _Fork:
    """What can follow a greedy pattern: nothing while an event fits it, unless its until-condition has ended it."""
    refused = Negation(_condition(part))
    if part._until is None:
        return _Fork([_Way(tail, lasting=refused)], tail.accepts)
    ended = part._until
    return _Fork([_Way(tail, Negation(ended), refused), _Way(tail, ended)], tail.accepts)


def _condition(part: Pattern) -> Expression:
    return part._condition or ALWAYS


def _number(start: _Fork) -> list[_Step]:
    """All reachable steps, in order, with unique ids: the pattern's name, and a number if it has several steps."""
    found: list[_Step] = []
    counts: dict[str, int] = {}
    seen: set[int] = set()
    forks = [start]
    while forks:
        fork = forks.pop(0)
        if id(fork) in seen:
            continue
        seen.add(id(fork))
        for item in fork.items:
            if isinstance(item, _Way):
                forks.append(item.fork)
            elif not item.id:
                count = counts[item.name] = counts.get(item.name, 0) + 1
                item.id = item.name if count == 1 else f"{item.name}:{count}"
                found.append(item)
                forks.append(item.following)
    return found


def _choices(fork: _Fork) -> tuple[Choice, ...]:
    """The choices at a place. A step that is reached by two ways under different conditions becomes two choices."""
    choices: list[Choice] = []
    counts: dict[str, int] = {}
    known: list[tuple[str, _Way]] = []
    for step, way in _reachable(fork, _Way(fork), set()):
        if (step.id, way) in known:
            continue
        known.append((step.id, way))
        count = counts[step.id] = counts.get(step.id, 0) + 1
        choices.append(
            Choice(
                step.id if count == 1 else f"{step.id}:way{count}",
                None if step.take is None else step.id,
                None if step.take is None else all_of(step.take, way.lasting),
                None if step.ignore is None else all_of(step.ignore, way.lasting),
                all_of(way.entry, step.entry, way.lasting if step.ends else None),
                any_of(way.stop, step.stop),
                step.gap_ms,
                step.ends,
                step.is_pending,
            )
        )
    return tuple(choices)


def _reachable(fork: _Fork, way: _Way, path: set[int]) -> Iterator[tuple[_Step, _Way]]:
    """The steps that a fork leads to, each with the conditions of the ways to it (whose `fork` is not used)."""
    if id(fork) in path:
        return
    path.add(id(fork))
    for item in fork.items:
        if isinstance(item, _Step):
            yield item, replace(way, fork=_NOWHERE)
        else:
            combined = _Way(
                _NOWHERE,
                all_of(way.entry, item.entry),
                all_of(way.lasting, item.lasting),
                any_of(way.stop, item.stop),
            )
            yield from _reachable(item.fork, combined, path)
    path.remove(id(fork))


_NOWHERE = _Fork()
