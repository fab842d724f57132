"""PyFlink's classes of durations and points in time."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TypeAlias

from penstock.errors import UsageError
from penstock.model.quantities import parse_duration_ms

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last record of bounded input."""
MIN_WATERMARK = -(2**63)
"""The watermark before the first record."""
IDLE_WATERMARK = 2**63
"""In the place of the watermark of an input that is idle: it is above all others, so it is never the lowest one."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NAIVE_EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, order=True)
class Time:
    """A duration in milliseconds.

    >>> Time.seconds(2).to_milliseconds()
    2000
    """

    _milliseconds: int

    @staticmethod
    def milliseconds(milliseconds: int) -> "Time":
        """A duration of this many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> "Time":
        """A duration of this many seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> "Time":
        """A duration of this many minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> "Time":
        """A duration of this many hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> "Time":
        """A duration of this many days."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """The duration in milliseconds."""
        return self._milliseconds

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


@dataclass(frozen=True, order=True)
class Duration:
    """A duration with a precision of nanoseconds.

    >>> Duration.of_seconds(5).to_milliseconds()
    5000
    """

    _nanoseconds: int

    @staticmethod
    def of_days(days: int) -> "Duration":
        """A duration of this many days."""
        return Duration(days * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> "Duration":
        """A duration of this many hours."""
        return Duration(hours * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> "Duration":
        """A duration of this many minutes."""
        return Duration(minutes * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int, nano_adjustment: int | None = None) -> "Duration":
        """A duration of this many seconds, plus some nanoseconds."""
        return Duration(seconds * 1_000_000_000 + (nano_adjustment or 0))

    @staticmethod
    def of_millis(millis: int) -> "Duration":
        """A duration of this many milliseconds."""
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> "Duration":
        """A duration of this many nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def of(delta: timedelta) -> "Duration":
        """The duration of a `timedelta`."""
        return Duration(delta // timedelta(microseconds=1) * 1000)

    def to_milliseconds(self) -> int:
        """The duration in whole milliseconds."""
        return self._nanoseconds // 1_000_000


TimeSpan: TypeAlias = int | str | Duration | Time | timedelta
"""Milliseconds, text such as "5s", a Duration, a Time or a timedelta."""


def milliseconds(span: TimeSpan) -> int:
    """A time span in milliseconds.

    >>> milliseconds("5s"), milliseconds(Duration.of_minutes(1)), milliseconds(timedelta(seconds=2)), milliseconds(10)
    (5000, 60000, 2000, 10)
    """
    if isinstance(span, timedelta):
        found = span // timedelta(milliseconds=1)
    elif isinstance(span, Duration | Time):
        found = span.to_milliseconds()
    elif isinstance(span, str) or type(span) is int:
        found = parse_duration_ms(span)
    else:
        raise UsageError(f"{span!r} is not a duration; give milliseconds, text such as '5s', a Duration or a timedelta")
    if found < 0:
        raise UsageError(f"{span!r} is a negative duration; give 0 or more")
    return found


class TimeDomain(Enum):
    """Whether a timer fires in event time or in processing time."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


@dataclass(frozen=True, order=True)
class Instant:
    """A point in time: seconds since 1970, and nanoseconds within the second."""

    seconds: int
    nanos: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.nanos < 1_000_000_000:
            raise ValueError(f"the nanos of an Instant are 0 to 999999999, not {self.nanos}")

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> "Instant":
        """The instant this many milliseconds after 1970."""
        seconds, milliseconds = divmod(epoch_milli, 1000)
        return Instant(seconds, milliseconds * 1_000_000)

    @staticmethod
    def of_epoch_micro(epoch_micro: int) -> "Instant":
        """The instant this many microseconds after 1970."""
        seconds, microseconds = divmod(epoch_micro, 1_000_000)
        return Instant(seconds, microseconds * 1000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"

    def to_epoch_milli(self) -> int:
        """Whole milliseconds since 1970."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    def to_epoch_micro(self) -> int:
        """Whole microseconds since 1970."""
        return self.seconds * 1_000_000 + self.nanos // 1000

    def to_datetime(self) -> datetime:
        """The instant as an aware `datetime` in UTC."""
        return EPOCH + timedelta(microseconds=self.to_epoch_micro())
