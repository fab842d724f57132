"""An AsyncFunction in a chain: requests may outlive their epoch, so they are part of the state.

Records whose results have not been emitted are list state, written at the end of every epoch. An epoch that is rolled
back, a recovery and a restore with another parallelism find these records there and request them again; the results of
the lost requests are never seen. At its end an epoch waits for its requests, but not for long (`wait_ms`). The others
belong to later epochs, which run by themselves while requests are in flight. The last epoch waits for all requests.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.clock import SystemClock
from penstock.errors import SupersededTaskError
from penstock.graph.job_graph import OperatorPlan
from penstock.model.async_functions import AsyncFunctionDescriptor
from penstock.model.descriptors import ListStateDescriptor
from penstock.model.state import ListState
from penstock.model.time import TimeDomain
from penstock.model.types import Types
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.record_operators import Operator
from penstock.runtime.operators.request_loop import Request, RequestLoop
from penstock.runtime.user_errors import record_facts, user_error
from penstock.state.backend.value_guard import guard_of

STATE_NAME = "async-requests"
WAIT_MS = "wait_ms"


class AsyncWait(Operator):
    """Calls an AsyncFunction for each record, with at most `capacity` records between their arrival and their results.

    Ordered: results leave in the order of their records. Unordered: as they come, but never across a watermark.
    """

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._call: AsyncFunctionDescriptor = self.function
        self.function = self._call.async_function
        self._is_ordered = self._call.output_mode is AsyncFunctionDescriptor.OutputMode.ORDERED
        self._wait_ms: int = plan.config[WAIT_MS]
        self._clock = SystemClock()
        element_type = Types.TUPLE([plan.input_type, Types.LONG(), Types.LONG()])
        self._descriptor = ListStateDescriptor(STATE_NAME, element_type)
        self._store = guard_of(element_type).stored
        self._in_flight: dict[int, Request] = {}
        """Requests that were started, by number, in the order of their records."""
        self._next = 0
        self._waiting: list[Request] = []
        """Records beyond the capacity, whose requests are not started yet."""
        self._ended: dict[int, Request] = {}
        """Requests of `_in_flight` that have ended, in the order in which they ended."""
        self._requests: RequestLoop | None = None
        """Made with the first request."""

    def open(self) -> None:
        self._state: ListState[Any] = self.context.operator_states.get_list_state(self._descriptor)
        restored = [Request(record, timestamp, mark, None) for record, timestamp, mark in self._state.get()]
        self._waiting = sorted(restored, key=lambda request: request.watermark)
        for request in self._waiting:
            request.stored = self._store((request.record, request.timestamp, request.watermark))
        super().open()

    def close(self) -> None:
        self.abandon()
        super().close()

    def abandon(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    # ---- records

    def process(self, batch: Batch) -> Batch | None:
        timestamps = batch.timestamps or [None] * len(batch)
        stored, mark = self._store, self.watermark
        arrived = [
            Request(record, timestamp, mark, stored((record, timestamp, mark)))
            for record, timestamp in zip(self._each(batch), timestamps, strict=True)
        ]
        out = _Results()
        self._waiting += arrived
        self._proceed(out)
        while self._waiting:  # as many as the capacity are in flight
            self._wait(None)
            self._proceed(out)
        return out.batch()

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        out = _Results()
        until_s = None if self.context.subtask.ends_time else self._clock.monotonic_s() + self._wait_ms / 1000
        self._proceed(out)
        while self._in_flight and self._wait(until_s):
            self._proceed(out)
        return out.batch() if out.records else None

    def snapshot(self) -> None:
        self._state.update([request.stored for request in self._unanswered()])

    @property
    def is_holding(self) -> bool:
        return bool(self._in_flight or self._waiting)

    @property
    def output_watermark(self) -> int:
        # Restored requests may come from subtasks that were ahead of this one, or of records that are on their way.
        lowest = min((request.watermark for request in self._unanswered()), default=self.watermark)
        return min(self.watermark, lowest)

    def next_timer(self, domain: TimeDomain) -> int | None:
        """When to look at requests in flight again, in an epoch without records if necessary."""
        if domain is TimeDomain.EVENT_TIME or not self.is_holding:
            return None
        return self.context.subtask.now_ms + max(1, self._wait_ms)

    def _unanswered(self) -> Iterator[Request]:
        """All requests whose results have not been emitted, in the order of their records."""
        yield from self._in_flight.values()
        yield from self._waiting

    # ---- requests

    def _proceed(self, out: "_Results") -> None:
        """Collect finished requests, emit the results that may leave, and start requests while there is room."""
        if self._requests is not None:
            self._take(self._requests.finished())
            self._emit(out)
        room = self._call.capacity - len(self._in_flight)
        if self._waiting and room > 0:
            self._start(self._waiting[:room])
            del self._waiting[:room]

    def _start(self, requests: Sequence[Request]) -> None:
        for request in requests:
            request.number = self._next
            self._in_flight[self._next] = request
            self._next += 1
        if self._requests is None:
            self._requests = RequestLoop(self._call, f"{self.plan.uid} {self.context.subtask.index}")
        self._requests.start(requests)

    def _wait(self, until_s: float | None) -> bool:
        assert self._requests is not None
        cancelled = self.context.subtask.is_cancelled
        if self._requests.wait(until_s, cancelled):
            return True
        if cancelled():
            raise SupersededTaskError("the run was cancelled: another task has taken its place")
        return False

    def _take(self, ended: Sequence[Request]) -> None:
        for request in ended:
            outcome = request.outcome
            assert outcome is not None
            if outcome.error is not None:
                where = f"in {outcome.where} of {self.context.get_task_name_with_subtasks()}"
                raise user_error(self.plan, where, outcome.error, record_facts(request.record)) from outcome.error
            self._ended[request.number] = request

    def _emit(self, out: "_Results") -> None:
        """Emit results. Ordered: from the front while requests have ended. Unordered: all before one watermark."""
        while self._ended:
            number, first = next(iter(self._in_flight.items()))
            if self._is_ordered:
                leaving = [number] if number in self._ended else []
            else:
                leaving = [n for n, request in self._ended.items() if request.watermark <= first.watermark]
            if not leaving:
                return
            for number in leaving:
                out.add(self._ended.pop(number))
                del self._in_flight[number]


class _Results:
    """Results to emit, with the timestamps of their records."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._timestamps: list[int | None] = []
        self._is_timed = False

    def add(self, request: Request) -> None:
        assert request.outcome is not None
        results = request.outcome.results
        self.records.extend(results)
        self._timestamps.extend([request.timestamp] * len(results))
        self._is_timed = self._is_timed or request.timestamp is not None

    def batch(self) -> Batch:
        return Batch(self.records, self._timestamps if self._is_timed else None)
