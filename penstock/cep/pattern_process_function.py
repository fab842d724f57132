"""Functions that are called with matches."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.cep.matcher import Match
from penstock.errors import ArgumentError
from penstock.model.functions import Function
from penstock.model.output_tag import OutputTag


class PatternProcessFunction(Function):
    """Turns each match into any number of records."""

    class Context(ABC):
        """The time and the key of a match."""

        @abstractmethod
        def timestamp(self) -> int:
            """The timestamp of the last event of the match, or when the partial match timed out, in milliseconds."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time, which is constant within an epoch."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the events; None on a stream without a key."""

    @abstractmethod
    def process_match(self, match: Match, ctx: "PatternProcessFunction.Context") -> Any:
        """The results for a match: a dict of the accepted events by the name of their pattern.

        Return an iterable or a generator, or None for no records. `(output_tag, value)` goes to a side output.
        """


class TimedOutPartialMatchHandler(ABC):
    """A second base class for a PatternProcessFunction that also handles partial matches that timed out."""

    @abstractmethod
    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        """The results for a partial match that timed out. They must be for side outputs: `(output_tag, value)`."""


class PatternSelectFunction(Function):
    """Turns each match into one record."""

    @abstractmethod
    def select(self, pattern: Match) -> Any:
        """The result for a match."""


class PatternFlatSelectFunction(Function):
    """Turns each match into any number of records."""

    @abstractmethod
    def flat_select(self, pattern: Match) -> Any:
        """The results for a match: an iterable or a generator, or None for no records."""


class PatternTimeoutFunction(Function):
    """Turns each partial match that timed out into one record of a side output."""

    @abstractmethod
    def timeout(self, pattern: Match, timeout_timestamp: int) -> Any:
        """The result for a partial match."""


class PatternFlatTimeoutFunction(Function):
    """Turns each partial match that timed out into any number of records of a side output."""

    @abstractmethod
    def timeout(self, pattern: Match, timeout_timestamp: int) -> Any:
        """The results for a partial match: an iterable or a generator, or None for no records."""


class SelectMatches(PatternProcessFunction):
    """`select` and `flat_select` as a PatternProcessFunction."""

    def __init__(self, functions: list[Function], select: Callable[[Match], Any], *, is_flat: bool) -> None:
        self._functions = functions
        self._select = select
        self._is_flat = is_flat

    @property
    def inner_functions(self) -> list[Function]:
        """The program's functions, which may have operator state."""
        return self._functions

    def open(self, runtime_context: Any) -> None:
        """Open the user's functions."""
        for function in self._functions:
            function.open(runtime_context)

    def close(self) -> None:
        """Close the user's functions."""
        for function in self._functions:
            function.close()

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        result = self._select(match)
        return result if self._is_flat else (result,)


class SelectMatchesAndTimeouts(SelectMatches, TimedOutPartialMatchHandler):
    """`select` and `flat_select` with a side output for partial matches that timed out."""

    def handle(self, tag: OutputTag, timeout: Callable[[Match, int], Any]) -> None:
        """Set where the results of a function go."""
        self._tag = tag
        self._timeout = timeout

    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Any:
        result = self._timeout(match, ctx.timestamp())
        results = result if self._is_flat else (result,)
        return [] if results is None else [(self._tag, value) for value in results]


def callable_of(
    given: Any, base: type[Function], method: str, caller: str
) -> tuple[list[Function], Callable[..., Any]]:
    """The method of a function object, together with the object to open; or the plain callable that was passed."""
    if isinstance(given, base):
        return [given], getattr(given, method)
    is_function_class = isinstance(given, type) and issubclass(given, Function)
    if callable(given) and not is_function_class and not isinstance(given, Function):
        return [], given
    shown = f"the class {given.__name__}; write {given.__name__}()" if isinstance(given, type) else repr(given)
    raise ArgumentError(f"{caller} takes a function of the match or a {base.__name__}, not {shown}")
