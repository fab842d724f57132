"""`Pattern`: a sequence of events to look for, written step by step as in Flink's CEP library.

A method that describes the current pattern changes it and returns it; one that appends a pattern returns the new one,
which refers to the ones before it. Mistakes within one step are reported at once, the others by `pattern_checks`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from penstock.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from penstock.cep.condition import IterativeCondition, SubtypeCondition, as_condition
from penstock.cep.expression import Disjunction, Expression, Test, all_of
from penstock.cep.quantifier import ConsumingStrategy, Quantifier, WithinType
from penstock.errors import ArgumentError, UsageError
from penstock.model.time import TimeSpan, milliseconds

Condition = IterativeCondition | Callable[[Any], bool] | Callable[[Any, IterativeCondition.Context], bool]
"""A condition object, `lambda event: ...` or `lambda event, ctx: ...`."""

_NOT_OPTIONAL = (
    "a not-pattern cannot follow an optional one; write two patterns, one with and one without the optional part"
)


class Pattern:
    """One step of a sequence, and the steps before it."""

    def __init__(
        self,
        name: str,
        previous: "Pattern | None",
        strategy: ConsumingStrategy,
        skip_strategy: AfterMatchSkipStrategy,
    ) -> None:
        self._name = name
        self._previous = previous
        self._strategy = strategy
        self._skip_strategy = skip_strategy
        self._quantifier = Quantifier()
        self._condition: Expression | None = None
        self._until: Expression | None = None
        self._windows: dict[WithinType, int] = {}

    @staticmethod
    def begin(start: "str | Pattern", after_match_skip_strategy: AfterMatchSkipStrategy | None = None) -> "Pattern":
        """The first pattern of a sequence: a name, or a sequence as a group."""
        strategy = after_match_skip_strategy or AfterMatchSkipStrategy.no_skip()
        if not isinstance(strategy, AfterMatchSkipStrategy):
            raise ArgumentError(
                f"{strategy!r} is not a skip strategy; write for example AfterMatchSkipStrategy.skip_to_next()"
            )
        return _step(start, None, ConsumingStrategy.STRICT, strategy)

    # Conditions

    def where(self, condition: Condition) -> "Pattern":
        """Accept only events that meet this condition and those of earlier calls."""
        added = Test(as_condition(condition, self._name))
        self._condition = added if self._condition is None else all_of(self._condition, added)
        return self

    def or_(self, condition: Condition) -> "Pattern":
        """Also accept events that meet this condition."""
        added = Test(as_condition(condition, self._name))
        self._condition = added if self._condition is None else Disjunction((self._condition, added))
        return self

    def subtype(self, subtype_class: type) -> "Pattern":
        """Accept only events of this class."""
        if not isinstance(subtype_class, type):
            raise ArgumentError(f"pattern {self._name!r}: subtype() takes a class, not {subtype_class!r}")
        return self.where(SubtypeCondition(subtype_class))

    def until(self, until_condition: Condition) -> "Pattern":
        """End the repetition at the first event that meets the condition; that event is not part of the match."""
        if self._until is not None:
            self._refuse("until() was called before; combine both conditions in one function")
        if not self._quantifier.is_looping:
            self._refuse("until() ends a repetition without a limit; call one_or_more() or times_or_more() before it")
        self._until = Test(as_condition(until_condition, self._name))
        return self

    def within(self, window_time: TimeSpan, within_type: WithinType = WithinType.FIRST_AND_LAST) -> "Pattern":
        """Limit the time from the first to the last event of a match, or from the previous event to this pattern's.

        An event that comes exactly this long after is too late. Of several limits for a whole match the smallest
        counts.
        """
        if not isinstance(within_type, WithinType):
            raise ArgumentError(f"pattern {self._name!r}: {within_type!r} is not a WithinType")
        self._windows[within_type] = self._span(window_time, "within")
        return self

    # The next pattern

    def next(self, following: "str | Pattern") -> "Pattern":
        """A pattern whose event comes directly after this one's."""
        return self._append(following, ConsumingStrategy.STRICT)

    def followed_by(self, following: "str | Pattern") -> "Pattern":
        """A pattern whose first matching event comes any time after this one's."""
        return self._append(following, ConsumingStrategy.SKIP_TILL_NEXT)

    def followed_by_any(self, following: "str | Pattern") -> "Pattern":
        """A pattern of which every later matching event makes a match."""
        return self._append(following, ConsumingStrategy.SKIP_TILL_ANY)

    def not_next(self, name: str) -> "Pattern":
        """A pattern whose event must not come directly after this one's."""
        return self._append_negative(name, ConsumingStrategy.NOT_NEXT)

    def not_followed_by(self, name: str) -> "Pattern":
        """A pattern whose event must not come between this one's and the following one's.

        As the last pattern it needs `within`: the sequence matches if no such event comes before the time is over.
        """
        return self._append_negative(name, ConsumingStrategy.NOT_FOLLOW)

    # Quantifiers

    def one_or_more(self, window_time: TimeSpan | None = None) -> "Pattern":
        """Expect one event or more; `window_time` limits the time between two of them."""
        return self._repeat("one_or_more", 1, None, window_time)

    def times(self, from_times: int, to_times: int | None = None, window_time: TimeSpan | None = None) -> "Pattern":
        """Expect this many events, or a number in this range; `window_time` limits the time between two of them.

        `times(0, n)` is an optional `times(1, n)`.
        """
        highest = from_times if to_times is None else to_times
        if not _is_count(from_times) or not _is_count(highest) or not max(from_times, 1) <= highest:
            self._refuse(
                f"times({from_times!r}, {to_times!r}) is not a range; give numbers of 1 or more, the smaller first"
            )
        if from_times == 0:
            return self._repeat("times", 1, highest, window_time).optional()
        return self._repeat("times", from_times, highest, window_time)

    def times_or_more(self, times: int, window_time: TimeSpan | None = None) -> "Pattern":
        """Expect at least this many events; `window_time` limits the time between two of them."""
        if not _is_count(times) or times < 1:
            self._refuse(f"times_or_more({times!r}): give a number of 1 or more")
        return self._repeat("times_or_more", times, None, window_time)

    def optional(self) -> "Pattern":
        """Allow that the pattern does not occur at all."""
        self._require_positive("optional")
        if self._quantifier.is_optional:
            self._refuse("it is already optional; remove one call of optional()")
        if self._previous is not None and self._previous._quantifier.is_greedy:
            self._refuse(
                f"an optional pattern cannot follow the greedy pattern {self._previous._name!r}; remove greedy() or "
                f"write two patterns"
            )
        self._quantifier = replace(self._quantifier, is_optional=True)
        return self

    def greedy(self) -> "Pattern":
        """Repeat as often as possible: the sequence does not continue while an event fits this pattern."""
        self._require_positive("greedy")
        if self._quantifier.is_single:
            self._refuse("greedy() needs a repetition; call one_or_more(), times(...) or times_or_more(...) before it")
        if self._quantifier.inner_strategy is ConsumingStrategy.SKIP_TILL_ANY:
            self._refuse("greedy() and allow_combinations() exclude each other; remove one of them")
        self._quantifier = replace(self._quantifier, is_greedy=True)
        return self

    def consecutive(self) -> "Pattern":
        """Allow no other event between the events of the repetition."""
        return self._contiguous("consecutive", ConsumingStrategy.STRICT)

    def allow_combinations(self) -> "Pattern":
        """Also skip events that would fit the repetition, so that every combination of them makes a match."""
        if self._quantifier.is_greedy:
            self._refuse("greedy() and allow_combinations() exclude each other; remove one of them")
        return self._contiguous("allow_combinations", ConsumingStrategy.SKIP_TILL_ANY)

    # Inspection

    def get_name(self) -> str:
        """The name."""
        return self._name

    def get_previous(self) -> "Pattern | None":
        """The pattern before this one."""
        return self._previous

    def get_quantifier(self) -> Quantifier:
        """How often it occurs."""
        return self._quantifier

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        """The strategy that was given to `begin`."""
        return self._skip_strategy

    def __repr__(self) -> str:
        before = "" if self._previous is None else f"{self._previous!r} {self._strategy.value} "
        return f"{before}{self._name}[{self._quantifier}]"

    def _append(self, following: "str | Pattern", strategy: ConsumingStrategy) -> "Pattern":
        return _step(following, self, strategy, self._skip_strategy)

    def _append_negative(self, name: str, strategy: ConsumingStrategy) -> "Pattern":
        if isinstance(name, Pattern):
            raise ArgumentError(f"{strategy.value}() takes a name, not a group of patterns")
        if self._quantifier.is_optional:
            raise UsageError(f"pattern {name!r} after {self._name!r}: {_NOT_OPTIONAL}")
        return self._append(name, strategy)

    def _repeat(self, method: str, minimum: int, maximum: int | None, window: TimeSpan | None) -> "Pattern":
        self._require_positive(method)
        given = self._quantifier
        if not given.is_single:
            self._refuse(f"it is already repeated, {given}; remove {method}()")
        limit = None if window is None else self._span(window, method)
        self._quantifier = replace(given, minimum=minimum, maximum=maximum, is_single=False, window_ms=limit)
        return self

    def _contiguous(self, method: str, strategy: ConsumingStrategy) -> "Pattern":
        given = self._quantifier
        if given.is_single:
            self._refuse(
                f"{method}() needs a repetition; call one_or_more(), times(...) or times_or_more(...) before it"
            )
        if given.inner_strategy is not ConsumingStrategy.SKIP_TILL_NEXT:
            self._refuse("consecutive() and allow_combinations() exclude each other; call only one of them, and once")
        self._quantifier = replace(given, inner_strategy=strategy)
        return self

    def _require_positive(self, method: str) -> None:
        if self._strategy.is_negative:
            self._refuse(f"{method}() does not apply to {self._strategy.value}(); remove it")

    def _span(self, given: TimeSpan, method: str) -> int:
        span = milliseconds(given)
        if span <= 0:
            self._refuse(f"{method}() takes a time of at least one millisecond, not {given!r}")
        return span

    def _refuse(self, problem: str) -> NoReturn:
        raise UsageError(f"pattern {self._name!r}: {problem}")


