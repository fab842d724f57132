"""After-match skip strategies: which partial matches a match discards."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ArgumentError, UnsupportedValueError

EventIds = Mapping[str, Sequence[int]]
"""The numbers of a match's events, by pattern name. A later event has a higher number."""


class AfterMatchSkipStrategy(ABC):
    """In how many matches an event may be. Every strategy but `no_skip` discards partial matches after a match."""

    @staticmethod
    def no_skip() -> "NoSkip":
        """Emit every possible match."""
        return NoSkip()

    @staticmethod
    def skip_to_next() -> "SkipToNext":
        """Discard the partial matches that start with the same event as the match."""
        return SkipToNext()

    @staticmethod
    def skip_past_last_event() -> "SkipPastLastEvent":
        """Discard the partial matches that started before the match ended."""
        return SkipPastLastEvent()

    @staticmethod
    def skip_to_first(pattern_name: str) -> "SkipToElement":
        """Discard the partial matches that started before the first event of a pattern in the match."""
        return SkipToElement(_name(pattern_name), 0)

    @staticmethod
    def skip_to_last(pattern_name: str) -> "SkipToElement":
        """Discard the partial matches that started before the last event of a pattern in the match."""
        return SkipToElement(_name(pattern_name), -1)

    @abstractmethod
    def first_kept(self, match: EventIds) -> int | None:
        """The lowest event number with which a partial match may start and be kept; None keeps all of them."""

    def get_pattern_name(self) -> str | None:
        """The pattern to skip to, if the strategy has one."""
        return None

    @property
    def is_skip_strategy(self) -> bool:
        """Whether matches may discard others, so that the earliest has to come first."""
        return True


@dataclass(frozen=True)
class NoSkip(AfterMatchSkipStrategy):
    """Emits every possible match."""

    def first_kept(self, match: EventIds) -> int | None:
        return None

    @property
    def is_skip_strategy(self) -> bool:
        return False


@dataclass(frozen=True)
class SkipToNext(AfterMatchSkipStrategy):
    """Discards the partial matches that start with the same event as the match."""

    def first_kept(self, match: EventIds) -> int | None:
        return min(events[0] for events in match.values()) + 1


@dataclass(frozen=True)
class SkipPastLastEvent(AfterMatchSkipStrategy):
    """Discards the partial matches that started before the match ended."""

    def first_kept(self, match: EventIds) -> int | None:
        return max(events[-1] for events in match.values()) + 1


@dataclass(frozen=True)
class SkipToElement(AfterMatchSkipStrategy):
    """Discards the partial matches that started before the first or last event of a pattern in the match."""

    pattern_name: str
    index: int
    """0: the first event; -1: the last one."""
    raises_on_miss: bool = False

    def get_pattern_name(self) -> str | None:
        return self.pattern_name

    def throw_exception_on_miss(self) -> "SkipToElement":
        """Fail if the match has no event of the pattern, or starts with it. By default nothing is skipped then."""
        return replace(self, raises_on_miss=True)

    def first_kept(self, match: EventIds) -> int | None:
        found = match.get(self.pattern_name)
        kept = found[self.index] if found else None
        if self.raises_on_miss:
            start = min(events[0] for events in match.values())
            if kept is None:
                raise UnsupportedValueError(
                    f"could not skip to {self.pattern_name!r}: the match has events of {sorted(match)} only",
                    "make the pattern not optional, or leave out throw_exception_on_miss()",
                )
            if kept == start:
                raise UnsupportedValueError(
                    f"could not skip to {self.pattern_name!r}: its event is the first event of the match",
                    "skip to a later pattern, or leave out throw_exception_on_miss()",
                )
        return kept


def _name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"a skip strategy takes the name of a pattern, not {name!r}")
    return name
