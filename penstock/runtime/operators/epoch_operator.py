"""The operator of a KeyedEpochFunction: it collects an epoch's records by key and processes them at the epoch's end.

Records that wait here belong to the running epoch: if it is rolled back, the operator is discarded too.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from penstock.graph.job_graph import OperatorPlan
from penstock.model.epoch_functions import EpochTime
from penstock.model.key_groups import key_group_of
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import OperatorContext, OperatorTimers
from penstock.runtime.operators.record_operators import Operator, require_iterable
from penstock.state.backend.discarded_state import clear_all, open_discarded

KEYS_AT_ONCE = 1_000
"""How many keys the backend prepares at a time."""


class KeyedEpoch(Operator):
    """Calls the function once for each key and epoch, then for each timer that is due."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._service = OperatorTimers(self, context.backend())
        self.timers = self._service
        self._waiting: dict[Any, list[Any]] = {}
        """State key -> its records of the running epoch."""
        self._event_times: dict[Any, list[int | None]] = {}
        """The timestamps of these records, in jobs with event time."""
        self._is_started = False
        self._discarded: dict[str, Any] = {}
        """Name -> handle."""
        self._out: list[Any] = []
        self._timestamps: list[int | None] = []

    def open(self) -> None:
        self.function.timers = self._service
        super().open()
        backend = self.context.backend()
        opened = {name: open_discarded(backend, name) for name in sorted(self.function.discarded_states)}
        self._discarded = {name: handle for name, handle in opened.items() if handle is not None}

    def process(self, batch: Batch) -> Batch | None:
        waiting = self._waiting
        for record, key in zip(batch.records, batch.keys or (), strict=True):
            if key in waiting:
                waiting[key].append(record)
            else:
                waiting[key] = [record]
        if batch.timestamps is not None:
            for key, timestamp in zip(batch.keys or (), batch.timestamps, strict=True):
                self._event_times.setdefault(key, []).append(timestamp)
        return None

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        before = self.watermark
        super().advance(watermark, now_ms)
        self._out, self._timestamps = [], []
        processing_ms = self.context.subtask.now_ms  # in batch mode `now_ms` only says which timers are due
        # The last records come with the end of event time, but are not processed at that time.
        time = EpochTime(processing_ms, watermark if watermark < MAX_WATERMARK else before)
        if not self._is_started:
            self._start(time)
        self.timer_method = self.function.record_method
        self._process_records(time, before)
        self.timer_method = "on_timer()"
        self._fire(EpochTime(processing_ms, watermark), now_ms)
        return Batch(self._out, self._timestamps) if self._out else None

    def _start(self, time: EpochTime) -> None:
        """In the first epoch of this function object, discard states and load initial states that are missing."""
        backend, function = self.context.backend(), self.function
        for name, handle in self._discarded.items():
            clear_all(backend, name, handle)
        initial = list(function.initial_records())
        for key, record in initial:
            state_key = backend.key_codec.to_state_key(key)
            group = key_group_of(backend.key_codec.hash(state_key), backend.max_parallelism)
            if backend.key_groups[0] <= group <= backend.key_groups[1]:
                backend.keys.key = state_key
                function.load_initial(key, record, time)
        if initial:
            function.initial_loaded()
        self._is_started = True

    def _process_records(self, time: EpochTime, late_until: int) -> None:
        backend = self.context.backend()
        keys, to_user_key, call = backend.keys, backend.key_codec.to_user_key, self.function.process_records
        waiting, event_times = self._waiting, self._event_times
        self._waiting, self._event_times = {}, {}
        drops = self.function.time_domain is TimeDomain.EVENT_TIME and late_until > MIN_WATERMARK
        remaining = iter(list(waiting))
        while chunk := list(islice(remaining, KEYS_AT_ONCE)):
            backend.expect(chunk)
            for key in chunk:
                records, timestamps = waiting.pop(key), event_times.pop(key, None)
                if drops and timestamps is not None:
                    records, timestamps = _in_time(records, timestamps, late_until)
                if records:
                    keys.key = key
                    newest = max((t for t in timestamps or () if t is not None), default=None)
                    self._emit(call(to_user_key(key), records, time), newest)

    def _fire(self, time: EpochTime, now_ms: int) -> None:
        """Call the function for the timers that are due. Timers that it registers meanwhile wait for the next epoch."""
        backend = self.context.backend()
        keys, call = backend.keys, self.function.on_timer
        due = [(keys.key, timestamp) for timestamp, _ in self._service.fire(time.watermark, now_ms)]
        for state_key, timestamp in due:
            keys.key = state_key
            self._emit(call(backend.key_codec.to_user_key(state_key), timestamp, time), timestamp)

    def _emit(self, emitted: Iterable[Any] | None, timestamp: int | None) -> None:
        if emitted is not None:
            require_iterable(emitted, self.timer_method)
            self._out.extend(emitted)
            self._timestamps.extend([timestamp] * (len(self._out) - len(self._timestamps)))


def _in_time(records: list[Any], timestamps: list[int | None], limit: int) -> tuple[list[Any], list[int | None]]:
    """The records that are not late. As in Spark, one at the watermark is late; here watermarks are 1 ms lower."""
    kept = [(r, t) for r, t in zip(records, timestamps, strict=True) if t is None or t > limit + 1]
    return [r for r, _ in kept], [t for _, t in kept]
