"""The map state whose entries expire: a wrapper around the map handle of any backend, with pairs (stamp, value)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.errors import StateAccessError
from penstock.model.state import MapState
from penstock.state.backend.current_key import CurrentKey
from penstock.state.ttl.cleanup_scan import CleanupScan
from penstock.state.ttl.rules import EpochClock
from penstock.state.ttl.ttl_states import oldest

NOTHING = object()


class TtlMapState(MapState[Any, Any]):
    """A dictionary per key, stored as pairs. Each map key expires separately."""

    __slots__ = ("_clock", "_raw", "_refreshes", "_scan", "_shows", "_ttl_ms", "changes", "current")

    def __init__(self, raw: MapState[Any, Any], scan: CleanupScan, clock: EpochClock, current: CurrentKey) -> None:
        self._raw = raw
        self._scan = scan
        self._clock = clock
        self.current = current
        rules = scan.rules
        self._ttl_ms, self._refreshes, self._shows = rules.ttl_ms, rules.refreshes_on_read, rules.shows_expired
        self.changes = 0
        """Incremented by every change that the user makes, so that iterators detect it."""

    def get(self, key: Any) -> Any:
        """The value of a map key; None when it is absent or has expired."""
        if self._scan.checks:
            self._scan.check()
        pair = self._raw.get(key)
        if pair is None:
            return None
        stamp, value = pair
        if stamp is None or stamp + self._ttl_ms > self._clock.now_ms:
            self._refresh(key, stamp, value)
            return value
        if self._clock.in_epoch:
            self._raw.remove(key)
        return value if self._shows else None

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a map key, with a new stamp. None is a value too."""
        if self._scan.checks:
            self._scan.check()
        self._scan.written = True
        self._raw.put(key, (self._clock.now_ms, value))
        self.changes += 1

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of several map keys; all or none."""
        if self._scan.checks:
            self._scan.check()
        self._scan.written = True
        now_ms = self._clock.now_ms
        self._raw.put_all({key: (now_ms, value) for key, value in dict_value.items()})
        self.changes += 1

    def remove(self, key: Any) -> None:
        """Remove a map key if it exists."""
        self._raw.remove(key)
        self.changes += 1

    def contains(self, key: Any) -> bool:
        """Whether `get` would find the map key. An expired entry that may still be returned stays until it is read."""
        if self._scan.checks:
            self._scan.check()
        pair = self._raw.get(key)
        if pair is None:
            return False
        stamp, value = pair
        if stamp is None or stamp + self._ttl_ms > self._clock.now_ms:
            self._refresh(key, stamp, value)
            return True
        if self._clock.in_epoch and not self._shows:
            self._raw.remove(key)
        return self._shows

    def items(self) -> "TtlMapIterator":
        """All (map key, value) pairs that have not expired."""
        return TtlMapIterator(self, self._read_all(), lambda key, value: (key, value))

    def keys(self) -> "TtlMapIterator":
        """All map keys that have not expired."""
        return TtlMapIterator(self, self._read_all(), lambda key, value: key)

    def values(self) -> "TtlMapIterator":
        """All values that have not expired."""
        return TtlMapIterator(self, self._read_all(), lambda key, value: value)

    def is_empty(self) -> bool:
        """Whether no map key is left that has not expired (features D16: the raw map would not tell)."""
        if self._scan.checks:
            self._scan.check()
        if self._shows:
            return self._raw.is_empty()
        limit_ms, is_raw_empty = self._clock.now_ms - self._ttl_ms, True
        for stamp, _ in self._raw.values():
            if stamp is None or stamp > limit_ms:
                return False
            is_raw_empty = False
        if self._clock.in_epoch and not is_raw_empty:
            self._raw.clear()
        return True

    def clear(self) -> None:
        """Remove all map keys."""
        self._raw.clear()
        self.changes += 1

    def expire(self) -> tuple[int, int, int | None]:
        """Remove the map keys that have expired."""
        entries = list(self._raw.items())
        left = self._remove(entries, self._clock.now_ms - self._scan.rules.unread_ms)
        return len(entries), len(entries) - len(left), oldest(pair[0] for _, pair in left)

    def _read_all(self) -> list[tuple[Any, Any]]:
        """All map keys and values that are returned. Removes expired ones; refreshes the others if reads refresh."""
        if self._scan.checks:
            self._scan.check()
        entries, limit_ms = list(self._raw.items()), self._clock.now_ms - self._ttl_ms
        if self._clock.in_epoch:
            live = self._remove(entries, limit_ms)
            for key, (stamp, value) in live if self._refreshes else ():
                self._refresh(key, stamp, value)
        else:
            live = [entry for entry in entries if entry[1][0] is None or entry[1][0] > limit_ms]
        return [(key, value) for key, (_, value) in (entries if self._shows else live)]

    def _remove(self, entries: list[tuple[Any, Any]], limit_ms: int) -> list[tuple[Any, Any]]:
        """Remove map keys with a stamp up to the limit from the raw map; returns the others."""
        left = [entry for entry in entries if entry[1][0] is None or entry[1][0] > limit_ms]
        if entries and not left:
            self._raw.clear()
        elif len(left) < len(entries):
            for key, (stamp, _) in entries:
                if stamp is not None and stamp <= limit_ms:
                    self._raw.remove(key)
        return left

    def _refresh(self, key: Any, stamp: int | None, value: Any) -> None:
        clock = self._clock
        if self._refreshes and clock.in_epoch and (stamp is None or stamp < clock.now_ms):
            self._scan.written = True
            self._raw.put(key, (clock.now_ms, value))


class TtlMapIterator(Iterator[Any]):
    """Iterates over a map state. A change by anything but its own `remove` is an error at the next step."""

    __slots__ = ("_changes", "_items", "_key", "_last", "_state", "_view")

    def __init__(self, state: TtlMapState, items: list[tuple[Any, Any]], view: Callable[[Any, Any], Any]) -> None:
        self._state = state
        self._items = iter(items)
        self._view = view
        self._changes = state.changes
        self._key = state.current.key
        self._last: Any = NOTHING

    def __next__(self) -> Any:
        self._require_unchanged()
        self._last, value = next(self._items)
        return self._view(self._last, value)

    def remove(self) -> None:
        """Remove the entry that was returned last."""
        if self._last is NOTHING:
            raise StateAccessError("You need to call the '__next__' method before calling this method.")
        self._require_unchanged()
        current = self._state.current
        before, current.key = current.key, self._key
        try:
            self._state.remove(self._last)
        finally:
            current.key = before
        self._changes = self._state.changes
        self._last = NOTHING

    def _require_unchanged(self) -> None:
        if self._changes != self._state.changes:
            raise StateAccessError(
                "Concurrent modification detected. You can not modify the map state when iterating it except using the "
                "'remove' method of this iterator."
            )
