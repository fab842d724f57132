"""The metrics of one subtask: what its functions register and update, and what is reported at the end of an epoch.

An update is an addition in this process; nothing is sent per record. A run that is undone does not count: its updates
are undone, and the new functions get the same metrics again. A restart begins with none, as in Flink.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeVar

from penstock.model.metric_group import Counter, Distribution, Meter, Metric, MetricGroup
from penstock.model.metric_readings import Figure, MetricKind, MetricReading

MAX_METRICS = 1000
"""How many metrics of a subtask are reported; more can be used, but are not reported."""
MAX_NAME_CHARS = 500
MAX_TEXT_CHARS = 1000
"""The maximum length of a gauge's text."""
_INT64 = 1 << 63
_LOG = logging.getLogger("penstock.metrics")


class SubtaskMetrics:
    """All metrics of a subtask, by operator and name."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[str, str], _Reported] = {}
        self._sent: dict[tuple[str, str], MetricReading] = {}
        self._is_full = False

    def group(self, operator: str) -> MetricGroup:
        """The group of an operator, by its uid."""
        return OperatorMetricGroup(self, operator, ())

    def register(self, operator: str, name: str, metric: "_ReportedMetric") -> "_ReportedMetric":
        """The metric that is reported under this name: the existing one, or else the given one."""
        place = (operator, name)
        known = self._metrics.get(place)
        if known is not None and type(known) is not type(metric):
            _LOG.warning("operator %r has a metric %r of another kind; the second one is not reported", *place)
            return metric
        if known is not None and not isinstance(metric, _Gauge):
            assert isinstance(known, type(metric))
            return known
        if known is None and len(self._metrics) >= MAX_METRICS:
            if not self._is_full:
                _LOG.warning("a subtask reports %d metrics; %r and further ones are not reported", MAX_METRICS, name)
            self._is_full = True
            return metric
        self._metrics[place] = metric
        return metric

    def finish_epoch(self) -> None:
        """Keep what the epoch has added: it can no longer be undone."""
        for metric in self._metrics.values():
            metric.finish_epoch()

    def roll_back(self) -> None:
        """Undo what the running epoch has added."""
        for metric in self._metrics.values():
            metric.roll_back()

    def readings(self) -> list[MetricReading]:
        """The values now."""
        found = []
        for (operator, name), metric in self._metrics.items():
            figures = metric.figures(name)
            if figures is not None:
                found.append(MetricReading(operator, name, metric.kind, figures, getattr(metric, "span_s", 0)))
        return found

    def changes(self) -> list[MetricReading]:
        """The readings that differ from those of the last call."""
        if not self._metrics:
            return []
        now = {(reading.operator, reading.name): reading for reading in self.readings()}
        changed = [reading for place, reading in now.items() if self._sent.get(place) != reading]
        self._sent.update(now)
        return changed


@dataclass(frozen=True)
class OperatorMetricGroup(MetricGroup):
    """A group of an operator's metrics."""

    _metrics: SubtaskMetrics
    _operator: str
    _names: tuple[str, ...]

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        added = (name,) if extra is None else (name, extra)
        return OperatorMetricGroup(self._metrics, self._operator, (*self._names, *map(_checked, added)))

    def counter(self, name: str) -> Counter:
        return self._register(name, _Counter())

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        if not callable(obj):
            raise TypeError(f"the gauge {name!r} needs a function without parameters, got {obj!r}")
        self._register(name, _Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        if time_span_in_seconds < 1:
            raise ValueError(f"the meter {name!r} needs a time span of at least 1 second, got {time_span_in_seconds}")
        return self._register(name, _Meter(span_s=time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        return self._register(name, _Distribution())

    def _register(self, name: str, metric: "_ReportedMetric") -> "_ReportedMetric":
        path = ".".join((*self._names, _checked(name)))[:MAX_NAME_CHARS]
        return self._metrics.register(self._operator, path, metric)


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a metric or group must be a text that is not empty, got {name!r}")
    return name


class _Reported(Metric):
    kind: MetricKind

    def finish_epoch(self) -> None:
        """Keep the value."""

    def roll_back(self) -> None:
        """Go back to the value that was kept."""

    @abstractmethod
    def figures(self, name: str) -> dict[str, Figure] | None:
        """The value now; None if there is none."""


_ReportedMetric = TypeVar("_ReportedMetric", bound=_Reported)


@dataclass
class _Counter(_Reported, Counter):
    kind = "counter"
    count: int = 0
    kept: int = 0

    def inc(self, n: int = 1) -> None:
        self.count += n

    def dec(self, n: int = 1) -> None:
        self.count -= n

    def get_count(self) -> int:
        return self.count

    def finish_epoch(self) -> None:
        self.kept = self.count

    def roll_back(self) -> None:
        self.count = self.kept

    def figures(self, name: str) -> dict[str, Figure]:
        return {"count": _number(self.count)}


@dataclass
class _Meter(_Reported, Meter):
    kind = "meter"
    count: int = 0
    kept: int = 0
    span_s: int = 60

    def mark_event(self, value: int = 1) -> None:
        self.count += value

    def get_count(self) -> int:
        return self.count

    def finish_epoch(self) -> None:
        self.kept = self.count

    def roll_back(self) -> None:
        self.count = self.kept

    def figures(self, name: str) -> dict[str, Figure]:
        return {"count": _number(self.count)}


@dataclass
class _Distribution(_Reported, Distribution):
    kind = "distribution"
    now: tuple[int, Any, Any, Any] = (0, 0, None, None)
    """Count, sum, least, greatest."""
    kept: tuple[int, Any, Any, Any] = (0, 0, None, None)

    def update(self, value: float) -> None:
        count, total, least, greatest = self.now
        if count == 0:
            least = greatest = value
        elif value < least:
            least = value
        elif value > greatest:
            greatest = value
        self.now = (count + 1, total + value, least, greatest)

    def finish_epoch(self) -> None:
        self.kept = self.now

    def roll_back(self) -> None:
        self.now = self.kept

    def figures(self, name: str) -> dict[str, Figure] | None:
        if not self.now[0]:
            return {"count": 0, "sum": 0}
        return {key: _number(figure) for key, figure in zip(("count", "sum", "min", "max"), self.now, strict=True)}


@dataclass
class _Gauge(_Reported):
    kind = "gauge"
    read: Callable[[], Any]
    has_failed: bool = field(default=False, init=False)

    def figures(self, name: str) -> dict[str, Figure] | None:
        try:
            value = self.read()
            return {"value": value[:MAX_TEXT_CHARS] if isinstance(value, str) else _number(value)}
        except Exception:  # a metric must not end the job
            if not self.has_failed:
                _LOG.warning("the gauge %r has failed, and has no value until it works again", name, exc_info=True)
            self.has_failed = True
            return None


def _number(value: Any) -> Figure:
    """A number as it is sent: plain, and an integer only in 64 bits."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral) and -_INT64 <= int(value) < _INT64:
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"a metric's value must be a number or a text, got {type(value).__name__}")
