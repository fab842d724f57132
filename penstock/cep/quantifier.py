"""How often a pattern occurs, and which events may come between two accepted ones."""

from dataclasses import dataclass
from enum import Enum


class ConsumingStrategy(Enum):
    """Which events may come between an accepted event and the one before it."""

    STRICT = "next"
    """Nothing."""
    SKIP_TILL_NEXT = "followed_by"
    """Events that the pattern does not accept."""
    SKIP_TILL_ANY = "followed_by_any"
    """Any events."""
    NOT_NEXT = "not_next"
    """The next event must not be of this pattern."""
    NOT_FOLLOW = "not_followed_by"
    """No event until the following pattern's may be of this pattern."""

    @property
    def is_negative(self) -> bool:
        """Whether this is a not-pattern."""
        return self in (ConsumingStrategy.NOT_NEXT, ConsumingStrategy.NOT_FOLLOW)


class WithinType(Enum):
    """Between which events a time limit applies."""

    FIRST_AND_LAST = "first and last"
    """Between the first and the last event of the match."""
    PREVIOUS_AND_CURRENT = "previous and current"
    """Between the event of the pattern and the event before it."""


@dataclass(frozen=True)
class Quantifier:
    """How often a pattern occurs."""

    minimum: int = 1
    maximum: int | None = 1
    """None means no upper limit."""
    is_single: bool = True
    """Whether no quantifier was given."""
    is_optional: bool = False
    is_greedy: bool = False
    inner_strategy: ConsumingStrategy = ConsumingStrategy.SKIP_TILL_NEXT
    """Which events may come between two events of the pattern."""
    window_ms: int | None = None
    """The time limit between two occurrences."""

    @property
    def is_looping(self) -> bool:
        """Whether it has no upper limit."""
        return self.maximum is None

    def __str__(self) -> str:
        if self.is_single:
            text = "one"
        elif self.maximum is None:
            text = "one_or_more()" if self.minimum == 1 else f"times_or_more({self.minimum})"
        else:
            text = f"times({self.minimum}, {self.maximum})"
        return text + (".optional()" if self.is_optional else "") + (".greedy()" if self.is_greedy else "")
