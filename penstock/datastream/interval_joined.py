"""The interval join of two keyed streams: `first.interval_join(second).between(lower, upper).process(function)`."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.datastream.connected_streams import ConnectedStreams
from penstock.errors import ArgumentError, UsageError
from penstock.graph.callables import describe_given
from penstock.graph.creation_site import creation_site, site_line
from penstock.graph.function_checks import check_function
from penstock.graph.interval_bounds import INTERVAL_JOIN, IntervalBounds
from penstock.graph.stream_graph import OperatorSpec
from penstock.model.join_functions import ProcessJoinFunction
from penstock.model.output_tag import OutputTag
from penstock.model.time import Duration, Time, TimeSpan, milliseconds
from penstock.model.types import record_type

if TYPE_CHECKING:
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.keyed_stream import KeyedStream


class IntervalJoin:
    """Two keyed streams whose records are joined if their timestamps are close; `between` says how close."""

    def __init__(self, stream_one: "KeyedStream", stream_two: "KeyedStream") -> None:
        from penstock.datastream.keyed_stream import KeyedStream

        if not isinstance(stream_two, KeyedStream):
            raise ArgumentError(
                f"interval_join() takes a keyed stream, not {stream_two!r}; write first.key_by(...).interval_join("
                f"second.key_by(...))"
            )
        ConnectedStreams(stream_one, stream_two)  # checks environment and key types
        graph = stream_one._environment._graph
        for which, stream in (("first", stream_one), ("second", stream_two)):
            if not graph.has_event_time(stream._node.id):
                raise UsageError(
                    f"interval_join() compares timestamps, but records of the {which} stream have none; write "
                    f".assign_timestamps_and_watermarks(WatermarkStrategy...) or from_dataframe(..., event_time=...)"
                )
        self._streams = stream_one, stream_two
        self._remember()

    def _remember(self) -> None:
        self._graph.unfinished[self] = (
            f"an interval join ({site_line(creation_site())}) does nothing yet; write "
            f".between(Time.seconds(-5), Time.seconds(5)).process(function)"
        )

    @property
    def _graph(self) -> Any:
        return self._streams[0]._environment._graph

    def in_event_time(self) -> "IntervalJoin":
        """Compare event times, the only option."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Not supported, as in Flink."""
        raise UsageError("Time-bounded stream joins are only supported in event time; use connect() with timers")

    def between(self, lower_bound: TimeSpan, upper_bound: TimeSpan) -> "IntervalJoined":
        """Join records with `left + lower_bound <= right <= left + upper_bound`; both bounds may be negative."""
        lower, upper = _signed_ms(lower_bound), _signed_ms(upper_bound)
        if lower > upper:
            raise UsageError(
                f"the lower bound of an interval join, {lower} ms, must not be greater than the upper one, {upper} ms; "
                f"swap them"
            )
        left, right = (stream.get_type() for stream in self._streams)
        return IntervalJoined(self, IntervalBounds(lower, upper, left, right))


class IntervalJoined:
    """An interval join with its bounds. The setters return the object itself."""

    def __init__(self, join: IntervalJoin, bounds: IntervalBounds) -> None:
        self._join = join
        self._bounds = bounds
        self._is_lower_exclusive = self._is_upper_exclusive = False

    def lower_bound_exclusive(self) -> "IntervalJoined":
        """Do not join records that are exactly the lower bound apart."""
        self._is_lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> "IntervalJoined":
        """Do not join records that are exactly the upper bound apart."""
        self._is_upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> "IntervalJoined":
        """Send late records of the first stream to a side output, instead of dropping them."""
        self._bounds = replace(self._bounds, left_late=_tag(output_tag).tag_id)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> "IntervalJoined":
        """Send late records of the second stream to a side output, instead of dropping them."""
        self._bounds = replace(self._bounds, right_late=_tag(output_tag).tag_id)
        return self

    def process(self, process_join_function: ProcessJoinFunction, output_type: Any = None) -> "DataStream":
        """The records that the function yields for each pair; their timestamp is the later one of the pair."""
        from penstock.datastream.data_stream import DataStream

        if not isinstance(process_join_function, ProcessJoinFunction):
            raise ArgumentError(
                f"process() of an interval join takes a ProcessJoinFunction, not "
                f"{describe_given(process_join_function)}; give an instance of a subclass"
            )
        check_function(process_join_function, INTERVAL_JOIN)
        lower_ms = self._bounds.lower_ms + self._is_lower_exclusive
        upper_ms = self._bounds.upper_ms - self._is_upper_exclusive
        if lower_ms > upper_ms:
            raise UsageError("the exclusive bounds of an interval join leave no time between them; widen between(...)")
        first, second = self._join._streams
        bounds = replace(self._bounds, lower_ms=lower_ms, upper_ms=upper_ms)
        spec = OperatorSpec(INTERVAL_JOIN, process_join_function, {"bounds": bounds})
        inputs = [first._node.id, second._node.id]
        node = self._join._graph.add("operator", "Interval Join", inputs, spec, record_type(output_type))
        self._join._graph.unfinished.pop(self._join, None)
        return DataStream(first._environment, node)


def _tag(output_tag: OutputTag) -> OutputTag:
    if not isinstance(output_tag, OutputTag):
        raise ArgumentError(f"late data goes to an OutputTag, such as OutputTag('late'), not {output_tag!r}")
    return output_tag


def _signed_ms(span: TimeSpan) -> int:
    if isinstance(span, Duration | Time):
        return span.to_milliseconds()
    if isinstance(span, timedelta):
        return span // timedelta(milliseconds=1)
    if type(span) is int:
        return span
    if isinstance(span, str) and span.strip().startswith("-"):
        return -milliseconds(span.strip()[1:])
    return milliseconds(span)
