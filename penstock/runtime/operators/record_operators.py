"""The operators of a stage: a batch in, a batch out, the user's function called for each record.

An operator belongs to one subtask and one thread. Records go through a chain batch by batch, so the inner loops are
plain Python loops over lists. If the user's function raises, `position` says which record of the batch it was.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any, NoReturn

from penstock.errors import UnsupportedValueError
from penstock.graph.job_graph import OperatorPlan
from penstock.graph.pickling import loads
from penstock.model.readable_values import shortened
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import Context, OperatorContext, OperatorTimers


class Operator(ABC):
    """One operator in one subtask. `open` before the first batch, `close` at the end."""

    timers: OperatorTimers | None = None
    """The function's timer service, if it can register timers."""
    late_records = 0
    """Records of the running epoch that were dropped because they came too late."""
    timer_method = "on_timer()"
    """What runs when a timer fires, for messages."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        self.plan = plan
        self.context = context
        self.function = loads(plan.function)
        self.watermark = MIN_WATERMARK
        self._records: Iterator[Any] | None = None
        self._count = 0

    def open(self) -> None:
        """Let the function fetch its state handles."""
        self.function.open(self.context)

    def close(self) -> None:
        """Close the function."""
        self.function.close()

    @property
    def functions(self) -> list[Any]:
        """The program's functions that the operator calls."""
        return [self.function]

    @property
    def position(self) -> int:
        """Index in the batch of the record that is being processed."""
        return self._count - length_hint(self._records) - 1 if self._records is not None else -1

    def place_in(self, batch: Batch, before: int) -> str:
        """Which records are being processed, `before` of which the epoch had so many; for messages."""
        return f"record {before + self.position + 1}"

    def _each(self, batch: Batch) -> Iterator[Any]:
        """The batch's records; `position` knows which one is being processed."""
        self._records = iter(batch.records)
        self._count = len(batch.records)
        return self._records

    @abstractmethod
    def process(self, batch: Batch) -> Batch | None:
        """Process a batch; returns what the operator emits."""

    def process_from(self, position: int, batch: Batch) -> Batch | None:
        """Process a batch, in an operator that distinguishes its inputs."""
        return self.process(batch)

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        """Advance both clocks; returns what the timers that are due emit."""
        self.watermark = watermark
        return None

    def snapshot(self) -> None:
        """Write what the operator itself keeps besides its function, at the end of every epoch."""
        return

    def abandon(self) -> None:
        """The process is lost: end the operator's threads, without a call of the function."""
        return

    @property
    def is_holding(self) -> bool:
        """Whether the operator still holds records of ended epochs."""
        return False

    @property
    def output_watermark(self) -> int:
        """The watermark after the operator: it does not overtake records that are held."""
        return self.watermark

    def next_timer(self, domain: TimeDomain) -> int | None:
        """When the next timer of that domain is due."""
        return None if self.timers is None else self.timers.next_timestamp(domain)


class Map(Operator):
    """One record out for each record in."""

    def process(self, batch: Batch) -> Batch | None:
        call = self.function.map
        return Batch([call(record) for record in self._each(batch)], batch.timestamps)


class FlatMap(Operator):
    """Any number of records out for each record in."""

    def process(self, batch: Batch) -> Batch | None:
        call, out = self.function.flat_map, Output(batch.timestamps, "flat_map")
        for record in self._each(batch):
            out.extend(call(record))
        return out.batch()


class Filter(Operator):
    """The records for which the function returns true."""

    def process(self, batch: Batch) -> Batch | None:
        call = self.function.filter
        if batch.timestamps is None:
            return Batch([record for record in self._each(batch) if call(record)])
        kept = [(r, t) for r, t in zip(self._each(batch), batch.timestamps, strict=True) if call(r)]
        return Batch([r for r, _ in kept], [t for _, t in kept])


