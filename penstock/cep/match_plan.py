"""A pattern as the matcher runs it.

A partial match is a sequence of accepted events. The last accepted event puts it at a `Position`, which has one
`Choice` for each pattern that may accept the next event. At every further event each choice that is still open accepts
it (a new, longer partial match begins; the old one stays as long as a choice is open), ignores it, or is closed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from penstock.cep.expression import Expression


@dataclass(frozen=True, eq=False)
class Choice:
    """What may be accepted next, and what may be ignored until then."""

    id: str
    target: str | None
    """The position after the event was accepted; None: nothing is accepted."""
    take: Expression | None
    """Whether an event is accepted."""
    ignore: Expression | None
    """Whether an event is ignored; None: never."""
    entry: Expression
    """Must hold for the first event after the position, or the choice is closed."""
    stop: Expression | None
    """An event for which it holds closes the choice; if it is accepted and completes the match, that still counts."""
    gap_ms: int | None
    """The time limit from the event before."""
    ends: bool = False
    """The match is complete, without the event, if `entry` holds for the first event after the position."""
    is_pending: bool = False
    """The match is complete if the choice is still open when the time is over."""


@dataclass(frozen=True, eq=False)
class Position:
    """Where a partial match is after an event was accepted."""

    id: str
    name: str
    """The pattern that accepted the event."""
    choices: tuple[Choice, ...]
    accepts: bool
    """Whether the match is complete here; with choices, longer matches may follow."""


@dataclass(frozen=True)
class MatchPlan:
    """A compiled pattern."""

    start: Position
    """The position before any event was accepted."""
    positions: Mapping[str, Position]
    window_ms: int | None
    skip_strategy: AfterMatchSkipStrategy
