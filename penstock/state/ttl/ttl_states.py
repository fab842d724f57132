"""States whose entries expire: wrappers around the handles of any backend, which store pairs (stamp, entry).

An entry has expired when its stamp is as old as the time to live. Then it is treated as absent, unless the state may
return expired entries, and the read that finds it removes it, as a change of the running epoch. Outside an epoch
nothing is changed, and expired entries are hidden.
"""

from collections.abc import Iterable
from typing import Any

from penstock.errors import UnsupportedValueError
from penstock.model.functions import AggregateFunction, ReduceFunction
from penstock.model.state import AggregatingState, ListState, ReducingState, ValueState
from penstock.state.ttl.cleanup_scan import CleanupScan
from penstock.state.ttl.rules import EpochClock


class TtlValueState(ValueState[Any]):
    """One value per key, stored as a pair."""

    __slots__ = ("_clock", "_raw", "_refreshes", "_scan", "_shows", "_ttl_ms")

    def __init__(self, raw: ValueState[Any], scan: CleanupScan, clock: EpochClock) -> None:
        self._raw = raw
        self._scan = scan
        self._clock = clock
        rules = scan.rules
        self._ttl_ms, self._refreshes, self._shows = rules.ttl_ms, rules.refreshes_on_read, rules.shows_expired

    def value(self) -> Any:
        """The value; None if there is none or it has expired."""
        if self._scan.checks:
            self._scan.check()
        pair = self._raw.value()
        if pair is None:
            return None
        stamp, value = pair
        clock = self._clock
        if stamp is None or stamp + self._ttl_ms > clock.now_ms:
            if self._refreshes and clock.in_epoch and (stamp is None or stamp < clock.now_ms):
                self._scan.written = True
                self._raw.update((clock.now_ms, value))
            return value
        if clock.in_epoch:
            self._raw.clear()
        return value if self._shows else None

    def to_fold(self) -> Any:
        """The value to combine the next one with. Nothing is removed or refreshed, because it is replaced anyway."""
        if self._scan.checks:
            self._scan.check()
        pair = self._raw.value()
        if pair is None:
            return None
        stamp, value = pair
        return value if self._shows or stamp is None or stamp + self._ttl_ms > self._clock.now_ms else None

    def update(self, value: Any) -> None:
        """Replace the value, with a new stamp; None clears it."""
        if self._scan.checks:
            self._scan.check()
        if value is None:
            self._raw.clear()
            return
        self._scan.written = True
        self._raw.update((self._clock.now_ms, value))

    def clear(self) -> None:
        """Remove the value."""
        self._raw.clear()

    def expire(self) -> tuple[int, int, int | None]:
        """Remove the value if it has expired."""
        pair = self._raw.value()
        if pair is None or pair[0] is None:
            return 1, 0, None
        if pair[0] + self._scan.rules.unread_ms > self._clock.now_ms:
            return 1, 0, pair[0]
        self._raw.clear()
        return 1, 1, None


class TtlReducingState(ReducingState[Any]):
    """One value per key, combined by a function. An expired value is replaced."""

    __slots__ = ("_reduce", "_value", "expire")

    def __init__(self, value: TtlValueState) -> None:
        self._value = value
        self.expire = value.expire

    def bind(self, function: ReduceFunction) -> None:
        """Use this function from now on."""
        self._reduce = function.reduce

    def get(self) -> Any:
        """The combined value; None if nothing was added or it has expired."""
        return self._value.value()

    def add(self, value: Any) -> None:
        """Combine a value with the stored one; None clears the state."""
        if value is None:
            self._value.clear()
            return
        current = self._value.to_fold()
        self._value.update(value if current is None else self._reduce(current, value))

    def clear(self) -> None:
        """Remove the value."""
        self._value.clear()


