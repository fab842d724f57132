"""Conditions of a pattern as expressions, evaluated against one event and one partial match.

A user's condition is called at most once for an event and a partial match, however many expressions contain it, and at
most once for an event if it looks at the event only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.cep.condition import IterativeCondition, SimpleCondition


class Expression(ABC):
    """A boolean expression."""

    @abstractmethod
    def holds(self, facts: "Facts") -> bool:
        """Evaluate it for the event and the partial match."""

    @abstractmethod
    def tests(self) -> Iterator["Test"]:
        """The user's conditions that it contains."""


class Test(Expression):
    """A user's condition. Each is equal only to itself, so that its result can be remembered."""

    __test__ = False  # pytest must not collect it

    def __init__(self, condition: IterativeCondition) -> None:
        self.condition = condition
        self.is_simple = isinstance(condition, SimpleCondition)
        """Whether it depends on the event alone."""

    def holds(self, facts: "Facts") -> bool:
        return facts.result(self)

    def tests(self) -> Iterator["Test"]:
        yield self


@dataclass(frozen=True)
class Negation(Expression):
    """True if the other expression is false."""

    part: Expression

    def holds(self, facts: "Facts") -> bool:
        return not self.part.holds(facts)

    def tests(self) -> Iterator[Test]:
        return self.part.tests()


@dataclass(frozen=True)
class Conjunction(Expression):
    """True if all parts are true, or if there are none."""

    parts: tuple[Expression, ...] = ()

    def holds(self, facts: "Facts") -> bool:
        return all(part.holds(facts) for part in self.parts)

    def tests(self) -> Iterator[Test]:
        for part in self.parts:
            yield from part.tests()


@dataclass(frozen=True)
class Disjunction(Expression):
    """True if at least one part is true."""

    parts: tuple[Expression, ...]

    def holds(self, facts: "Facts") -> bool:
        return any(part.holds(facts) for part in self.parts)

    def tests(self) -> Iterator[Test]:
        for part in self.parts:
            yield from part.tests()


ALWAYS = Conjunction()


def all_of(*given: Expression | None) -> Expression:
    """The conjunction of the expressions that are not None."""
    parts = tuple(part for part in given if part is not None and part != ALWAYS)
    return parts[0] if len(parts) == 1 else Conjunction(parts)


def any_of(*given: Expression | None) -> Expression | None:
    """The disjunction of the expressions that are not None; None if all are."""
    parts = tuple(dict.fromkeys(part for part in given if part is not None))
    return None if not parts else parts[0] if len(parts) == 1 else Disjunction(parts)


class Facts:
    """Cached results of conditions for one event; those of iterative conditions for one partial match at a time."""

    def __init__(self, event: Any, context: Any) -> None:
        self._event = event
        self._context = context
        self._of_event: dict[Test, bool] = {}
        self._of_match: dict[Test, bool] = {}

    def forget_match(self) -> None:
        """Continue with another partial match: drop the results of iterative conditions."""
        self._of_match.clear()

    def result(self, test: Test) -> bool:
        """The result of the user's condition, which is called only if it is not known yet."""
        known = self._of_event if test.is_simple else self._of_match
        result = known.get(test)
        if result is None:
            call: Callable[..., Any] = test.condition.filter
            result = bool(call(self._event) if test.is_simple else call(self._event, self._context))
            known[test] = result
        return result
