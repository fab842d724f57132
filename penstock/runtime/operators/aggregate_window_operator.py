"""The operator that aggregates columns by windows in event time, all rows of a batch at once.

It emits what `WindowOperator` emits with an AggregateFunction and the default trigger: a row when the watermark passes
the end of a window, and one for each record that comes later but is allowed.
"""

from typing import Any, Protocol

import pyarrow as pa

from penstock.codec.key_dictionary import key_slots
from penstock.graph.aggregate_windows import AggregateWindows
from penstock.graph.job_graph import OperatorPlan
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Indices
from penstock.model.session_windows import EventTimeSessionWindows
from penstock.model.time import TimeDomain
from penstock.model.window_assigners import require_time
from penstock.runtime.operators.batch import Batch, ColumnRows
from penstock.runtime.operators.batch_operator import ColumnReader
from penstock.runtime.operators.column_folds import results
from penstock.runtime.operators.fixed_window_aggregates import FixedWindowAggregates
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.record_operators import Operator
from penstock.runtime.operators.session_aggregates import SessionAggregates
from penstock.runtime.operators.window_results import WindowResults


class WindowAggregates(Protocol):
    """The windows of one kind, with their state."""

    def add(
        self, rows: pa.RecordBatch, keys: KeySlots, times: Indices, watermark: int
    ) -> tuple[list[WindowResults], Indices]: ...
    def advance(self, watermark: int, now_ms: int) -> list[WindowResults]: ...
    def next_event_timer(self) -> int | None: ...


class AggregateWindowOperator(Operator):
    """`keyed.window(...).agg(...)`."""

    timer_method = "a window that fires"

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._spec: AggregateWindows = self.function
        self._reader = ColumnReader(plan, context.backend().key_codec)

    @property
    def functions(self) -> list[Any]:
        return []

    def open(self) -> None:
        """Get the state; there is no function of the program."""
        is_session = isinstance(self._spec.assigner, EventTimeSessionWindows)
        kind: Any = SessionAggregates if is_session else FixedWindowAggregates
        self._windows: WindowAggregates = kind(self._spec, self.context.backend())

    def close(self) -> None:
        """Nothing to close."""

    def place_in(self, batch: Batch, before: int) -> str:
        return f"records {before + 1} to {before + len(batch)}"

    def process(self, batch: Batch) -> Batch | None:
        if not len(batch):
            return None
        columns = self._reader.columns_of(batch)
        times = event_times(columns)
        assert columns.keys is not None
        keys = key_slots(self._reader.key_codec, columns.keys)
        found, late = self._windows.add(columns.rows, keys, times, self.watermark)
        side = self._late_output(columns, late) if len(late) else None
        if not found and side is None:
            return None
        emitted = self._emitted(found) if found else Batch([])
        emitted.side = side
        return emitted

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        found = self._windows.advance(watermark, now_ms)
        return self._emitted(found) if found else None

    def next_timer(self, domain: TimeDomain) -> int | None:
        return self._windows.next_event_timer() if domain is TimeDomain.EVENT_TIME else None

    def _emitted(self, found: list[WindowResults]) -> Batch:
        """The results as rows, with the last timestamp of their window."""
        whole, output_type = WindowResults.joined(found), self.plan.output_type
        aggregated = zip(self._spec.aggregates, whole.fields, strict=True)
        columns = [*whole.keys, *whole.bounds(), *(results(aggregate, own) for aggregate, own in aggregated)]
        rows = pa.RecordBatch.from_arrays(columns, list(output_type.names or ()))
        return Batch.of_columns(ColumnRows(rows, output_type, pa.array(whole.ends - 1)))

    def _late_output(self, columns: ColumnRows, late: Indices) -> dict[str, Batch] | None:
        """The late records for the side output, if there is one."""
        tag = self._spec.late_tag
        if tag is None:
            self.late_records += len(late)
            return None
        assert columns.timestamps is not None
        chosen = pa.array(late)
        timestamps = columns.timestamps.take(chosen)
        rows = ColumnRows(columns.rows.take(chosen), columns.record_type)
        return {tag.tag_id: Batch(rows.records(), timestamps.to_pylist())}


def event_times(columns: ColumnRows) -> Indices:
    """The event time of each row. Raises if a row has none."""
    if columns.timestamps is None or columns.timestamps.null_count:
        require_time(None)
    assert columns.timestamps is not None
    times: Indices = columns.timestamps.to_numpy()
    return times