class TtlAggregatingState(AggregatingState[Any, Any]):
    """One accumulator per key. An expired one is replaced by a new one."""

    __slots__ = ("_function", "_value", "expire")

    def __init__(self, value: TtlValueState) -> None:
        self._value = value
        self.expire = value.expire

    def bind(self, function: AggregateFunction) -> None:
        """Use this function from now on."""
        self._function = function

    def get(self) -> Any:
        """The result of the accumulator; None if nothing was added or it has expired."""
        accumulator = self._value.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add a value to the accumulator; None clears the state."""
        if value is None:
            self._value.clear()
            return
        accumulator = self._value.to_fold()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._value.update(self._function.add(value, accumulator))

    def accumulator(self) -> Any:
        """The stored accumulator; None if nothing was added or it has expired."""
        return self._value.to_fold()

    def merge(self, accumulator: Any) -> None:
        """Merge an accumulator into the stored one, with a new stamp."""
        stored = self._value.to_fold()
        self._value.update(accumulator if stored is None else self._function.merge(stored, accumulator))

    def clear(self) -> None:
        """Remove the accumulator."""
        self._value.clear()


class TtlListState(ListState[Any]):
    """A list per key, stored as a list of pairs. Each element expires separately."""

    __slots__ = ("_clock", "_raw", "_refreshes", "_scan", "_shows", "_ttl_ms")

    def __init__(self, raw: ListState[Any], scan: CleanupScan, clock: EpochClock) -> None:
        self._raw = raw
        self._scan = scan
        self._clock = clock
        rules = scan.rules
        self._ttl_ms, self._refreshes, self._shows = rules.ttl_ms, rules.refreshes_on_read, rules.shows_expired

    def get(self) -> list[Any]:
        """The elements that have not expired, in the order they were added."""
        if self._scan.checks:
            self._scan.check()
        pairs = list(self._raw.get())
        now_ms = self._clock.now_ms
        live = younger(pairs, now_ms - self._ttl_ms)
        if self._clock.in_epoch:
            if self._refreshes and any(stamp is None or stamp < now_ms for stamp, _ in live):
                self._scan.written = True
                self._raw.update([(now_ms, value) for _, value in live])
            elif len(live) < len(pairs):
                self._raw.update(live)
        return [value for _, value in (pairs if self._shows else live)]

    def add(self, value: Any) -> None:
        """Add one element at the end."""
        if value is None:
            raise null_element()
        if self._scan.checks:
            self._scan.check()
        self._scan.written = True
        self._raw.add((self._clock.now_ms, value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Add several elements at the end; all or none."""
        if self._scan.checks:
            self._scan.check()
        self._scan.written = True
        self._raw.add_all(self._stamped(values))

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        if self._scan.checks:
            self._scan.check()
        self._scan.written = True
        self._raw.update(self._stamped(values))

    def clear(self) -> None:
        """Remove all elements."""
        self._raw.clear()

    def expire(self) -> tuple[int, int, int | None]:
        """Remove the elements that have expired."""
        pairs = list(self._raw.get())
        left = younger(pairs, self._clock.now_ms - self._scan.rules.unread_ms)
        if len(left) < len(pairs):
            self._raw.update(left)
        return len(pairs), len(pairs) - len(left), oldest(stamp for stamp, _ in left)

    def _stamped(self, values: Iterable[Any]) -> list[Any]:
        if values is None:
            raise UnsupportedValueError("List of values to add cannot be null.")
        now_ms = self._clock.now_ms
        pairs = [(now_ms, value) for value in values]
        if any(value is None for _, value in pairs):
            raise null_element()
        return pairs


def null_element() -> UnsupportedValueError:
    """The error that the raw list would raise if it did not see pairs."""
    return UnsupportedValueError("You cannot add null to a ListState.")


def younger(pairs: list[Any], limit_ms: int) -> list[Any]:
    """The pairs whose stamp is after the limit, or that have no stamp."""
    return [pair for pair in pairs if pair[0] is None or pair[0] > limit_ms]


def oldest(stamps: Iterable[int | None]) -> int | None:
    """The smallest stamp, ignoring None."""
    return min((stamp for stamp in stamps if stamp is not None), default=None)
