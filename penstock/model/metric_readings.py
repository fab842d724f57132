"""Values of metrics on their way to those who look at them: of one subtask, and merged over subtasks."""

from collections.abc import Iterable
from typing import Literal

import msgspec

MetricKind = Literal["counter", "gauge", "meter", "distribution"]
Figure = bool | int | float | str


class MetricReading(msgspec.Struct, frozen=True, array_like=True):
    """A metric of one subtask at the end of an epoch."""

    operator: str
    """The operator's uid."""
    name: str
    """With the names of its groups, separated by dots."""
    kind: MetricKind
    figures: dict[str, Figure]
    """Counter: count. Gauge: value. Meter: count, rate. Distribution: count, sum, min, max."""
    span_s: int = 0
    """Of a meter."""


class MergedMetric(msgspec.Struct, frozen=True):
    """A metric of an operator over all its subtasks."""

    operator: str
    name: str
    kind: MetricKind
    figures: dict[str, Figure]
    """Those of the readings, added up; min and max are the least and the greatest. A gauge has none."""
    values: dict[str, Figure]
    """The values of a gauge by the index of the subtask: they are not added up."""


def merge_readings(readings: Iterable[tuple[int, MetricReading]]) -> list[MergedMetric]:
    """The metrics over subtasks, given as pairs of a subtask's index and a reading; by operator and name.

    >>> one = MetricReading("op", "seen", "counter", {"count": 2})
    >>> merge_readings([(0, one), (1, one)])[0].figures
    {'count': 4}
    """
    merged: dict[tuple[str, str], MergedMetric] = {}
    for index, reading in readings:
        place = (reading.operator, reading.name)
        known = merged.setdefault(place, MergedMetric(reading.operator, reading.name, reading.kind, {}, {}))
        if reading.kind == "gauge":
            known.values.update({str(index): value for value in reading.figures.values()})
            continue
        for name, figure in reading.figures.items():
            known.figures[name] = _combined(name, known.figures.get(name), figure)
    return [merged[place] for place in sorted(merged)]


def _combined(name: str, known: Figure | None, figure: Figure) -> Figure:
    assert not isinstance(figure, str)
    assert not isinstance(known, str)
    if known is None:
        return figure
    if name == "min":
        return min(known, figure)
    return max(known, figure) if name == "max" else known + figure