class GroupPattern(Pattern):
    """A sequence of patterns as one step of another sequence."""

    def __init__(
        self,
        group: Pattern,
        previous: Pattern | None,
        strategy: ConsumingStrategy,
        skip_strategy: AfterMatchSkipStrategy,
    ) -> None:
        first = parts_of(group)[0].get_name()
        super().__init__(f"({first} ...)", previous, strategy, skip_strategy)
        self._group = group

    def get_group(self) -> Pattern:
        """The last pattern of the group's sequence."""
        return self._group

    def where(self, condition: Condition) -> NoReturn:
        """Not possible: conditions belong to the patterns in the group."""
        self._refuse("a group has no condition of its own; call where() on a pattern in it")

    def or_(self, condition: Condition) -> NoReturn:
        """Not possible: conditions belong to the patterns in the group."""
        self._refuse("a group has no condition of its own; call or_() on a pattern in it")

    def subtype(self, subtype_class: type) -> NoReturn:
        """Not possible: conditions belong to the patterns in the group."""
        self._refuse("a group has no condition of its own; call subtype() on a pattern in it")

    def greedy(self) -> NoReturn:
        """Not possible for a group."""
        self._refuse("a group cannot be greedy; call greedy() on a pattern in it")

    def __repr__(self) -> str:
        before = "" if self._previous is None else f"{self._previous!r} {self._strategy.value} "
        return f"{before}({self._group!r})[{self._quantifier}]"


def parts_of(last: Pattern) -> list[Pattern]:
    """The patterns of a sequence, from first to last."""
    parts = [last]
    while (previous := parts[-1].get_previous()) is not None:
        parts.append(previous)
    return parts[::-1]


def _step(
    start: str | Pattern,
    previous: Pattern | None,
    strategy: ConsumingStrategy,
    skip_strategy: AfterMatchSkipStrategy,
) -> Pattern:
    if isinstance(start, Pattern):
        return GroupPattern(start, previous, strategy, skip_strategy)
    if not isinstance(start, str) or not start or ":" in start:
        raise ArgumentError(f"{start!r} cannot name a pattern; give text without ':', or a Pattern as a group")
    return Pattern(start, previous, strategy, skip_strategy)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