class Process(Operator):
    """A ProcessFunction: any number of records out; the function can read the record's timestamp."""

    def process(self, batch: Batch) -> Batch | None:
        out = Output(batch.timestamps)
        context = Context(self.context, OperatorTimers(self, None))
        call = self.function.process_element
        timestamps = batch.timestamps or [None] * len(batch)
        for record, timestamp in zip(self._each(batch), timestamps, strict=True):
            context.set_timestamp(timestamp)
            out.extend(call(record, context))
        return out.batch()


class Timestamps(Operator):
    """Assigns event time to records; the JobManager computes the watermark from the maxima (PROTOCOL R9)."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self.max_timestamp = MIN_WATERMARK
        self._assigner = self.function.timestamp_assigner

    def open(self) -> None:
        """Nothing to fetch: a strategy has no state."""

    def close(self) -> None:
        """Nothing to close."""

    def process(self, batch: Batch) -> Batch | None:
        if self._assigner is None:
            timestamps = batch.timestamps or [None] * len(batch)
        else:
            given = batch.timestamps or [None] * len(batch)
            extract = self._assigner.extract_timestamp
            pairs = zip(self._each(batch), given, strict=True)
            timestamps = [int(extract(r, MIN_WATERMARK if t is None else t)) for r, t in pairs]
        self.max_timestamp = max(
            self.max_timestamp, max((t for t in timestamps if t is not None), default=MIN_WATERMARK)
        )
        return Batch(batch.records, timestamps)


class KeyedMap(Operator):
    """`map` on a keyed stream."""

    def process(self, batch: Batch) -> Batch | None:
        keys, call, out = self.context.current_key(), self.function.map, []
        for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
            out.append(call(record))
        return Batch(out, batch.timestamps)


class KeyedFlatMap(Operator):
    """`flat_map` on a keyed stream."""

    def process(self, batch: Batch) -> Batch | None:
        keys, call = self.context.current_key(), self.function.flat_map
        out = Output(batch.timestamps, "flat_map")
        for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
            out.extend(call(record))
        return out.batch()


class KeyedFilter(Operator):
    """`filter` on a keyed stream."""

    def process(self, batch: Batch) -> Batch | None:
        keys, call, out = self.context.current_key(), self.function.filter, Output(batch.timestamps)
        for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
            out.extend((record,) if call(record) else None)
        return out.batch()


class Reduce(Operator):
    """Folds the records of a key into one value and emits it after each record."""

    def open(self) -> None:
        super().open()
        self._state = self.context.reduce_state(self.plan)

    def process(self, batch: Batch) -> Batch | None:
        keys, call, state, out = self.context.current_key(), self.function.reduce, self._state, []
        for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
            current = state.value()
            value = record if current is None else call(current, record)
            state.update(value)
            out.append(value)
        return Batch(out, batch.timestamps)


class FinalReduce(Operator):
    """A reduce in batch mode: its records are sorted by key, and it emits one value after the last record of each.

    The value of the current key is an attribute: all of the input is one epoch, and an epoch that is run again has a
    new operator.
    """

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._last: list[Any] = []
        """The current key and its value; empty before the first record and after a key has ended."""

    def process(self, batch: Batch) -> Batch | None:
        keys, call, out, last = self.context.current_key(), self.function.reduce, [], self._last
        for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
            if last and last[0] == keys.key:
                last[1] = call(last[1], record)
            else:
                out += last[1:]
                last[:] = (keys.key, record)
        return Batch(out, [MAX_WATERMARK] * len(out)) if out else None

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        out = self._last[1:]
        self._last.clear()
        return Batch(out, [MAX_WATERMARK]) if out else None


class KeyedProcess(Operator):
    """A KeyedProcessFunction: state and timers of the current key, in both time domains."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._service = OperatorTimers(self, context.backend())
        self.timers = self._service
        self._process_context = Context(context, self._service)

    def process(self, batch: Batch) -> Batch | None:
        if batch.timestamps is not None:
            return self._process_timed(batch)
        out: list[Any] = []
        extend, keys = out.extend, self.context.current_key()
        context, call = self._process_context, self.function.process_element
        context.set_timestamp(None)
        emitted: Any = None
        try:
            for record, keys.key in zip(self._each(batch), batch.keys or (), strict=True):
                emitted = call(record, context)
                if emitted is not None:
                    extend(emitted if emitted.__class__ not in SINGLE_RECORDS else refuse(emitted, "process_element"))
        except TypeError:
            require_iterable(emitted, "process_element")
            raise
        return Batch(out)

    def _process_timed(self, batch: Batch) -> Batch | None:
        out = Output(batch.timestamps)
        keys, context, call = self.context.current_key(), self._process_context, self.function.process_element
        columns = zip(self._each(batch), batch.keys or (), batch.timestamps or (), strict=True)
        for record, keys.key, timestamp in columns:
            context.set_timestamp(timestamp)
            out.extend(call(record, context))
        return out.batch()

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        self._records = None
        context, call = self._process_context, self.function.on_timer
        due = self._service.fire(watermark, now_ms)
        return fire_timers(due, lambda time, domain: call(time, context.for_timer(time, domain)))


