"""Metrics of users' functions, with PyFlink's names: counters, gauges, meters and distributions, in groups."""

from abc import ABC, abstractmethod
from collections.abc import Callable


class Metric(ABC):  # noqa: B024  (a mark, as in PyFlink)
    """A metric that a function updates."""


class Counter(Metric):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add to the count."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract from the count."""

    @abstractmethod
    def get_count(self) -> int:
        """The count of this subtask."""


class Meter(Metric):
    """Counts events; their rate is the mean over a time span."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """A number of events has occurred."""

    @abstractmethod
    def get_count(self) -> int:
        """The events of this subtask."""


class Distribution(Metric):
    """Count, sum, least and greatest of the values that it has seen."""

    @abstractmethod
    def update(self, value: float) -> None:
        """Take a value into account."""


class MetricGroup(ABC):
    """Registers metrics under its name, and makes further groups."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> "MetricGroup":
        """The group with this name inside this one. With `extra`, the group `extra` inside the group `name`."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """A counter; the same one if this group has it already."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Read a value from `obj` at the end of each epoch."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter; the same one if this group has it already."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """A distribution; the same one if this group has it already."""
