"""Pending timers in RocksDB (features G10): rows sorted by key group and time; those that are due are read.

Of each key group the time of its first timer is known. It is looked up again when an epoch has removed timers of the
group, so an epoch without changes reads nothing.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from penstock.model.snapshot import StateTableInfo
from penstock.model.time import MAX_WATERMARK
from penstock.state.format.entry_bytes import pack_long, unpack_long
from penstock.state.format.table_rows import Rows
from penstock.state.rocksdb.key_bytes import LONG_BYTES, RowBytes
from penstock.state.rocksdb.store import Family, WriteBatch

_MIN_STALE = 64

Head = tuple[int, Any, Any, int]
"""Time, order, state key (with namespaces: key and namespace), key group."""


class RocksTimerTable:
    """Timers as (timestamp, state key).

    The changes of the epoch are in `delta`. `_added` is a heap of its new timers, `_heads` a heap of those that were
    read from RocksDB because their time has come; both may contain timers that `delta` marks as removed.
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
        self._removed: set[int] = set()
        """The times of timers that the epoch has removed."""
        self._heads: list[Head] = []
        self._waiting: dict[int, int] = {}
        """How many heads each key group has, of those that have any."""
        self._times: dict[int, int] = {}
        """Key group -> the time of its first timer that was not read."""
        self._unread: list[tuple[int, int]] = []
        """A heap of the same, with some that are out of date."""
        self._unknown = set(range(key_groups[0], key_groups[1] + 1))
        """Key groups whose first time has to be looked up."""
        self._written: dict[int, int | None] = {}
        """Key group -> the earliest timer that was added to it by the commit; None if any was removed."""

    def add(self, timestamp: int, key: Any) -> None:
        """Add a timer if it is not pending."""
        timer = (timestamp, key)
        if not self.delta.get(timer):
            self.delta[timer] = True
            heappush(self._added, (timestamp, self._order(key), key))

    def discard(self, timestamp: int, key: Any) -> None:
        """Remove a timer if it is pending."""
        self.delta[timestamp, key] = False
        self._removed.add(timestamp)

    def first(self, limit: int = MAX_WATERMARK) -> tuple[int, Any] | None:
        """The pending timer that fires first, if its time is not after `limit`."""
        if not self._read_until(limit):
            return None
        added, heads = self._added, self._heads
        if heads and (not added or heads[0][:2] <= added[0][:2]):
            return heads[0][0], heads[0][2]
        return added[0][0], added[0][2]

    def next_timestamp(self) -> int | None:
        """When the first pending timer fires. Timers are read only if one of that time was removed."""
        while True:
            known, unread = self._first_known(), self._first_unread()
            if unread is None or (known is not None and known <= unread):
                return known
            if unread not in self._removed:
                return unread
            self._read_next()

    def _read_until(self, limit: int) -> bool:
        """Read what may be the first timer. Returns whether one is due."""
        while True:
            known, unread = self._first_known(), self._first_unread()
            if unread is None or unread > limit or (known is not None and known < unread):
                return known is not None and known <= limit
            self._read_next()

    def _first_known(self) -> int | None:
        """The time of the first pending timer of those that were added or read."""
        added, heads, delta = self._added, self._heads, self.delta
        while added and not delta[added[0][0], added[0][2]]:
            heappop(added)
        while heads and not delta.get((heads[0][0], heads[0][2]), True):
            timestamp, _, _, group = heappop(heads)
            self._waiting[group] -= 1
            if not self._waiting[group] and timestamp < MAX_WATERMARK:
                self._look_up(group, self._keys.group(group) + pack_long(timestamp + 1))
        if added and heads:
            return min(added[0][0], heads[0][0])
        return added[0][0] if added else heads[0][0] if heads else None

    def _first_unread(self) -> int | None:
        """The time of the first stored timer that was not read."""
        while self._unknown:
            group = self._unknown.pop()
            self._look_up(group, self._keys.group(group))
        unread, times = self._unread, self._times
        while unread and times.get(unread[0][1]) != unread[0][0]:
            heappop(unread)
        return unread[0][0] if unread else None

    def _look_up(self, group: int, start: bytes) -> None:
        """Find out when the first timer of a key group fires, from a row on."""
        size = self._keys.group_size
        for row, _ in self.family.scan(start, self._end(group)):
            self._know(group, unpack_long(row[size : size + LONG_BYTES]))
            return

    def _know(self, group: int, timestamp: int) -> None:
        self._times[group] = timestamp
        heappush(self._unread, (timestamp, group))
        if len(self._unread) > 2 * len(self._times) + _MIN_STALE:
            self._unread = [(time, number) for number, time in self._times.items()]
            heapify(self._unread)

    def _read_next(self) -> None:
        """Read all timers of the first unread time of one key group: their bytes have another order."""
        timestamp, group = heappop(self._unread)
        del self._times[group]
        start = self._keys.group(group)
        end = start + pack_long(timestamp + 1) if timestamp < MAX_WATERMARK else self._end(group)
        for row, _ in self.family.scan(start + pack_long(timestamp), end):
            _, key = self._keys.split_timer(row)
            self._waiting[group] = self._waiting.get(group, 0) + 1
            heappush(self._heads, (timestamp, self._order(key), key, group))
        if group not in self._waiting:  # it was to be written, and was not
            self._look_up(group, start)

    def _end(self, group: int) -> bytes | None:
        return self._keys.group(group + 1) if group + 1 < 1 << (8 * self._keys.group_size) else None

    def pending(self) -> Iterator[tuple[int, Any]]:
        """All pending timers."""
        stored = {self._keys.split_timer(row) for row, _ in self.family.scan(b"", None)}
        stored.update(self.delta)
        return (timer for timer in stored if self.delta.get(timer, True))

    def commit(self, batch: WriteBatch) -> None:
        """Add the epoch's changes to the batch."""
        size, written = self._keys.group_size, self._written
        for (timestamp, key), is_pending in self.delta.items():
            row = self._keys.timer(timestamp, key)
            group = int.from_bytes(row[:size], "big")
            if is_pending:
                batch.put(self.family, row, b"")
                earliest = written.get(group, timestamp)
                written[group] = None if earliest is None else min(earliest, timestamp)
            else:
                batch.delete(self.family, row)
                written[group] = None

    def forget(self) -> None:
        """Drop the epoch's changes, after they were written or rolled back."""
        if not self.delta:
            return
        changed = dict(self._written)
        changed.update(dict.fromkeys(self._waiting))
        for group, earliest in changed.items():
            if earliest is None:
                self._times.pop(group, None)
                self._unknown.add(group)
            elif group not in self._unknown and earliest < self._times.get(group, MAX_WATERMARK + 1):
                self._know(group, earliest)
        for changes in (self.delta, self._added, self._removed, self._heads, self._waiting, self._written):
            changes.clear()

    def apply(self, rows: Rows, batch: WriteBatch) -> None:
        """Add restored timers to the batch."""
        for index, (key, timestamp) in enumerate(zip(rows.keys, rows.values, strict=True)):
            row = self._keys.timer(timestamp, key)
            if rows.deleted is not None and rows.deleted[index]:
                batch.delete(self.family, row)
            else:
                batch.put(self.family, row, b"")
        self._times.clear()
        self._unknown.update(range(self._key_groups[0], self._key_groups[1] + 1))

    def entries(self, scan: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any, Any]]:
        """(state key, None, timestamp) of scanned rows."""
        for row, _ in scan:
            timestamp, key = self._keys.split_timer(row)
            yield key, None, timestamp
