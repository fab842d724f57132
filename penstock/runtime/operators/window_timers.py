"""The timers of a window operator, by key and window, in both time domains."""

from collections.abc import Iterator
from typing import Any

from penstock import failpoint
from penstock.model.time import TimeDomain
from penstock.model.type_information import TypeInformation
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.timers import Timers

FiredTimer = tuple[int, TimeDomain, tuple[Any, Any]]
"""Timestamp, time domain, and the key and window whose timer it is, for `KeyedBackend.enter`."""


class WindowTimers:
    """Timers are registered for the current key and namespace."""

    def __init__(self, backend: KeyedBackend, namespace_type: TypeInformation) -> None:
        self.processing = Timers(backend, TimeDomain.PROCESSING_TIME, namespace_type)
        self.event = Timers(backend, TimeDomain.EVENT_TIME, namespace_type)

    def of(self, domain: TimeDomain) -> Timers:
        """The timers of one time domain."""
        return self.event if domain is TimeDomain.EVENT_TIME else self.processing

    def fire(self, watermark: int, now_ms: int) -> Iterator[FiredTimer]:
        """Timers that are due, including those that are registered meanwhile."""
        for domain, limit in ((TimeDomain.PROCESSING_TIME, now_ms), (TimeDomain.EVENT_TIME, watermark)):
            for timestamp, address in self.of(domain).due(limit):
                failpoint.before("C7")
                yield timestamp, domain, address
                failpoint.after("C7")

    def take_due(self, watermark: int, now_ms: int) -> Iterator[FiredTimer]:
        """Timers that are due now; none is registered while they fire."""
        for domain, limit in ((TimeDomain.PROCESSING_TIME, now_ms), (TimeDomain.EVENT_TIME, watermark)):
            for timestamp, address in self.of(domain).take_due(limit):
                failpoint.before("C7")
                yield timestamp, domain, address
                failpoint.after("C7")

    def next_timestamp(self, domain: TimeDomain) -> int | None:
        """When the next timer of that domain is due."""
        return self.of(domain).next_timestamp()
