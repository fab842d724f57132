"""The operator of a pattern: a function on a keyed stream that keeps partial matches in its state.

In event time an event waits in the state until the watermark has reached its timestamp; then a timer processes all
events of that timestamp in order. In processing time it is processed at once or, with a comparator, by a timer at the
end of the epoch. Timers also time out partial matches. State is written before a user's function sees a match.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from penstock.cep.match_plan import MatchPlan
from penstock.cep.matcher import Match, Matcher, TimedOut
from penstock.cep.partial_matches import MatchStates, PartialMatches
from penstock.cep.pattern_process_function import PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.errors import UnsupportedValueError
from penstock.model.descriptors import MapStateDescriptor
from penstock.model.functions import KeyedProcessFunction, RuntimeContext
from penstock.model.output_tag import OutputTag
from penstock.model.time import MAX_WATERMARK
from penstock.model.type_information import TypeInformation
from penstock.model.types import TAGGED, Types


@dataclass(frozen=True)
class PatternSettings:
    """How a pattern is applied to a stream."""

    event_type: TypeInformation = TAGGED
    comparator: Callable[[Any, Any], int] | None = None
    """Orders events of the same timestamp; None keeps the order of arrival."""
    in_processing_time: bool = False
    late_tag: OutputTag | None = None
    is_keyed: bool = True


class PatternFunction(KeyedProcessFunction):
    """Calls a PatternProcessFunction with the matches of each key."""

    timers_end = True
    """For batch mode: a timer that processes events registers deadlines; the timers of these register no more."""

    def __init__(self, plan: MatchPlan, function: PatternProcessFunction, settings: PatternSettings) -> None:
        self._plan = plan
        self._function = function
        self._settings = settings

    @property
    def inner_functions(self) -> list[PatternProcessFunction]:
        """The program's function, which may have operator state."""
        return [self._function]

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state handles."""
        comparator = self._settings.comparator
        self._order = None if comparator is None else cmp_to_key(comparator)
        self._states = MatchStates(runtime_context, self._settings.event_type)
        place = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._queue = runtime_context.get_map_state(MapStateDescriptor("cep-queue", place, self._settings.event_type))
        self._queued = runtime_context.get_map_state(MapStateDescriptor("cep-queued", Types.LONG(), Types.LONG()))
        self._context = ProcessContext(self._settings)
        self._matcher = Matcher(self._plan, self._context.current_processing_time)
        self._function.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        self._function.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        timers = ctx.timer_service()
        if self._settings.in_processing_time:
            now = timers.current_processing_time()
            if self._order is None:
                return self._run(now, [value], ctx)
            self._enqueue(value, now, ctx)
            return None
        timestamp = ctx.timestamp()
        if timestamp is None:
            raise UnsupportedValueError(
                "an event has no timestamp, but patterns are matched in event time",
                "call assign_timestamps_and_watermarks(...) first, or in_processing_time() on the PatternStream",
            )
        if timestamp > timers.current_watermark():
            self._enqueue(value, timestamp, ctx)
        elif self._settings.late_tag is not None:
            return [(self._settings.late_tag, value)]
        return None

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        return self._run(timestamp, self._dequeue(timestamp), ctx)

    def _run(self, now: int, events: list[Any], ctx: KeyedProcessFunction.Context) -> list[Any]:
        """Advance time for the current key, then process events. Returns what the user's function yields."""
        self._context.enter(ctx)
        matches = PartialMatches(self._states)
        found, timed_out = self._matcher.advance(matches, now)
        for event in events:
            found.extend(self._matcher.process(matches, event, now))
        self._register_deadlines(matches, ctx)
        matches.write_back()
        return [*self._timed_out(timed_out), *self._matched(found, now)]

    def _enqueue(self, event: Any, timestamp: int, ctx: KeyedProcessFunction.Context) -> None:
        count = self._queued.get(timestamp) or 0
        if not count:
            self._register(timestamp, ctx)
        self._queue.put((timestamp, count), event)
        self._queued.put(timestamp, count + 1)

    def _dequeue(self, timestamp: int) -> list[Any]:
        count = self._queued.get(timestamp) or 0
        events = []
        for place in [(timestamp, index) for index in range(count)]:
            events.append(self._queue.get(place))
            self._queue.remove(place)
        if count:
            self._queued.remove(timestamp)
        return events if self._order is None else sorted(events, key=self._order)

    def _register_deadlines(self, matches: PartialMatches, ctx: KeyedProcessFunction.Context) -> None:
        """Register timers for partial matches that are new or have fewer open choices than before."""
        deadlines = {self._matcher.deadline(tip) for tip in matches.changed_tips()}
        for deadline in deadlines:
            if deadline is not None and deadline <= MAX_WATERMARK:
                self._register(deadline, ctx)

    def _register(self, timestamp: int, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        if self._settings.in_processing_time:
            timers.register_processing_time_timer(timestamp)
        else:
            timers.register_event_time_timer(timestamp)

    def _matched(self, matches: Iterable[Match], timestamp: int) -> Iterator[Any]:
        for match in matches:
            self._context.time = timestamp
            yield from self._function.process_match(match, self._context) or ()

    def _timed_out(self, partial_matches: Iterable[TimedOut]) -> Iterator[Any]:
        handler = self._function
        if not isinstance(handler, TimedOutPartialMatchHandler):
            return
        for partial in partial_matches:
            self._context.time = partial.timestamp
            for record in handler.process_timed_out_match(partial.match, self._context) or ():
                if not (type(record) is tuple and len(record) == 2 and isinstance(record[0], OutputTag)):
                    raise UnsupportedValueError(
                        f"process_timed_out_match() yielded {record!r}, which is not for a side output",
                        "yield (output_tag, value)",
                    )
                yield record


class ProcessContext(PatternProcessFunction.Context):
    """The context that the user's function gets."""

    def __init__(self, settings: PatternSettings) -> None:
        self._settings = settings
        self.time = 0

    def enter(self, ctx: KeyedProcessFunction.Context) -> None:
        """Answer for this event or timer from now on."""
        self._ctx = ctx

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self._ctx.timer_service().current_processing_time()

    def get_current_key(self) -> Any:
        return self._ctx.get_current_key() if self._settings.is_keyed else None
