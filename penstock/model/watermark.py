"""How records get event timestamps, and how far watermarks lag behind them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import UsageError
from penstock.model.time import Duration


class TimestampAssigner(ABC):
    """Extracts the event timestamp of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since 1970. `record_timestamp` is the record's former timestamp."""


@dataclass(frozen=True)
class WatermarkStrategy:
    """The timestamps of records, and how late records may be.

    >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    >>> strategy.out_of_orderness_ms
    5000
    """

    out_of_orderness_ms: int | None
    """How much older than the newest record another one may be; None: there are no watermarks."""
    timestamp_assigner: TimestampAssigner | None = None
    """None: records keep their timestamps."""
    idle_after_ms: int | None = None
    """A partition without records for this time no longer holds back the watermark."""

    @staticmethod
    def for_monotonous_timestamps() -> "WatermarkStrategy":
        """For timestamps that never decrease."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> "WatermarkStrategy":
        """For records that may be this much older than the newest one."""
        delay_ms = max_out_of_orderness.to_milliseconds()
        if delay_ms < 0:
            raise UsageError(f"out-of-orderness of {delay_ms} ms; it must be 0 or more")
        return WatermarkStrategy(delay_ms)

    @staticmethod
    def no_watermarks() -> "WatermarkStrategy":
        """No watermarks: event-time timers fire only at the end of bounded input."""
        return WatermarkStrategy(None)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> "WatermarkStrategy":
        """The strategy with timestamps from this assigner, or from a function of (record, former timestamp)."""
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, timestamp_assigner=timestamp_assigner)
        if callable(timestamp_assigner):
            return replace(self, timestamp_assigner=CallableAssigner(timestamp_assigner))
        raise TypeError(f"{timestamp_assigner!r} is not a TimestampAssigner; subclass it, or give a function")

    def with_idleness(self, idle_timeout: Duration) -> "WatermarkStrategy":
        """The strategy in which a stream or partition whose time stands still for this long holds back no others."""
        timeout_ms = idle_timeout.to_milliseconds()
        if timeout_ms <= 0:
            raise UsageError(f"idle timeout of {timeout_ms} ms; it must be positive")
        return replace(self, idle_after_ms=timeout_ms)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> "WatermarkStrategy":
        """The strategy itself: all sources are read epoch by epoch, so their watermarks need no alignment."""
        return self


@dataclass(frozen=True)
class CallableAssigner(TimestampAssigner):
    function: Callable[[Any, int], int]

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.function(value, record_timestamp)
