"""Conditions: which events a pattern accepts."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.errors import ArgumentError


class IterativeCondition(ABC):
    """A condition on an event that may look at the events which the partial match has accepted so far."""

    class Context(ABC):
        """The partial match that the event would continue, and the time."""

        @abstractmethod
        def get_events_for_pattern(self, name: str) -> list[Any]:
            """The events that the pattern of this name has accepted in this partial match, in order."""

        @abstractmethod
        def timestamp(self) -> int:
            """The event's timestamp in milliseconds; in processing time, the time when the operator received it."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

    @abstractmethod
    def filter(self, value: Any, ctx: "IterativeCondition.Context") -> bool:
        """Return whether the event is accepted."""


class SimpleCondition(IterativeCondition):
    """A condition on the event alone. It is called once per event, however many partial matches wait."""

    @abstractmethod
    def filter(self, value: Any) -> bool:  # type: ignore[override]
        """Return whether the event is accepted."""

    @staticmethod
    def of(function: Callable[[Any], bool]) -> "SimpleCondition":
        """Turn a function of the event into a condition."""
        return EventCondition(function)


class EventCondition(SimpleCondition):
    """A function of the event as a condition."""

    def __init__(self, function: Callable[[Any], bool]) -> None:
        vars(self)["filter"] = function

    def filter(self, value: Any) -> bool:  # type: ignore[override]
        """Replaced by the function."""
        raise NotImplementedError


class MatchCondition(IterativeCondition):
    """A function of the event and the context as a condition."""

    def __init__(self, function: Callable[[Any, IterativeCondition.Context], bool]) -> None:
        vars(self)["filter"] = function

    def filter(self, value: Any, ctx: IterativeCondition.Context) -> bool:
        """Replaced by the function."""
        raise NotImplementedError


class SubtypeCondition(SimpleCondition):
    """Accepts events of a class."""

    def __init__(self, subtype: type) -> None:
        self._subtype = subtype

    def filter(self, value: Any) -> bool:  # type: ignore[override]
        return isinstance(value, self._subtype)


def as_condition(given: Any, pattern: str) -> IterativeCondition:
    """Make a condition of what the user passed: a condition, or a function of the event and perhaps the context."""
    if isinstance(given, IterativeCondition):
        _check_async(given.filter, pattern)
        return given
    if isinstance(given, type) and issubclass(given, IterativeCondition):
        raise ArgumentError(f"pattern {pattern!r}: a condition is an object; write {given.__name__}()")
    if not callable(given):
        raise ArgumentError(f"pattern {pattern!r}: a condition is a function such as lambda event: ..., not {given!r}")
    _check_async(given, pattern)
    if _takes(given, 1):
        return EventCondition(given)
    if _takes(given, 2):
        return MatchCondition(given)
    raise ArgumentError(
        f"pattern {pattern!r}: the condition takes {inspect.signature(given)}; write lambda event: ... or "
        f"lambda event, ctx: ..."
    )


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True  # its signature cannot be read
    return True


def _check_async(function: Any, pattern: str) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ArgumentError(f"pattern {pattern!r}: a condition returns true or false; write def with return")
