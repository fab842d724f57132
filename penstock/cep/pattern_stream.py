"""`PatternStream`: a pattern on a stream, and how its matches are turned into records."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.cep.pattern import Pattern
from penstock.cep.pattern_compiler import compile_pattern
from penstock.cep.pattern_function import PatternFunction, PatternSettings
from penstock.cep.pattern_process_function import (
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    SelectMatches,
    SelectMatchesAndTimeouts,
    callable_of,
)
from penstock.errors import ArgumentError, UsageError
from penstock.model.output_tag import OutputTag
from penstock.model.types import Types

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream


class PatternStream:
    """A stream that is searched for a pattern. Made by `CEP.pattern`; nothing runs before `env.execute()`."""

    def __init__(self, stream: "DataStream", pattern: Pattern, settings: PatternSettings) -> None:
        self._stream = stream
        self._pattern = pattern
        self._settings = settings

    def in_event_time(self) -> "PatternStream":
        """Order events by their timestamps, and measure time by them. This is the default."""
        return self._with(replace(self._settings, in_processing_time=False))

    def in_processing_time(self) -> "PatternStream":
        """Process events as they arrive, and measure time by the TaskManager's clock."""
        if self._settings.late_tag is not None:
            raise UsageError("no event is late in processing time; remove side_output_late_data() or use event time")
        return self._with(replace(self._settings, in_processing_time=True))

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> "PatternStream":
        """Send events that come after the watermark to a side output; without this they are dropped."""
        _check_tag(late_data_output_tag, "side_output_late_data")
        if self._settings.in_processing_time:
            raise UsageError("no event is late in processing time; remove side_output_late_data() or use event time")
        return self._with(replace(self._settings, late_tag=late_data_output_tag))

    def select(
        self,
        func: Callable[[dict[str, list[Any]]], Any] | PatternSelectFunction,
        output_type: Any = None,
        *,
        timeout_tag: OutputTag | None = None,
        timeout_fn: Callable[[dict[str, list[Any]], int], Any] | PatternTimeoutFunction | None = None,
    ) -> "DataStream":
        """One record for each match.

        With `timeout_tag` and `timeout_fn`, each partial match that times out also makes one record of a side output.
        `timeout_fn` gets the partial match and the time when it timed out.
        """
        functions, call = callable_of(func, PatternSelectFunction, "select", "select()")
        if timeout_tag is None and timeout_fn is None:
            return self.process(SelectMatches(functions, call, is_flat=False), output_type)
        more, timeout = callable_of(timeout_fn, PatternTimeoutFunction, "timeout", "timeout_fn=")
        function = SelectMatchesAndTimeouts([*functions, *more], call, is_flat=False)
        function.handle(_check_tag(timeout_tag, "timeout_tag="), timeout)
        return self.process(function, output_type)

    def flat_select(
        self,
        func: Callable[[dict[str, list[Any]]], Any] | PatternFlatSelectFunction,
        output_type: Any = None,
        *,
        timeout_tag: OutputTag | None = None,
        timeout_fn: Callable[[dict[str, list[Any]], int], Any] | PatternFlatTimeoutFunction | None = None,
    ) -> "DataStream":
        """The records that the function yields for each match; those of `timeout_fn` go to a side output."""
        functions, call = callable_of(func, PatternFlatSelectFunction, "flat_select", "flat_select()")
        if timeout_tag is None and timeout_fn is None:
            return self.process(SelectMatches(functions, call, is_flat=True), output_type)
        more, timeout = callable_of(timeout_fn, PatternFlatTimeoutFunction, "timeout", "timeout_fn=")
        function = SelectMatchesAndTimeouts([*functions, *more], call, is_flat=True)
        function.handle(_check_tag(timeout_tag, "timeout_tag="), timeout)
        return self.process(function, output_type)

    def process(self, pattern_process_function: PatternProcessFunction, output_type: Any = None) -> "DataStream":
        """The records that the function yields for each match."""
        function = pattern_function(self._pattern, pattern_process_function, self._settings)
        graph = self._stream.get_execution_environment()._graph
        if not self._settings.in_processing_time and not graph.has_event_time(self._stream._node.id):
            raise UsageError(
                f"patterns are matched in event time, but the records of {self._stream!r} have no timestamps; write "
                f".assign_timestamps_and_watermarks(WatermarkStrategy...) or from_dataframe(..., event_time=...) "
                f"before key_by(), or CEP.pattern(...).in_processing_time()"
            )
        if self._settings.is_keyed:
            return self._stream.process(function, output_type).name("CepOperator")  # type: ignore[arg-type]
        keyed = self._stream.key_by(_one_key, Types.INT())
        return keyed.process(function, output_type).name("GlobalCepOperator").force_non_parallel()

    def _with(self, settings: PatternSettings) -> "PatternStream":
        return PatternStream(self._stream, self._pattern, settings)


def pattern_function(pattern: Pattern, function: PatternProcessFunction, settings: PatternSettings) -> PatternFunction:
    """The function that finds the matches of each key. Raises an error for a pattern or function that cannot work."""
    if not isinstance(function, PatternProcessFunction):
        shown = f"the class {function.__name__}" if isinstance(function, type) else repr(function)
        raise ArgumentError(
            f"process() takes an instance of a subclass of PatternProcessFunction, not {shown}; for a function of the "
            f"match use select() or flat_select()"
        )
    return PatternFunction(compile_pattern(pattern), function, settings)


def _check_tag(tag: Any, caller: str) -> OutputTag:
    if not isinstance(tag, OutputTag):
        raise ArgumentError(f"{caller} takes an OutputTag, not {tag!r}; write OutputTag('name', type)")
    return tag


def _one_key(event: Any) -> int:
    return 0
