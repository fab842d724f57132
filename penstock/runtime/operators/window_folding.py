"""Time windows with their default trigger: the records of an epoch are aggregated first and written to state once.

A window that has not fired yet needs nothing but its contents until the epoch ends. So the contents that an epoch
touches are kept here, by window and key, until `end_epoch`: contents whose window is over by then and that no earlier
epoch has written are evaluated at once, and all others are written to the state. They belong to the running epoch only:
when it is undone, a new operator is created (PROTOCOL R11).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from operator import itemgetter
from typing import Any

from penstock import failpoint
from penstock.graph.window_operation import WindowOperation
from penstock.model.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from penstock.model.functions import Function
from penstock.model.operator_state import CheckpointedFunction
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.model.window_assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    require_time,
)
from penstock.model.window_triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock.model.windows import TimeWindow
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.window_panes import WindowOutput, WindowPanes
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.value_guard import guard_of

_TRIGGERS: dict[type, type] = {
    TumblingEventTimeWindows: EventTimeTrigger,
    SlidingEventTimeWindows: EventTimeTrigger,
    TumblingProcessingTimeWindows: ProcessingTimeTrigger,
    SlidingProcessingTimeWindows: ProcessingTimeTrigger,
}

Rows = Iterable[tuple[Any, Any, int]]
"""Records with their keys and timestamps."""
Fired = tuple[int, tuple[Any, Any], Any]
"""The timestamp of a window's timer, key and window, and the window's contents or _STORED."""
Remainder = tuple[Any, Any, int, list[int], bool]
"""A record, its key, its timestamp, the starts of its windows that have fired, and whether it is in another window."""


def is_foldable(operation: WindowOperation) -> bool:
    """Return whether these are tumbling or sliding time windows that fire at their end.

    A function that combines records must not look at state: records are added without their key being the current one.
    """
    is_timed = _TRIGGERS.get(type(operation.assigner)) is type(operation.trigger)
    combine = operation.combine
    uses_state = combine is not None and (
        type(combine).open is not Function.open or isinstance(combine, CheckpointedFunction)
    )
    return is_timed and not uses_state


class WindowFolding:
    """The contents that the running epoch has added to."""

    def __init__(self, operation: WindowOperation, panes: WindowPanes, backend: KeyedBackend) -> None:
        assigner: Any = operation.assigner
        self.size, self._offset = assigner.size, assigner.offset
        self._slide = getattr(assigner, "slide", assigner.size)
        self._lateness_ms = operation.allowed_lateness_ms
        self._has_function = operation.function is not None
        self._panes = panes
        self._backend = backend
        self._contents = panes.contents
        self._guard = guard_of(operation.contents.value_type)
        self._touched: dict[int, TouchedKeys] = {}
        """Start of a window -> key -> contents: an accumulator, a reduced value, or the elements that were added."""
        descriptor = operation.contents
        self._result: Callable[[Any], Any] | None = None
        """The result of contents; None if they are a list, which is only complete in the state."""
        if isinstance(descriptor, AggregatingStateDescriptor):
            function = descriptor.get_agg_function()
            self._add, self._result = _aggregate(function.add), function.get_result
            self._load, self._create = self._contents.accumulator, function.create_accumulator
            self._write = self._contents.replace
        elif isinstance(descriptor, ReducingStateDescriptor):
            self._add, self._result = _reduce(descriptor.get_reduce_function().reduce), _same
            self._load, self._create = self._contents.get, _nothing
            self._write = self._contents.replace
        else:
            self._add, self._load, self._create, self._write = _collect, list, _nothing, self._contents.add_all

    # ---- records

    def add(self, records: Iterator[Any], batch: Batch, watermark: int, now_ms: int) -> Iterator[Remainder]:
        """Add records to their windows. Yields those that cannot be added, because a window has fired."""
        if self._panes.is_event_time:
            if batch.timestamps is None or None in batch.timestamps:
                require_time(None)
            timestamps: Iterable[Any] = batch.timestamps or ()
        else:
            timestamps, watermark = repeat(now_ms, len(batch)), MIN_WATERMARK
        rows = zip(records, batch.keys or (), timestamps, strict=False)
        return self._tumbling(rows, watermark) if self._slide == self.size else self._sliding(rows, watermark)

    def _tumbling(self, rows: Rows, watermark: int) -> Iterator[Remainder]:
        """Add consecutive records of one window together, with few statements per record."""
        size, offset, add = self.size, self._offset, self._add
        rows = iter(rows)
        pending = next(rows, None)
        while pending is not None:
            record, key, timestamp = pending
            start = timestamp - (timestamp - offset) % size
            if start + size - 1 <= watermark:
                yield record, key, timestamp, [start], False
                pending = next(rows, None)
            else:
                pending = add(self._window(start), pending, rows, start, start + size)

    def _sliding(self, rows: Rows, watermark: int) -> Iterator[Remainder]:
        size, slide, offset, add = self.size, self._slide, self._offset, self._add
        first_open = watermark - size + 2
        touched, copy_of = self._touched, self._panes.copy_of
        for row in rows:
            record, key, timestamp = row
            starts = range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide)
            fired = []
            copy = copy_of(record)
            for start in starts:
                if start >= first_open:
                    window = touched.get(start)
                    own = row if copy is None else (copy(record), key, timestamp)
                    add(self._window(start) if window is None else window, own, _NO_ROWS, start, start + size)
                else:
                    fired.append(start)
            if fired or not starts:
                yield record, key, timestamp, fired, len(fired) < len(starts)

    def _window(self, start: int) -> "TouchedKeys":
        window = self._touched.get(start)
        if window is None:
            namespace = self._namespace(start)
            window = self._touched[start] = TouchedKeys(self._backend, namespace, self._load, self._create)
        return window

    def _namespace(self, start: int) -> tuple[int, int]:
        return start, min(start + self.size, MAX_WATERMARK)

    # ---- the end of an epoch

    def end_epoch(self, watermark: int, now_ms: int, out: WindowOutput) -> None:
        """Write the epoch's contents to the state, and evaluate and remove the windows that are over."""
        is_event_time, timers = self._panes.is_event_time, self._panes.timers
        limit = watermark if is_event_time else now_ms
        fired = self._flush(limit)
        for domain, until in ((TimeDomain.PROCESSING_TIME, now_ms), (TimeDomain.EVENT_TIME, watermark)):
            due = timers.of(domain).take_due(until)  # none is registered while they fire
            if (domain is TimeDomain.EVENT_TIME) is is_event_time:
                fired += [(timestamp, address, _STORED) for timestamp, address in due]
        fired.sort(key=itemgetter(0, 1))
        self._fire(fired, out)

    def _flush(self, limit: int) -> list[Fired]:
        """Write contents and register the timers of their windows. Returns those that are over and not in the state."""
        write, enter = self._write, self._backend.enter
        timers = self._panes.timers.event if self._panes.is_event_time else self._panes.timers.processing
        over: list[Fired] = []
        for start, window in self._touched.items():
            namespace = _, end = self._namespace(start)
            cleanup = end - 1 + self._lateness_ms
            is_over = self._result is not None and end - 1 <= cleanup <= limit
            for key, contents in window.items():
                if is_over and key not in window.known:
                    over.append((end - 1, (key, namespace), contents))
                    continue
                enter((key, namespace))
                write(contents)
                timers.register(end - 1)
                if end <= cleanup < MAX_WATERMARK:
                    timers.register(cleanup)
        self._touched.clear()
        return over

    def _fire(self, fired: list[Fired], out: WindowOutput) -> None:
        """Evaluate windows whose time has come, and remove those that are over."""
        enter, panes, lateness_ms = self._backend.enter, self._panes, self._lateness_ms
        for timestamp, address, contents in fired:
            failpoint.before("C7")
            enter(address)
            if contents is not _STORED:
                self._evaluate(contents, timestamp, address[1], out)
                panes.clear_function(address[1])
            else:
                start, end = address[1]
                if timestamp == end - 1:
                    if self._has_function:
                        panes.evaluate(TimeWindow(start, end), address[1], timestamp, out)
                    else:
                        out.append(self._contents.get(), timestamp)
                if timestamp == end - 1 + lateness_ms:
                    panes.remove_untriggered(address[1])
            failpoint.after("C7")

    def _evaluate(self, contents: Any, timestamp: int, namespace: tuple[int, int], out: WindowOutput) -> None:
        """Emit the result of contents that are not in the state, from the form in which a state would return them."""
        if contents is None:
            return
        assert self._result is not None
        guard = self._guard
        stored = guard.stored(contents)
        result = self._result(stored if guard.load is None else guard.load(stored))
        if self._has_function:
            self._panes.emit(TimeWindow(*namespace), result, out)
        else:
            out.append(result, timestamp)


