"""`CEP`: patterns on streams."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cep.pattern import Pattern
from penstock.cep.pattern_function import PatternSettings
from penstock.cep.pattern_process_function import PatternProcessFunction
from penstock.cep.pattern_stream import PatternStream, pattern_function
from penstock.errors import ArgumentError
from penstock.model.functions import KeyedProcessFunction
from penstock.model.types import resolve_type

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream


class CEP:
    """Applies patterns to streams."""

    @staticmethod
    def pattern(
        input: "DataStream", pattern: Pattern, comparator: Callable[[Any, Any], int] | Any = None
    ) -> PatternStream:
        """Search a stream for a pattern, separately for each key of a keyed stream.

        On a stream without a key, one subtask searches all events.

        Args:
            input: A stream, keyed or not.
            pattern: The last pattern of the sequence.
            comparator: Orders events of the same timestamp: a function of two events that returns a number below,
                equal to or above 0, or an object with such a method `compare`. Without one they stay in the order of
                their arrival.
        """
        from penstock.datastream.data_stream import DataStream
        from penstock.datastream.keyed_stream import KeyedStream

        if not isinstance(input, DataStream):
            raise ArgumentError(f"CEP.pattern() takes a stream and a pattern, not {input!r}")
        settings = PatternSettings(input.get_type(), _comparator(comparator), is_keyed=isinstance(input, KeyedStream))
        return PatternStream(input, _checked(pattern), settings)

    @staticmethod
    def function(
        pattern: Pattern,
        function: PatternProcessFunction,
        comparator: Callable[[Any, Any], int] | Any = None,
        *,
        event_type: Any = None,
        in_processing_time: bool = False,
    ) -> KeyedProcessFunction:
        """The function that `CEP.pattern(...).process(function)` runs, for tests with `penstock.testing.Harness`."""
        settings = PatternSettings(
            resolve_type(event_type), _comparator(comparator), in_processing_time=in_processing_time
        )
        return pattern_function(_checked(pattern), function, settings)


def _checked(pattern: Any) -> Pattern:
    if not isinstance(pattern, Pattern):
        raise ArgumentError(f"CEP.pattern() takes a Pattern, not {pattern!r}; write Pattern.begin('name').where(...)")
    return pattern


def _comparator(given: Any) -> Callable[[Any, Any], int] | None:
    compare = getattr(given, "compare", given)
    if compare is not None and not callable(compare):
        raise ArgumentError(f"a comparator is a function of two events, not {given!r}")
    return compare  # type: ignore[no-any-return]
