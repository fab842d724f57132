"""Timers of one operator: registered for the current key, fired in the order of (timestamp, key).

With namespaces: registered for the current key and namespace, fired in the order of (timestamp, key, namespace).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.errors import UnsupportedValueError
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.model.type_information import TypeInformation
from penstock.state.backend.keyed_backend import KeyedBackend

TIMER_NAMES = {TimeDomain.EVENT_TIME: "_timers_event", TimeDomain.PROCESSING_TIME: "_timers_processing"}
"""The names of the timer tables by time domain."""


class Timers:
    """Timers of one time domain. They are part of the state: rolled back, sealed and restored with the backend."""

    __slots__ = ("_current", "_table")

    def __init__(
        self, backend: KeyedBackend, domain: TimeDomain, namespace_type: TypeInformation | None = None
    ) -> None:
        self._current = backend.keys if namespace_type is None else backend.scope
        self._table = backend.timer_table(TIMER_NAMES[domain], namespace_type)

    def register(self, timestamp: int) -> None:
        """Register a timer of the current key. Registering the same time twice has no further effect."""
        if type(timestamp) is not int or not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
            timestamp = _checked(timestamp)
        self._table.add(timestamp, self._current.key)

    def register_at(self, timestamp: int, address: Any) -> None:
        """Register a timer of a state key, or with namespaces of a pair of state key and namespace."""
        self._table.add(timestamp, address)

    def delete_at(self, timestamp: int, address: Any) -> None:
        """Delete such a timer, if there is one."""
        self._table.discard(timestamp, address)

    def delete(self, timestamp: int) -> None:
        """Delete the current key's timer at this time, if there is one."""
        if type(timestamp) is not int or not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
            timestamp = _checked(timestamp)
        self._table.discard(timestamp, self._current.key)

    def due(self, limit: int) -> Iterator[tuple[int, Any]]:
        """Timers up to and including `limit` as (timestamp, state key). Each is removed before it is returned.

        Timers that are registered during the iteration are included; each step returns the first pending one in the
        order of (timestamp, key). With namespaces, the state key is a pair of key and namespace for
        `KeyedBackend.enter`.
        """
        table = self._table
        while (timer := table.first(limit)) is not None:
            table.discard(*timer)
            yield timer

    def take_due(self, limit: int) -> Sequence[tuple[int, Any]]:
        """Timers up to and including `limit`, all removed at once. Timers that are registered later are not in it."""
        take = getattr(self._table, "take_due", None)
        return list(self.due(limit)) if take is None else take(limit)

    def next_timestamp(self) -> int | None:
        """The timestamp of the first pending timer, or None."""
        return self._table.next_timestamp()


def _checked(timestamp: Any) -> int:
    """The timestamp as a 64-bit int."""
    try:
        number = timestamp.__index__()
    except AttributeError:
        number = None
    if type(number) is not int or isinstance(timestamp, bool) or not MIN_WATERMARK <= number <= MAX_WATERMARK:
        raise UnsupportedValueError(
            f"{timestamp!r} is not a timestamp of a timer; give milliseconds since 1970 as a 64-bit int"
        )
    return number
