"""A pattern as the matcher runs it.

A partial match is a sequence of accepted events. The last accepted event puts it at a `Position`, which has one
`Choice` for each pattern that may accept the next event. With every further event, each open choice does one of three
things: it accepts the event, which starts a new, longer partial match while the old one stays as long as it has an open
choice; it ignores the event; or it is closed.
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
    """The position after the event has been accepted; None if the choice accepts nothing."""
    take: Expression | None
    """Whether an event is accepted."""
    ignore: Expression | None
    """Whether an event is ignored; None: never."""
    entry: Expression
    """Must hold for the first event after the position, or the choice is closed."""
    stop: Expression | None
    """An event for which it holds closes the choice. If the event completes the match, the match still counts."""
    gap_ms: int | None
    """The time limit, counted from the event before."""
    ends: bool = False
    """The match is complete, without the event, if `entry` holds for the first event after the position."""
    is_pending: bool = False
    """The match is complete if the choice is still open when its time is over."""


@dataclass(frozen=True, eq=False)
class Position:
    """Where a partial match stands after an event has been accepted."""

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
    """The position before any event has been accepted."""
    positions: Mapping[str, Position]
    window_ms: int | None
    skip_strategy: AfterMatchSkipStrategy
