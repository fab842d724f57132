"""Visits the entries of one state with a time to live, a few at a time, and removes those that have expired.

One pass over all state keys follows the other. A pass is advanced by state accesses (features D10), by records, and by
the timed sweep, always in an epoch, so that removals are undone with it. Passes cost nothing while nothing can have
expired: each one records the oldest stamp that it leaves.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.model.time import MAX_WATERMARK
from penstock.state.backend.current_key import CurrentKey
from penstock.state.ttl.rules import EpochClock, SweepSettings, TtlRules

KeysAfter = Callable[[str, Any, int], tuple[Sequence[Any], Any]]
"""(state, cursor, limit) -> up to `limit` state keys after the cursor, and the next cursor, None at the end."""

PAUSES_PER_TTL = 10
"""The pause between two timed passes is at least this fraction of the time to live."""
CHUNK = 1_024
"""The number of state keys that are fetched at once."""
DISK_COST = 10
"""An entry on disk counts as this many in a sweep's budget."""
SWEPT_PART = 10
"""If a pass removes this fraction of the entries, a compaction is worthwhile."""
GUESSED_PER_KEY = 64
"""The assumed number of entries per state key before a sweep has seen any."""


class Expiring(Protocol):
    """A state with a time to live, as a scan sees it."""

    def expire(self) -> tuple[int, int, int | None]:
        """Remove expired entries of the current key: the number of entries seen, removed, and the oldest stamp left."""
        ...


class ManyExpiring(Protocol):
    """A state with a time to live that is accessed for many keys at once, as a scan sees it."""

    def expire(self, addresses: Sequence[Any]) -> tuple[int, int, int | None]:
        """Remove expired entries at these addresses; the same figures."""
        ...


