"""Pending timers in RocksDB (features G10): rows sorted by key group and time, only the next ones in memory."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from penstock.model.snapshot import StateTableInfo
from penstock.model.time import MAX_WATERMARK
from penstock.state.format.entry_bytes import pack_long
from penstock.state.format.table_rows import Rows
from penstock.state.rocksdb.key_bytes import RowBytes
from penstock.state.rocksdb.store import Family, WriteBatch

Head = tuple[int, Any, Any, int]
"""Time, order, state key (with namespaces: key and namespace), key group."""


class RocksTimerTable:
    """Timers as (timestamp, state key).

    The changes of the epoch are in `delta`. `_added` is a heap of its new timers, `_heads` a heap of the earliest ones
    of each key group in RocksDB; both may contain timers that `delta` marks as removed.
    """

    def __init__(
        self,
        info: StateTableInfo,
        family: Family,
        keys: RowBytes,
        key_groups: tuple[int, int],
        order: Callable[[Any], Any],
    ) -> None:
        self.family = family
        self.delta: dict[tuple[int, Any], bool] = {}
        """Whether a timer that the epoch changed is pending."""
        self._keys = keys
        self._key_groups = key_groups
        self._order = order
        self._added: list[tuple[int, Any, Any]] = []
        self._heads: list[Head] | None = None
        self._waiting: dict[int, int] = {}
        """How many heads each key group has."""

    def add(self, timestamp: int, key: Any) -> None:
        """Add a timer if it is not pending."""
        timer = (timestamp, key)
        if not self.delta.get(timer):
            self.delta[timer] = True
            heappush(self._added, (timestamp, self._order(key), key))

    def discard(self, timestamp: int, key: Any) -> None:
        """Remove a timer if it is pending."""
        self.delta[timestamp, key] = False

    def first(self) -> tuple[int, Any] | None:
        """The pending timer that fires first."""
        added, delta = self._added, self.delta
        while added and not delta[added[0][0], added[0][2]]:
            heappop(added)
        heads = self._pending_heads()
        if heads and (not added or heads[0][:2] <= added[0][:2]):
            return heads[0][0], heads[0][2]
        return (added[0][0], added[0][2]) if added else None

    def _pending_heads(self) -> list[Head]:
        """The heads, the first of which is pending."""
        if self._heads is None:
            self._heads, self._waiting = [], {}
            for group in range(self._key_groups[0], self._key_groups[1] + 1):
                self._push_earliest(self._heads, group, self._keys.group(group))
        heads = self._heads
        while heads and not self.delta.get((heads[0][0], heads[0][2]), True):
            timestamp, _, _, group = heappop(heads)
            self._waiting[group] -= 1
            if not self._waiting[group] and timestamp < MAX_WATERMARK:
                self._push_earliest(heads, group, self._keys.group(group) + pack_long(timestamp + 1))
        return heads

    def _push_earliest(self, heads: list[Head], group: int, start: bytes) -> None:
        """All timers of a key group that have the earliest time from `start` on."""
        earliest: int | None = None
        end = self._keys.group(group + 1) if group + 1 < 1 << (8 * self._keys.group_size) else None
        for row, _ in self.family.scan(start, end):
            timestamp, key = self._keys.split_timer(row)
            if earliest is not None and timestamp != earliest:
                return
            earliest = timestamp
            self._waiting[group] = self._waiting.get(group, 0) + 1
            heappush(heads, (timestamp, self._order(key), key, group))

    def pending(self) -> Iterator[tuple[int, Any]]:
        """All pending timers."""
        stored = {self._keys.split_timer(row) for row, _ in self.family.scan(b"", None)}
        stored.update(self.delta)
        return (timer for timer in stored if self.delta.get(timer, True))

    def commit(self, batch: WriteBatch) -> None:
        """Add the epoch's changes to the batch."""
        for (timestamp, key), is_pending in self.delta.items():
            row = self._keys.timer(timestamp, key)
            if is_pending:
                batch.put(self.family, row, b"")
            else:
                batch.delete(self.family, row)

    def forget(self) -> None:
        """Drop the epoch's changes, after they were written or rolled back. The heads are read again."""
        self.delta.clear()
        self._added.clear()
        self._heads = None

    def apply(self, rows: Rows, batch: WriteBatch) -> None:
        """Add restored timers to the batch."""
        for index, (key, timestamp) in enumerate(zip(rows.keys, rows.values, strict=True)):
            row = self._keys.timer(timestamp, key)
            if rows.deleted is not None and rows.deleted[index]:
                batch.delete(self.family, row)
            else:
                batch.put(self.family, row, b"")
        self._heads = None

    def entries(self, scan: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any, Any]]:
        """(state key, None, timestamp) of scanned rows."""
        for row, _ in scan:
            timestamp, key = self._keys.split_timer(row)
            yield key, None, timestamp
