"""The interval join: pairs of records of two keyed streams with the same key and close timestamps.

Each record waits in keyed state, in the list of its timestamp, until the watermark has passed its last possible
partner. One timer per key and time removes the lists of both streams that are due then. A record that comes after the
watermark has passed its timestamp is late: its partners may be gone.
"""

from typing import Any

from penstock import failpoint
from penstock.errors import UnsupportedValueError
from penstock.graph.interval_bounds import IntervalBounds
from penstock.graph.job_graph import OperatorPlan
from penstock.model.descriptors import MapStateDescriptor
from penstock.model.join_functions import ProcessJoinFunction
from penstock.model.time import MAX_WATERMARK, TimeDomain
from penstock.model.types import Types
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.co_operators import TwoInputs
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.record_operators import require_iterable
from penstock.state.timers import Timers

LEFT_BUFFER, RIGHT_BUFFER = "LEFT_BUFFER", "RIGHT_BUFFER"
"""The names of the two states, as in Flink."""


JoinTimes = ProcessJoinFunction.Context


class PairContext(JoinTimes):
    """The timestamps of the current pair; one object per operator."""

    left = right = 0

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return max(self.left, self.right)


class IntervalJoinOperator(TwoInputs):
    """A ProcessJoinFunction on two keyed streams."""

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._bounds: IntervalBounds = plan.config["bounds"]
        self._timers = Timers(context.backend(), TimeDomain.EVENT_TIME)
        self._pair = PairContext()

    def open(self) -> None:
        table, bounds = self.context.backend().table, self._bounds
        self._left = table(MapStateDescriptor(LEFT_BUFFER, Types.LONG(), Types.LIST(bounds.left_type)))
        self._right = table(MapStateDescriptor(RIGHT_BUFFER, Types.LONG(), Types.LIST(bounds.right_type)))
        super().open()

    def process_input(self, number: int, batch: Batch) -> Batch | None:
        out, late = Batch([], []), Batch([], [])
        is_left = number == 1
        timestamps = batch.timestamps or [None] * len(batch)
        for record, timestamp in zip(self._each_under_its_key(batch), timestamps, strict=True):
            if timestamp is None:
                raise UnsupportedValueError(
                    "a record of an interval join has no timestamp; assign timestamps and watermarks to both streams"
                )
            if timestamp < self.watermark:
                _add(late, record, timestamp)
            else:
                self._join(record, timestamp, out, is_left=is_left)
        tag = self._bounds.left_late if is_left else self._bounds.right_late
        if tag is not None and late.records:
            out.side = {tag: late}
        return out

    def _join(self, record: Any, timestamp: int, out: Batch, *, is_left: bool) -> None:
        """Keep a record for later partners, and join it with the earlier ones."""
        bounds, pair = self._bounds, self._pair
        own, other = (self._left, self._right) if is_left else (self._right, self._left)
        own.put(timestamp, [*(own.get(timestamp) or ()), record])
        kept_until = timestamp + (bounds.left_kept_ms if is_left else bounds.right_kept_ms)
        self._timers.register(min(kept_until, MAX_WATERMARK))
        first, last = bounds.partners(timestamp, is_left=is_left)
        for found in sorted(time for time in other.keys() if first <= time <= last):
            pair.left, pair.right = (timestamp, found) if is_left else (found, timestamp)
            for partner in other.get(found) or ():
                left, right = (record, partner) if is_left else (partner, record)
                self._emit(self.function.process_element(left, right, pair), out)

    def _emit(self, emitted: Any, out: Batch) -> None:
        if emitted is None:
            return
        require_iterable(emitted, "process_element")
        for result in emitted:
            _add(out, result, self._pair.get_timestamp())

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        self._records = None
        bounds, keys = self._bounds, self.context.current_key()
        for timestamp, keys.key in self._timers.due(watermark):
            failpoint.before("C7")
            self._left.remove(timestamp - bounds.left_kept_ms)
            self._right.remove(timestamp - bounds.right_kept_ms)
            failpoint.after("C7")
        return None

    def next_timer(self, domain: TimeDomain) -> int | None:
        return self._timers.next_timestamp() if domain is TimeDomain.EVENT_TIME else None


def _add(batch: Batch, record: Any, timestamp: int) -> None:
    batch.records.append(record)
    assert batch.timestamps is not None
    batch.timestamps.append(timestamp)
