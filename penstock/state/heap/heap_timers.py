"""Pending timers of one operator and time domain as a table."""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from penstock.model.time import MAX_WATERMARK
from penstock.state.format.table_rows import Rows
from penstock.state.heap.change_log import ChangeLog

_MIN_STALE = 64
_NO_KEYS: dict[Any, None] = {}
"""A look-up in it hashes the key, which is an error without a current key."""


class TimerTable:
    """Timers as (timestamp, state key), in a dictionary of keys for each timestamp.

    `_times` is a heap of the timestamps; it may contain some that have no timers any more, or one twice. Keys are
    sorted when their time has come: all at once by `take_due`, or in a heap of their own by `first`.
    """

    __slots__ = ("_count", "_keys", "_order", "_sorted", "_times", "changes", "is_closed", "undo")

    def __init__(self, order: Callable[[Any], Any]) -> None:
        self.undo: dict[tuple[int, Any], bool] = {}
        """Whether a timer that the epoch changed was pending before."""
        self.changes = ChangeLog()
        self.is_closed = False
        """No timer is added: in batch mode, while the last timers of a key fire."""
        self._order = order
        self._keys: dict[int, dict[Any, None]] = {}
        """Timestamp -> the state keys that have a pending timer; never empty."""
        self._count = 0
        self._times: list[int] = []
        self._sorted: dict[int, list[tuple[Any, Any]]] = {}
        """Timestamp -> a heap of (order, key), for timestamps that `first` has looked at."""

    def add(self, timestamp: int, key: Any) -> None:
        """Add a timer if it is not pending."""
        keys = self._keys.get(timestamp)
        if (keys is None or key not in keys) and not self.is_closed:
            self.undo.setdefault((timestamp, key), False)
            self._insert(timestamp, key)

    def discard(self, timestamp: int, key: Any) -> None:
        """Remove a timer if it is pending."""
        if key in self._keys.get(timestamp, _NO_KEYS):
            self.undo.setdefault((timestamp, key), True)
            self._remove(timestamp, key)

    def _insert(self, timestamp: int, key: Any) -> None:
        keys = self._keys.get(timestamp)
        if keys is None:
            keys = self._keys[timestamp] = {}
            heappush(self._times, timestamp)
        elif timestamp in self._sorted:
            heappush(self._sorted[timestamp], (self._order(key), key))
        keys[key] = None
        self._count += 1

    def _remove(self, timestamp: int, key: Any) -> None:
        keys = self._keys[timestamp]
        del keys[key]
        self._count -= 1
        if not keys:
            del self._keys[timestamp]
            self._sorted.pop(timestamp, None)
            if len(self._times) > 2 * len(self._keys) + _MIN_STALE:
                self._rebuild()

    def first(self, limit: int = MAX_WATERMARK) -> tuple[int, Any] | None:
        """The pending timer that fires first, if its time is not after `limit`."""
        timestamp = self.next_timestamp()
        if timestamp is None or timestamp > limit:
            return None
        keys, heap = self._keys[timestamp], self._sorted.get(timestamp)
        if heap is None:
            heap = self._sorted[timestamp] = [(self._order(key), key) for key in keys]
            heapify(heap)
        while heap[0][1] not in keys:
            heappop(heap)
        return timestamp, heap[0][1]

    def next_timestamp(self) -> int | None:
        """When the first pending timer fires."""
        times = self._times
        while times and times[0] not in self._keys:
            heappop(times)
        return times[0] if times else None

    def take_due(self, limit: int) -> list[tuple[int, Any]]:
        """Remove the timers up to and including `limit`; those timers, in order."""
        setdefault, order = self.undo.setdefault, self._order
        due: list[tuple[int, Any]] = []
        while (timestamp := self.next_timestamp()) is not None and timestamp <= limit:
            due += [(timestamp, key) for key in sorted(self._keys.pop(timestamp), key=order)]
            self._sorted.pop(timestamp, None)
        for timer in due:
            setdefault(timer, True)
        self._count -= len(due)
        return due

    def pending(self) -> Iterable[tuple[int, Any]]:
        """All pending timers."""
        return ((timestamp, key) for timestamp, keys in self._keys.items() for key in keys)

    def _rebuild(self) -> None:
        """Forget what is out of date."""
        self._times[:] = self._keys
        heapify(self._times)

    def drop(self) -> None:
        """Forget all timers; it cannot be undone."""
        for timers in (self._keys, self._sorted, self._times, self.undo):
            timers.clear()
        self._count = 0

    def begin(self) -> None:
        """Discard what is needed to undo the previous epoch."""
        self.undo.clear()

    def changed(self) -> Iterable[Hashable]:
        """Timers that the epoch registered, deleted or fired."""
        return self.undo

    def roll_back(self) -> None:
        """Restore the timers that were pending."""
        for (timestamp, key), was_pending in self.undo.items():
            if (key in self._keys.get(timestamp, _NO_KEYS)) is was_pending:
                continue
            if was_pending:
                self._insert(timestamp, key)
            else:
                self._remove(timestamp, key)
        self.undo.clear()

    def seal_all(self) -> Callable[[], Rows]:
        """All pending timers."""
        timers = list(self.pending())
        return lambda: Rows([key for _, key in timers], None, [timestamp for timestamp, _ in timers], None)

    def seal_changes(self, changed: Iterable[Any]) -> Callable[[], Rows]:
        """These timers; those no longer pending as deletes."""
        timers = list(changed)
        deleted = [key not in self._keys.get(timestamp, _NO_KEYS) for timestamp, key in timers]
        return lambda: Rows([key for _, key in timers], None, [timestamp for timestamp, _ in timers], deleted)

    def apply(self, rows: Rows) -> None:
        """Insert restored timers."""
        for index, (timestamp, key) in enumerate(zip(rows.values, rows.keys, strict=True)):
            is_deleted = rows.deleted is not None and rows.deleted[index]
            is_pending = key in self._keys.get(timestamp, _NO_KEYS)
            if is_deleted and is_pending:
                self._remove(timestamp, key)
            elif not is_deleted and not is_pending:
                self._insert(timestamp, key)

    def entry_count(self) -> int:
        """How many timers are pending."""
        return self._count

    def has_at_most(self, count: int) -> bool:
        """Whether no more than `count` timers are pending."""
        return self._count <= count
