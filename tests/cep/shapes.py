"""Patterns as plain data, as `Pattern` objects, and written out as every sequence of slots that they stand for.

Events start with a letter; a condition is a set of letters.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.cep import AfterMatchSkipStrategy, Pattern

STRICT, RELAXED, ANY = "next", "followed_by", "followed_by_any"


@dataclass(frozen=True)
class One:
    """A pattern that accepts events."""

    name: str
    letters: str
    strategy: str = RELAXED
    low: int = 1
    high: int | None = 1
    optional: bool = False
    greedy: bool = False
    inner: str = RELAXED
    until: str = ""
    single: bool = True


@dataclass(frozen=True)
class Not:
    """A not-pattern."""

    name: str
    letters: str
    strategy: str = "not_followed_by"


@dataclass(frozen=True)
class Group:
    """A sequence as a pattern."""

    parts: "tuple[Shape, ...]"
    strategy: str = RELAXED
    low: int = 1
    high: int | None = 1
    optional: bool = False
    inner: str = RELAXED
    until: str = ""
    single: bool = True
    greedy: bool = field(default=False, init=False)


Shape = One | Not | Group


def to_pattern(parts: "tuple[Shape, ...]", skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    """The same as a `Pattern`."""
    pattern: Any = None
    for part in parts:
        what = to_pattern(part.parts) if isinstance(part, Group) else part.name
        pattern = Pattern.begin(what, skip) if pattern is None else getattr(pattern, part.strategy)(what)
        if not isinstance(part, Group):
            pattern.where(Letters(part.letters))
        if not isinstance(part, Not):
            _quantify(pattern, part)
    assert isinstance(pattern, Pattern)
    return pattern


def _quantify(pattern: Pattern, part: One | Group) -> None:
    if not part.single:
        pattern.times_or_more(part.low) if part.high is None else pattern.times(part.low, part.high)
        {STRICT: pattern.consecutive, ANY: pattern.allow_combinations}.get(part.inner, lambda: None)()
    if part.until:
        pattern.until(Letters(part.until))
    if part.optional:
        pattern.optional()
    if part.greedy:
        pattern.greedy()


class Letters:
    """Whether an event is one of these letters. Its first element decides, so that `b1` and `("b2", 1)` are a `b`."""

    def __init__(self, letters: str) -> None:
        self.letters = letters

    def __call__(self, event: Any) -> bool:
        return event[0][0] in self.letters


@dataclass(frozen=True)
class Slot:
    """An event to accept, and what may lie between it and the event before."""

    name: str
    letters: str
    strategy: str
    refused: str = ""
    """Letters that may not be accepted (until)."""
    blocked: str = ""
    """Letters that may not be ignored on the way (until)."""


@dataclass(frozen=True)
class Rule:
    """What must not come before the next slot's event: stop, entry (first event only), greedy; to the end: pending."""

    kind: str
    letters: str
    until: str = ""


Tokens = tuple[Slot | Rule, ...]
CUT = Rule("cut", "")
"""The rest of a sequence that is too long to be complete."""


def written_out(parts: "tuple[Shape, ...]", limit: int, head: str | None = None, untils: str = "") -> Iterator[Tokens]:
    """Every sequence of slots that the pattern stands for; those with more than `limit` slots are cut."""
    if not parts:
        yield ()
        return
    first, rest = parts[0], parts[1:]
    if isinstance(first, Not):
        kinds = {"not_next": "entry", "not_followed_by": "stop" if rest else "pending"}
        rule = Rule(kinds[first.strategy], first.letters)
        for tail in written_out(rest, limit, None, untils):
            yield (rule, *tail)
        return
    between: Tokens = ()
    if rest and isinstance(rest[0], Not):
        between = (Rule("stop" if rest[0].strategy == "not_followed_by" else "entry", rest[0].letters),)
    strategy = head if head is not None else first.strategy
    for tokens in repeated(first, limit, strategy, between, untils):
        if is_cut(tokens):
            yield tokens
            continue
        used = slots_in(tokens)
        greedy = isinstance(first, One) and first.greedy and first.low != first.high
        behind = (Rule("greedy", first.letters, first.until),) if greedy and isinstance(first, One) else ()
        for tail in written_out(rest, limit - used, None, untils):
            yield (*tokens, *behind, *tail)


def repeated(part: One | Group, limit: int, strategy: str, between: Tokens, untils: str) -> Iterator[Tokens]:
    """Every number of occurrences of a pattern."""
    if part.optional:
        yield ()

    def occurrences(done: int, left: int) -> Iterator[Tokens]:
        if done >= part.low:
            yield ()
        if part.high is not None and done >= part.high:
            return
        if left <= 0:
            yield (CUT,)
            return
        how = strategy if done == 0 else part.inner
        for once in occurrence(part, how, left, untils, is_first=done == 0):
            for tail in [()] if is_cut(once) else occurrences(done + 1, left - slots_in(once)):
                yield (*(between if done else ()), *once, *tail)

    for tokens in occurrences(0, limit):
        if tokens or not part.optional:
            yield tokens


def occurrence(part: One | Group, how: str, limit: int, untils: str, *, is_first: bool) -> Iterator[Tokens]:
    if isinstance(part, Group):
        yield from written_out(part.parts, limit, how, untils + part.until)
    else:
        blocked = untils if is_first else untils + part.until
        yield (Slot(part.name, part.letters, how, untils + part.until, blocked),)


def is_cut(tokens: Tokens) -> bool:
    return bool(tokens) and tokens[-1] == CUT


def slots_in(tokens: Tokens) -> int:
    return sum(isinstance(token, Slot) for token in tokens)