def fire_timers(due: Iterable[tuple[int, TimeDomain]], call: Callable[[int, TimeDomain], Any]) -> Batch | None:
    """What a function emits for timers that are due, each record with the timestamp of its timer."""
    out: list[Any] = []
    timestamps: list[int | None] = []
    for timestamp, domain in due:
        emitted = call(timestamp, domain)
        if emitted is not None:
            require_iterable(emitted, "on_timer")
            out.extend(emitted)
            timestamps.extend([timestamp] * (len(out) - len(timestamps)))
    return Batch(out, timestamps) if out else None


class Output:
    """Collects what a function emits, each with the timestamp of the record that caused it."""

    def __init__(self, timestamps: list[int | None] | None, method: str = "process_element") -> None:
        self._method = method
        self._given = iter(timestamps) if timestamps is not None else None
        self._records: list[Any] = []
        self._timestamps: list[int | None] = []

    def extend(self, emitted: Any) -> None:
        before = len(self._records)
        if emitted is not None:
            if emitted.__class__ in SINGLE_RECORDS:
                refuse(emitted, self._method)
            try:
                self._records.extend(emitted)
            except TypeError:
                require_iterable(emitted, self._method)
                raise
        if self._given is not None:
            timestamp = next(self._given)
            self._timestamps.extend([timestamp] * (len(self._records) - before))

    def batch(self) -> Batch:
        return Batch(self._records, self._timestamps if self._given is not None else None)


SINGLE_RECORDS = frozenset({str, bytes, bytearray, dict})
"""Iterables that are one record: without this check their letters or keys would silently become records."""


def require_iterable(emitted: Any, method: str) -> None:
    """Raise if a function has returned one record where records are expected."""
    if emitted is None:
        return
    if emitted.__class__ in SINGLE_RECORDS:
        refuse(emitted, method)
    try:
        iter(emitted)
    except TypeError:
        refuse(emitted, method)


def refuse(emitted: Any, method: str) -> NoReturn:
    """Raise the error for a function that returned one record where records are expected."""
    raise UnsupportedValueError(
        f"{method}() returned {shortened(emitted, 80)}, of type {type(emitted).__name__}; it must yield records or "
        f"return an iterable of them: write `yield value` or `return [value]`"
    ) from None


KINDS: dict[str, type[Operator]] = {
    "map": Map,
    "flat_map": FlatMap,
    "filter": Filter,
    "process": Process,
    "timestamps": Timestamps,
    "keyed_map": KeyedMap,
    "keyed_flat_map": KeyedFlatMap,
    "keyed_filter": KeyedFilter,
    "keyed_process": KeyedProcess,
    "reduce": Reduce,
    "final_reduce": FinalReduce,
}
