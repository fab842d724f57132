"""The window operator: each record is added to its windows; windows fire and are removed as time passes.

`process` has three forms: `WindowFolding` for time windows with their default trigger, which is the fast one;
`_process_merging` for sessions and the like; `_process_plain` for everything else. The window's contents, timers and
trigger state are keyed state with the window as namespace.
"""

from collections.abc import Iterable
from typing import Any

from penstock.errors import UsageError
from penstock.graph.job_graph import OperatorPlan
from penstock.graph.window_operation import WindowOperation, serializer_of
from penstock.model.time import MIN_WATERMARK, TimeDomain
from penstock.model.windows import time_window
from penstock.runtime.operators.batch import Batch
from penstock.runtime.operators.function_context import OperatorContext
from penstock.runtime.operators.merging_windows import Merge, MergingWindows
from penstock.runtime.operators.record_operators import Operator
from penstock.runtime.operators.window_contexts import AssignerContext, WindowClock
from penstock.runtime.operators.window_folding import WindowFolding, is_foldable
from penstock.runtime.operators.window_panes import WindowOutput, WindowPanes
from penstock.runtime.operators.window_timers import WindowTimers
from penstock.state.backend.namespace_merging import merge_namespaces


class WindowOperator(Operator):
    """`window(...)` and `window_all(...)` with the function that evaluates the windows."""

    timer_method = "a window that fires"

    def __init__(self, plan: OperatorPlan, context: OperatorContext) -> None:
        super().__init__(plan, context)
        self._operation: WindowOperation = self.function
        self.function = self._operation.function
        self._serializer = serializer_of(self._operation.assigner)
        self._timers = WindowTimers(context.backend(), self._serializer.namespace_type)

    @property
    def functions(self) -> list[Any]:
        return self._operation.functions

    def open(self) -> None:
        operation, backend = self._operation, self.context.backend()
        for function in self.functions:
            function.open(self.context)
        self._panes = WindowPanes(self, operation, self._serializer, self._timers)
        self._merging = MergingWindows(operation, self._serializer, backend) if operation.merges else None
        self._folding = WindowFolding(operation, self._panes, backend) if is_foldable(operation) else None
        self._assigner_context = AssignerContext(WindowClock(self), self.context)

    def close(self) -> None:
        for function in self.functions:
            function.close()

    def process(self, batch: Batch) -> Batch | None:
        out = WindowOutput()
        if self._folding is not None:
            self._process_folding(batch, out)
        elif self._merging is not None:
            self._process_merging(batch, self._merging, out)
        else:
            self._process_plain(batch, out)
        return Batch(out.records, out.timestamps)

    def _process_folding(self, batch: Batch, out: WindowOutput) -> None:
        """Add records to what the epoch has collected. Those of windows that have fired are handled one by one."""
        folding, keys = self._folding, self.context.current_key()
        assert folding is not None
        now_ms = self.context.subtask.now_ms
        for record, keys.key, timestamp, fired, is_added in folding.add(
            self._each(batch), batch, self.watermark, now_ms
        ):
            windows = [time_window(start, folding.size) for start in fired]
            self._add_to_windows(record, timestamp, windows, is_added=is_added, out=out)

    def _process_plain(self, batch: Batch, out: WindowOutput) -> None:
        keys, assign, context = (
            self.context.current_key(),
            self._operation.assigner.assign_windows,
            self._assigner_context,
        )
        timestamps = batch.timestamps or [None] * len(batch)
        for record, keys.key, timestamp in zip(self._each(batch), batch.keys or (), timestamps, strict=True):
            time = MIN_WATERMARK if timestamp is None else timestamp
            self._add_to_windows(record, time, assign(record, time, context), out)

    def _add_to_windows(
        self, record: Any, timestamp: int, windows: Iterable[Any], out: WindowOutput, *, is_added: bool = False
    ) -> None:
        """Add a record to windows. `is_added`: it is in another window already."""
        panes, to_namespace, copy = self._panes, self._serializer.to_namespace, self._panes.copy_of(record)
        for window in windows:
            if not panes.is_event_time or panes.cleanup_time(window) > self.watermark:
                is_added = True
                own = record if copy is None else copy(record)
                panes.add(own, timestamp, window, to_namespace(window), out)
        if not is_added:
            self._skipped(record, timestamp, out)

    def _process_merging(self, batch: Batch, merging: MergingWindows, out: WindowOutput) -> None:
        keys, panes, serializer = self.context.current_key(), self._panes, self._serializer
        assign, context = self._operation.assigner.assign_windows, self._assigner_context
        timestamps = batch.timestamps or [None] * len(batch)
        for record, keys.key, timestamp in zip(self._each(batch), batch.keys or (), timestamps, strict=True):
            time, is_skipped = MIN_WATERMARK if timestamp is None else timestamp, True
            for assigned in assign(record, time, context):
                namespace, merges = merging.add(serializer.to_namespace(assigned))
                window = serializer.to_window(namespace)
                for merge in merges:
                    self._merge(merge)
                if panes.is_event_time and panes.cleanup_time(window) <= self.watermark:
                    merging.retire(namespace)
                    continue
                is_skipped = False
                panes.add(record, time, window, merging.contents_of(namespace), out)
            if is_skipped:
                self._skipped(record, time, out)

    def _merge(self, merge: Merge) -> None:
        """Merge contents, timers and trigger state of windows that became one."""
        panes, window = self._panes, self._serializer.to_window(merge.window)
        time = self.watermark if panes.is_event_time else self.context.subtask.now_ms
        if panes.cleanup_time(window) <= time:
            raise UsageError(
                f"{self._operation.assigner!r} merged windows into {window!r}, which ends before the current "
                f"{'watermark' if panes.is_event_time else 'processing time'}, {time}; a merged window must cover the "
                f"windows that it replaces"
            )
        panes.merge_trigger(window, merge.window, merge.replaced)
        merge_namespaces(self.context.backend(), panes.contents, merge.contents, merge.moved)

    def _skipped(self, record: Any, timestamp: int, out: WindowOutput) -> None:
        """Handle a record that is in no window: it is late, or it was assigned to none."""
        if not self._panes.is_event_time or timestamp + self._operation.allowed_lateness_ms > self.watermark:
            return
        tag = self._operation.late_tag
        if tag is None:
            self.late_records += 1
        else:
            out.extend([(tag, record)], timestamp)

    # ---- the end of an epoch

    def advance(self, watermark: int, now_ms: int) -> Batch | None:
        super().advance(watermark, now_ms)
        self._records = None
        out = WindowOutput()
        if self._folding is not None:
            self._folding.end_epoch(watermark, now_ms, out)
        else:
            self._fire(watermark, now_ms, out)
        return Batch(out.records, out.timestamps) if out.records else None

    def next_timer(self, domain: TimeDomain) -> int | None:
        return self._timers.next_timestamp(domain)

    def _fire(self, watermark: int, now_ms: int, out: WindowOutput) -> None:
        backend, merging, panes = self.context.backend(), self._merging, self._panes
        for timestamp, domain, address in self._timers.fire(watermark, now_ms):
            backend.enter(address)
            namespace = place = address[1]
            if merging is not None:
                place = merging.contents_of(namespace)
                if place is None:
                    continue  # the window was merged into another one, and its trigger left a timer
            removed = panes.on_timer(timestamp, domain, self._serializer.to_window(namespace), place, out)
            if removed and merging is not None:
                merging.retire(namespace)
