"""Spans of time and points in time, as PyFlink's programs write them."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last record of a bounded input."""
MIN_WATERMARK = -(2**63)
"""The watermark before anything is known."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NAIVE_EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, order=True)
class Time:
    """A span of time in milliseconds.

    >>> Time.seconds(2).to_milliseconds()
    2000
    """

    _milliseconds: int

    @staticmethod
    def milliseconds(milliseconds: int) -> "Time":
        """That many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> "Time":
        """That many seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> "Time":
        """That many minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> "Time":
        """That many hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> "Time":
        """That many days."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """The span in milliseconds."""
        return self._milliseconds


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time to the nanosecond.

    >>> Duration.of_seconds(5).to_milliseconds()
    5000
    """

    _nanoseconds: int

    @staticmethod
    def of_days(days: int) -> "Duration":
        """That many days."""
        return Duration(days * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> "Duration":
        """That many hours."""
        return Duration(hours * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> "Duration":
        """That many minutes."""
        return Duration(minutes * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int, nano_adjustment: int | None = None) -> "Duration":
        """That many seconds, plus some nanoseconds."""
        return Duration(seconds * 1_000_000_000 + (nano_adjustment or 0))

    @staticmethod
    def of_millis(millis: int) -> "Duration":
        """That many milliseconds."""
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> "Duration":
        """That many nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def of(delta: timedelta) -> "Duration":
        """The span of a `timedelta`."""
        return Duration(delta // timedelta(microseconds=1) * 1000)

    def to_milliseconds(self) -> int:
        """The span in whole milliseconds."""
        return self._nanoseconds // 1_000_000


class TimeDomain(Enum):
    """The clock by which a timer fired."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


@dataclass(frozen=True, order=True)
class Instant:
    """A point in time to the nanosecond: seconds since 1970 and nanoseconds within the second."""

    seconds: int
    nanos: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.nanos < 1_000_000_000:
            raise ValueError(f"nanos of an Instant are 0 to 999999999, not {self.nanos}")

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> "Instant":
        """The instant that many milliseconds after 1970."""
        seconds, milliseconds = divmod(epoch_milli, 1000)
        return Instant(seconds, milliseconds * 1_000_000)

    @staticmethod
    def of_epoch_micro(epoch_micro: int) -> "Instant":
        """The instant that many microseconds after 1970."""
        seconds, microseconds = divmod(epoch_micro, 1_000_000)
        return Instant(seconds, microseconds * 1000)

    def to_epoch_milli(self) -> int:
        """Whole milliseconds since 1970."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    def to_epoch_micro(self) -> int:
        """Whole microseconds since 1970."""
        return self.seconds * 1_000_000 + self.nanos // 1000

    def to_datetime(self) -> datetime:
        """The instant as an aware `datetime` in UTC."""
        return EPOCH + timedelta(microseconds=self.to_epoch_micro())
