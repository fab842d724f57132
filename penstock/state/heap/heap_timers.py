"""Pending timers of one operator and time domain as a table."""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from penstock.model.time import MAX_WATERMARK
from penstock.state.format.table_rows import Rows
from penstock.state.heap.change_log import ChangeLog

_MIN_STALE = 64


class TimerTable:
    """Timers as (timestamp, state key): a dictionary holds the pending ones, a heap provides the order.

    The heap may contain timers that are no longer pending, or one twice; each is looked up in the dictionary before it
    is returned. The heap is rebuilt when most of it is stale, after a roll-back and after a restore.
    """

    __slots__ = ("_heap", "_order", "changes", "is_closed", "live", "undo")

    def __init__(self, order: Callable[[Any], Any]) -> None:
        self.live: dict[tuple[int, Any], None] = {}
        self.undo: dict[tuple[int, Any], bool] = {}
        """Whether a timer that the epoch changed was pending before."""
        self.changes = ChangeLog()
        self.is_closed = False
        """No timer is added: in batch mode, while the last timers of a key fire."""
        self._order = order
        self._heap: list[tuple[int, Any, Any]] = []

    def add(self, timestamp: int, key: Any) -> None:
        """Add a timer if it is not pending."""
        timer = (timestamp, key)
        if timer not in self.live and not self.is_closed:
            self.undo.setdefault(timer, False)
            self.live[timer] = None
            heappush(self._heap, (timestamp, self._order(key), key))

    def discard(self, timestamp: int, key: Any) -> None:
        """Remove a timer if it is pending."""
        timer = (timestamp, key)
        if timer in self.live:
            self.undo.setdefault(timer, True)
            del self.live[timer]
            if len(self._heap) > 2 * len(self.live) + _MIN_STALE:
                self._rebuild()

    def first(self, limit: int = MAX_WATERMARK) -> tuple[int, Any] | None:
        """The pending timer that fires first, if its time is not after `limit`."""
        heap, live = self._heap, self.live
        while heap:
            timestamp, _, key = heap[0]
            if (timestamp, key) in live:
                return (timestamp, key) if timestamp <= limit else None
            heappop(heap)
        return None

    def next_timestamp(self) -> int | None:
        """When the first pending timer fires."""
        timer = self.first()
        return None if timer is None else timer[0]

    def take_due(self, limit: int) -> list[tuple[int, Any]]:
        """Remove the timers up to and including `limit`; those timers, in order.

        A few are taken from the heap one by one, many by sorting them.
        """
        heap, live, setdefault = self._heap, self.live, self.undo.setdefault
        found: list[tuple[int, Any, Any]] = []
        few = len(heap) >> 6
        while heap and heap[0][0] <= limit:
            if len(found) > few:
                found += sorted(entry for entry in heap if entry[0] <= limit)
                heap[:] = [entry for entry in heap if entry[0] > limit]
                heapify(heap)
                break
            found.append(heappop(heap))
        due = []
        for timestamp, _, key in found:
            timer = (timestamp, key)
            if timer in live:
                del live[timer]
                setdefault(timer, True)
                due.append(timer)
        return due

    def pending(self) -> Iterable[tuple[int, Any]]:
        """All pending timers."""
        return self.live

    def _rebuild(self) -> None:
        order = self._order
        self._heap[:] = [(timestamp, order(key), key) for timestamp, key in self.live]
        heapify(self._heap)

    def drop(self) -> None:
        """Forget all timers; it cannot be undone."""
        self.live.clear()
        self.undo.clear()
        self._heap.clear()

    def changed(self) -> Iterable[Hashable]:
        """Timers that the epoch registered, deleted or fired."""
        return self.undo

    def roll_back(self) -> None:
        """Restore the timers that were pending."""
        for timer, was_pending in self.undo.items():
            if was_pending:
                self.live[timer] = None
            else:
                self.live.pop(timer, None)
        self.undo.clear()
        self._rebuild()

    def seal_all(self) -> Callable[[], Rows]:
        """All pending timers."""
        timers = list(self.live)
        return lambda: Rows([key for _, key in timers], None, [timestamp for timestamp, _ in timers], None)

    def seal_changes(self, changed: Iterable[Any]) -> Callable[[], Rows]:
        """These timers; those no longer pending as deletes."""
        timers = list(changed)
        deleted = [timer not in self.live for timer in timers]
        return lambda: Rows([key for _, key in timers], None, [timestamp for timestamp, _ in timers], deleted)

    def apply(self, rows: Rows) -> None:
        """Insert restored timers."""
        for index, timer in enumerate(zip(rows.values, rows.keys, strict=True)):
            if rows.deleted is not None and rows.deleted[index]:
                self.live.pop(timer, None)
            else:
                self.live[timer] = None
        self._rebuild()

    def entry_count(self) -> int:
        """How many timers are pending."""
        return len(self.live)

    def has_at_most(self, count: int) -> bool:
        """Whether no more than `count` timers are pending."""
        return len(self.live) <= count
