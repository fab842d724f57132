"""Aggregates of sessions in event time.

Sessions are namespaces of their own, so each has its timers. Sums of doubles of sessions that are merged may be rounded
in another order than in `WindowOperator`.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.graph.aggregate_windows import AggregateWindows
from penstock.graph.window_operation import WINDOW_CONTENTS
from penstock.model.column_aggregates import state_type
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.key_slots import KeySlots
from penstock.model.row_groups import Indices, RowGroups
from penstock.model.session_windows import EventTimeSessionWindows
from penstock.model.time import MAX_WATERMARK, TimeDomain
from penstock.model.windows import TimeWindowSerializer
from penstock.runtime.operators.column_folds import Fields, fields_of, fold_rows, merged
from penstock.runtime.operators.session_merging import Address, RowSessions, SessionMerging
from penstock.runtime.operators.window_results import WindowResults, window_ends
from penstock.runtime.operators.window_timers import WindowTimers
from penstock.state.backend.keyed_backend import KeyedBackend


class SessionAggregates:
    """The sessions of all keys of a subtask."""

    def __init__(self, spec: AggregateWindows, backend: KeyedBackend) -> None:
        assert isinstance(spec.assigner, EventTimeSessionWindows)
        self._aggregates = spec.aggregates
        self._lateness_ms = spec.allowed_lateness_ms
        self._gap = spec.assigner.session_gap
        self._codec = backend.key_codec
        window = TimeWindowSerializer().namespace_type
        self._contents = backend.bulk_values(
            ValueStateDescriptor(WINDOW_CONTENTS, state_type(self._aggregates)), window
        )
        self._timers = WindowTimers(backend, window)
        self._sessions = SessionMerging(self._gap, backend)

    # ---- rows

    def add(
        self, rows: pa.RecordBatch, keys: KeySlots, times: Indices, watermark: int
    ) -> tuple[list[WindowResults], Indices]:
        """Add rows to sessions: the results of sessions that fired before, and the late rows.

        Rows of a key of which one comes after its own gap has passed are added one by one.
        """
        slow_keys = np.zeros(len(keys), np.bool_)
        slow_keys[keys.indices[window_ends(times, self._gap) - 1 <= watermark]] = True
        is_together = ~slow_keys[keys.indices]
        results: list[WindowResults] = []
        late: list[int] = []
        together = np.flatnonzero(is_together)
        if len(together):
            own = rows if is_together.all() else rows.take(pa.array(together))
            results += self._add(own, keys, self._sessions.add(keys, together, times[together]), watermark)
        for row in np.flatnonzero(~is_together).tolist():
            end = self._sessions.merged_end(keys.state_keys[keys.indices[row]], int(times[row]))
            if min(end - 1 + self._lateness_ms, MAX_WATERMARK) <= watermark:
                late.append(row)
                continue
            sessions = self._sessions.add(keys, np.array([row]), times[row : row + 1])
            results += self._add(rows.slice(row, 1), keys, sessions, watermark)
        return results, np.array(late, np.int64)

    def _add(self, rows: pa.RecordBatch, keys: KeySlots, sessions: RowSessions, watermark: int) -> list[WindowResults]:
        """Add rows to their sessions. Returns the results of those that have fired before, one for each row."""
        before = self._merged(sessions)
        folded = [
            fold_rows(aggregate, sessions.groups, rows, fields)
            for aggregate, fields in zip(self._aggregates, before, strict=True)
        ]
        after = [field for _, by_session in folded for field in by_session]
        kinds = list(self._contents.type.arrow)
        self._contents.put(sessions.addresses, pa.StructArray.from_arrays(after, fields=kinds))
        has_fired = sessions.ends - 1 <= watermark
        self._register(sessions, has_fired)
        if not has_fired.any():
            return []
        chosen = np.flatnonzero(has_fired[sessions.groups.indices])
        numbers = sessions.groups.indices[chosen]
        key_rows = pa.array(sessions.keys[numbers])
        picked = [[field.take(pa.array(chosen)) for field in by_row] for by_row, _ in folded]
        key_columns = [column.take(key_rows) for column in keys.columns]
        return [WindowResults(key_columns, sessions.starts[numbers], sessions.ends[numbers], picked)]

    def _merged(self, sessions: RowSessions) -> list[Fields]:
        """The accumulators of sessions before the batch: those of the sessions that they replace, merged."""
        numbers = [number for number, old in sessions.replaced.items() for _ in old]
        replaced = [address for old in sessions.replaced.values() for address in old]
        groups = RowGroups(np.array(numbers, np.int64), len(sessions.addresses))
        stored = fields_of(self._aggregates, self._contents.get(replaced))
        self._forget([a for number, a in zip(numbers, replaced, strict=True) if a != sessions.addresses[number]])
        return [merged(aggregate, groups, own) for aggregate, own in zip(self._aggregates, stored, strict=True)]

    def _forget(self, addresses: list[Address]) -> None:
        """Remove the contents and timers of sessions that are part of others now."""
        self._contents.clear(addresses)
        delete = self._timers.event.delete_at
        for address in addresses:
            for timestamp in self._times(address):
                delete(timestamp, address)

    def _register(self, sessions: RowSessions, has_fired: Any) -> None:
        """Register the timers of sessions that are new or have other bounds."""
        register = self._timers.event.register_at
        for number, address in enumerate(sessions.addresses):
            if address not in sessions.replaced.get(number, ()):
                for timestamp in self._times(address)[1:] if has_fired[number] else self._times(address):
                    register(timestamp, address)

    def _times(self, address: Address) -> list[int]:
        """When a session fires, and when it is removed if that is later and ever."""
        fires = address[1][1] - 1
        removed = fires + self._lateness_ms
        return [fires, removed] if fires < removed < MAX_WATERMARK else [fires]

    # ---- the end of an epoch

    def advance(self, watermark: int, now_ms: int) -> list[WindowResults]:
        """The results of the sessions that end, in the order of their ends."""
        fired: list[Address] = []
        over: list[Address] = []
        for timestamp, domain, address in self._timers.take_due(watermark, now_ms):
            if domain is TimeDomain.EVENT_TIME:
                fires = address[1][1] - 1
                if timestamp == fires:
                    fired.append(address)
                if timestamp == fires + self._lateness_ms:
                    over.append(address)
        results = [self._fire(fired)] if fired else []
        if over:
            self._contents.clear(over)
            self._sessions.remove(over)
        return results

    def _fire(self, addresses: list[Address]) -> WindowResults:
        bounds = np.array([window for _, window in addresses], np.int64)
        key_columns = self._codec.encode([key for key, _ in addresses])
        fields = fields_of(self._aggregates, self._contents.get(addresses))
        return WindowResults(key_columns, bounds[:, 0], bounds[:, 1], fields)

    def next_event_timer(self) -> int | None:
        """When a session is due."""
        return self._timers.event.next_timestamp()
