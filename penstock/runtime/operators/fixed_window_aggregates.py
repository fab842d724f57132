"""Aggregates of tumbling and sliding windows.

All keys of a window are read, fired and removed together, so there are no timers: the windows that have contents say
what is due. That a window has fired is part of its contents, because late records may come after a restore.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock import failpoint
from penstock.codec import arrow_functions as pc
from penstock.graph.aggregate_windows import AggregateWindows
from penstock.graph.window_operation import WINDOW_CONTENTS
from penstock.model.column_aggregates import state_type
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Indices, RowGroups
from penstock.model.time import MAX_WATERMARK
from penstock.model.type_information import scalar
from penstock.model.windows import TimeWindowSerializer
from penstock.runtime.operators.column_folds import fields_of, fold_rows
from penstock.runtime.operators.window_results import WindowResults, later, window_ends
from penstock.state.backend.keyed_backend import KeyedBackend

FIRED = "_fired"
Window = tuple[int, int]
"""Start and end."""


class FixedWindowAggregates:
    """The windows of all keys of a subtask."""

    def __init__(self, spec: AggregateWindows, backend: KeyedBackend) -> None:
        self._aggregates = spec.aggregates
        self._lateness_ms = spec.allowed_lateness_ms
        assigner: Any = spec.assigner
        self._size, self._offset = assigner.size, assigner.offset
        self._slide = getattr(assigner, "slide", assigner.size)
        self._codec = backend.key_codec
        kept = state_type(self._aggregates, (FIRED, scalar("BOOLEAN")))
        descriptor = ValueStateDescriptor(WINDOW_CONTENTS, kept)
        self._contents = backend.namespace_values(descriptor, TimeWindowSerializer().namespace_type)
        self._waiting: set[Window] = set(self._contents.namespaces())
        """Windows that may have contents that have not fired."""
        self._fired: set[Window] = set()
        """Other windows, which are kept for late records."""

    # ---- rows

    def add(
        self, rows: pa.RecordBatch, keys: KeySlots, times: Indices, watermark: int
    ) -> tuple[list[WindowResults], Indices]:
        """Add rows to their windows: the results of windows that fired before, and the late rows."""
        numbers, starts = self._assigned(times)
        is_open = later(window_ends(starts, self._size) - 1, self._lateness_ms) > watermark
        numbers, starts = numbers[is_open], starts[is_open]
        left_out = np.ones(len(times), np.bool_)
        left_out[numbers] = False
        late = np.flatnonzero(left_out & (later(times, self._lateness_ms) <= watermark))
        results: list[WindowResults] = []
        emitting: list[Indices] = []
        for start in np.unique(starts)[::-1].tolist():
            chosen = numbers[starts == start]
            found = self._add(rows, keys, chosen, (start, min(start + self._size, MAX_WATERMARK)), watermark)
            if found is not None:
                results.append(found)
                emitting.append(chosen)
        if len(results) > 1:  # in the order of the rows, and of a row the latest window first
            order = np.argsort(np.concatenate(emitting), kind="stable")
            results = [WindowResults.joined(results).take(order)]
        return results, late

    def _assigned(self, times: Indices) -> tuple[Indices, Indices]:
        """The windows of all rows: for each of them the row, and the start of the window."""
        last = times - (times - self._offset) % self._slide
        if self._slide == self._size:
            return np.arange(len(times)), last
        starts = last[:, None] - np.arange(-(-self._size // self._slide)) * self._slide
        found = np.nonzero(starts > times[:, None] - self._size)
        return found[0], starts[found]

    def _add(
        self, rows: pa.RecordBatch, keys: KeySlots, chosen: Indices, window: Window, watermark: int
    ) -> WindowResults | None:
        """Add some of the rows to a window; its results after each of them if it has fired before."""
        groups: RowGroups = keys
        state_keys, numbers = keys.state_keys, None
        if len(chosen) < rows.num_rows:
            encoded = pa.array(keys.indices[chosen]).dictionary_encode()
            numbers = encoded.dictionary.to_numpy()
            groups = RowGroups(encoded.indices.to_numpy(), len(numbers))
            state_keys = [state_keys[number] for number in numbers.tolist()]
            rows = rows.take(pa.array(chosen))
        has_fired = window[1] - 1 <= watermark
        before = fields_of(self._aggregates, self._contents.get(window, state_keys))
        folded = [
            fold_rows(aggregate, groups, rows, fields)
            for aggregate, fields in zip(self._aggregates, before, strict=True)
        ]
        after = [field for _, by_key in folded for field in by_key]
        self._put(window, state_keys, after, has_fired=has_fired)
        if not has_fired:
            self._waiting.add(window)
            return None
        self._fired.add(window)
        key_rows = pa.array(keys.indices[chosen])
        key_columns = [column.take(key_rows) for column in keys.columns]
        return WindowResults.of_one(key_columns, window, [by_row for by_row, _ in folded])

    def _put(self, window: Window, state_keys: Any, fields: list[pa.Array], *, has_fired: bool) -> None:
        flags = pa.array(np.full(len(state_keys), has_fired, np.bool_))
        kinds = list(self._contents.type.arrow)
        self._contents.put(window, state_keys, pa.StructArray.from_arrays([*fields, flags], fields=kinds))

    # ---- the end of an epoch

    def advance(self, watermark: int, now_ms: int) -> list[WindowResults]:
        """The results of the windows that end, in the order of their ends."""
        results = []
        for window in sorted((w for w in self._waiting if w[1] - 1 <= watermark), key=_end):
            failpoint.before("C7")
            self._waiting.remove(window)
            results += self._fire(window)
            self._fired.add(window)
            failpoint.after("C7")
        for window in [w for w in self._fired if w not in self._waiting and self._cleanup(w) <= watermark]:
            self._fired.remove(window)
            self._contents.remove(window, self._contents.entries(window)[0])
        return results

    def _fire(self, window: Window) -> list[WindowResults]:
        state_keys, values = self._contents.entries(window)
        if not len(state_keys):
            return []
        fired = pc.struct_field(values, [len(self._contents.type.children) - 1])
        due = np.flatnonzero(~fired.to_numpy(zero_copy_only=False))
        if len(due) < len(state_keys):
            state_keys, values = [state_keys[index] for index in due.tolist()], values.take(pa.array(due))
        if not len(state_keys):
            return []
        fields = fields_of(self._aggregates, values)
        if self._lateness_ms:
            self._put(window, state_keys, [field for own in fields for field in own], has_fired=True)
        return [WindowResults.of_one(self._codec.encode(state_keys), window, fields)]

    def _cleanup(self, window: Window) -> int:
        return min(window[1] - 1 + self._lateness_ms, MAX_WATERMARK)

    def next_event_timer(self) -> int | None:
        """When a window is due."""
        due = [window[1] - 1 for window in self._waiting]
        due += [cleanup for cleanup in map(self._cleanup, self._fired - self._waiting) if cleanup < MAX_WATERMARK]
        return min(due, default=None)


def _end(window: Window) -> Window:
    return window[1], window[0]