class TouchedKeys(dict[Any, Any]):
    """The contents of one window by key. A key that the epoch has not touched yet is read from the state."""

    __slots__ = ("_create", "_enter", "_load", "_namespace", "known")

    def __init__(
        self,
        backend: KeyedBackend,
        namespace: tuple[int, int],
        load: Callable[[], Any],
        create: Callable[[], Any],
    ) -> None:
        super().__init__()
        self.known: set[Any] = set()
        """Keys with contents in the state."""
        self._enter = backend.enter
        self._namespace = namespace
        self._load = load
        self._create = create

    def __missing__(self, key: Any) -> Any:
        self._enter((key, self._namespace))
        found = self._load()
        if found is None:
            found = self._create()
        else:
            self.known.add(key)
        self[key] = found
        return found


def _same(value: Any) -> Any:
    return value


def _nothing() -> None:
    return None


_STORED = object()
"""The contents are in the state."""
_NO_ROWS: Iterator[Any] = iter(())
Adding = Callable[[dict[Any, Any], tuple[Any, Any, int], Iterator[Any], int, int], tuple[Any, Any, int] | None]
"""Adds a row and the following ones of the same window; returns the first row of another window, or None."""


def _aggregate(call: Callable[[Any, Any], Any]) -> Adding:
    """Adds rows with the `add` of an AggregateFunction."""

    def add(window: dict[Any, Any], first: tuple[Any, Any, int], rows: Iterator[Any], start: int, end: int) -> Any:
        record, key, timestamp = first
        window[key] = call(record, window[key])
        for record, key, timestamp in rows:
            if start <= timestamp < end:
                window[key] = call(record, window[key])
            else:
                return record, key, timestamp
        return None

    return add


def _reduce(call: Callable[[Any, Any], Any]) -> Adding:
    """Adds rows with the `reduce` of a ReduceFunction."""

    def add(window: dict[Any, Any], first: tuple[Any, Any, int], rows: Iterator[Any], start: int, end: int) -> Any:
        record, key, timestamp = first
        current = window[key]
        window[key] = record if current is None else call(current, record)
        for record, key, timestamp in rows:
            if start <= timestamp < end:
                current = window[key]
                window[key] = record if current is None else call(current, record)
            else:
                return record, key, timestamp
        return None

    return add


def _collect(window: dict[Any, Any], first: tuple[Any, Any, int], rows: Iterator[Any], start: int, end: int) -> Any:
    """Collects rows for a list state."""
    record, key, timestamp = first
    window[key].append(record)
    for record, key, timestamp in rows:
        if start <= timestamp < end:
            window[key].append(record)
        else:
            return record, key, timestamp
    return None