class CleanupScan:
    """The passes over one state. Its knowledge about entries is not part of the state: a roll-back restarts it."""

    __slots__ = (
        "_began_ms", "_clock", "_current", "_cursor", "_ended_ms", "_entry_cost", "_in_pass", "_keys_after", "_known",
        "_left_oldest", "_name", "_oldest", "_per_access", "_removed", "_seen", "_sliced_ms", "_timed",
        "_written_before", "checks", "has_removed", "many", "rules", "state", "written",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        rules: TtlRules,
        clock: EpochClock,
        current: CurrentKey,
        keys_after: KeysAfter,
        *,
        on_disk: bool,
    ) -> None:
        self._name = name
        self.rules = rules
        self._clock, self._current, self._keys_after = clock, current, keys_after
        self._per_access = 0 if on_disk else rules.checks_per_access
        self._entry_cost = DISK_COST if on_disk else 1
        self._timed = rules.in_background or (on_disk and rules.by_compaction)
        self.state: Expiring | None = None
        self.many: ManyExpiring | None = None
        """Of a state that is accessed for many keys at once, instead of `state`."""
        self.checks = 0
        """The number of state keys that `check` visits at the next access; 0 if nothing can have expired."""
        self.written = False
        """Set by the state when it stamps an entry in the running epoch."""
        self.has_removed = False
        """A finished pass has removed many entries."""
        self._began_ms = self._ended_ms = self._sliced_ms = clock.now_ms
        self.restart()
        self._known = not keys_after(name, None, 1)[0]

    def restart(self) -> None:
        """Forget what is known about the entries, after a restore or a roll-back."""
        self._cursor: Any = None
        self._in_pass = self._known = self.has_removed = False
        self.written = self._written_before = False
        """Whether an entry was stamped in the running epoch; in an earlier epoch, after the last pass began."""
        self._oldest: int | None = None
        """The oldest stamp that the last pass left."""
        self._left_oldest: int | None = None
        self._seen = self._removed = 0
        """Of the running pass."""
        self.checks = 0

    def begin_epoch(self) -> None:
        """Decide whether accesses look for expired entries."""
        self._written_before = self._written_before or self.written
        self.written = False
        if not self._written_before and not self._in_pass:
            self._began_ms = self._clock.now_ms  # what will be written is no older than this
        self.checks = self._per_access if self._may_expire() else 0

    def end_epoch(self) -> None:
        """Disable removal by accesses."""
        self.checks = 0

    def check(self) -> None:
        """Visit the next `checks` state keys. The current key is preserved."""
        self._advance(self.checks)

    def check_records(self, count: int) -> None:
        """Visit as many state keys as for this number of accesses, if records count as accesses."""
        if self.rules.every_record:
            self.check_accesses(count)

    def check_accesses(self, count: int) -> None:
        """Visit as many state keys as for this number of accesses. The current key is preserved."""
        left = count * self.checks
        while left > 0 and self.checks:
            self._advance(min(left, CHUNK))
            left -= CHUNK

    def sweep(self, settings: SweepSettings) -> None:
        """The timed sweep: if it is due, visit about the budgeted number of entries, always whole keys."""
        due_ms = self.due_ms(settings)
        if due_ms is None or due_ms > self._clock.now_ms:
            return
        left, per_key = max(settings.entries // self._entry_cost, 1), GUESSED_PER_KEY
        while left > 0:
            limit = min(max(left // per_key, 1), CHUNK)
            seen = self._advance(limit)
            left -= seen
            per_key = max(seen // limit, 1)
            if not self._in_pass:
                break
        self._sliced_ms = self._clock.now_ms

    def due_ms(self, settings: SweepSettings) -> int | None:
        """When the timed sweep continues; None while nothing can expire.

        Always at a multiple of the interval, so that the sweeps of all states and subtasks share their epochs.
        """
        if not self._timed or not settings.entries:
            return None
        interval_ms = settings.interval_ms
        if self._in_pass:
            return (self._sliced_ms // interval_ms + 1) * interval_ms
        expiry_ms = self._expiry_ms()
        if expiry_ms is None or not self._known:
            return expiry_ms
        pause_ms = max(interval_ms, self.rules.ttl_ms // PAUSES_PER_TTL)
        earliest_ms = max(expiry_ms, self._ended_ms + pause_ms)
        return min(-(-earliest_ms // interval_ms) * interval_ms, MAX_WATERMARK)

    def _expiry_ms(self) -> int | None:
        """When the first entry may expire; None if no entry can."""
        if not self._known:
            return 0
        stamps = [] if self._oldest is None else [self._oldest]
        if self.written or self._written_before:
            stamps.append(self._began_ms)
        return min(stamps) + self.rules.unread_ms if stamps else None

    def _may_expire(self) -> bool:
        expiry_ms = self._expiry_ms()
        return self._in_pass or (expiry_ms is not None and expiry_ms <= self._clock.now_ms)

    def _advance(self, limit: int) -> int:
        """Advance the pass by up to `limit` state keys; the number of entries visited, at least 1."""
        assert self.state is not None
        if not self._in_pass:
            self._begin()
        keys, self._cursor = self._keys_after(self._name, self._cursor, limit)
        seen = self._expire_each(keys) if self.many is None else self._count(*self.many.expire(keys))
        if self._cursor is None:
            self._end()
        return max(seen, len(keys), 1)

    def _expire_each(self, keys: Sequence[Any]) -> int:
        assert self.state is not None
        current, expire = self._current, self.state.expire
        before, seen = current.key, 0
        try:
            for current.key in keys:
                seen += self._count(*expire())
        finally:
            current.key = before
        return seen

    def _count(self, entries: int, removed: int, oldest: int | None) -> int:
        """Count entries that were visited; how many they were."""
        self._removed += removed
        self._seen += entries
        if oldest is not None and (self._left_oldest is None or oldest < self._left_oldest):
            self._left_oldest = oldest
        return entries

    def _begin(self) -> None:
        self._in_pass = True
        self._began_ms = self._clock.now_ms
        # The pass will see what earlier epochs wrote. A backend may not return keys of the running one, and the cursor
        # may have passed later writes: so `written` stays.
        self._written_before = False
        self._left_oldest = None
        self._seen = self._removed = 0

    def _end(self) -> None:
        self._in_pass, self._known = False, True
        self._oldest, self._ended_ms = self._left_oldest, self._clock.now_ms
        self.has_removed = self.has_removed or self._removed * SWEPT_PART >= max(self._seen, 1)
        self.checks = self._per_access if self._may_expire() else 0  # time may have advanced since it began
