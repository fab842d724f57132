"""The metrics of functions and the work of subtasks, as the attempt that runs has reported them."""

import threading
from collections.abc import Iterable, Sequence

import msgspec

from penstock.clock import Clock
from penstock.jobmanager.job_work import JobWork
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import MergedMetric, MetricReading, merge_readings
from penstock.runtime.process.messages import SubtaskReport

SAMPLES = 12
"""Of a meter's count within its time span."""


class JobMetrics:
    """The newest readings by subtask. A restart begins with none, as in Flink. Thread safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[tuple[SubtaskId, str, str], MetricReading] = {}
        self._rates: dict[tuple[SubtaskId, str, str], MeterRate] = {}
        self.work = JobWork(clock)

    def begin_attempt(self) -> None:
        """Forget what the attempt before has counted."""
        self.work.begin_attempt()
        with self._lock:
            self._readings.clear()
            self._rates.clear()

    def committed(self, reports: Sequence[SubtaskReport]) -> None:
        """An epoch is committed: take what its subtasks have done, and the readings that have changed."""
        self.work.committed(reports)
        self._update((report.subtask, report.metrics) for report in reports)

    def _update(self, reported: Iterable[tuple[SubtaskId, list[MetricReading]]]) -> None:
        now_s = self._clock.monotonic_s()
        with self._lock:
            for subtask, readings in reported:
                for reading in readings:
                    place = (subtask, reading.operator, reading.name)
                    self._readings[place] = reading
                    if reading.kind == "meter":
                        rate = self._rates.setdefault(place, MeterRate(reading.span_s, now_s))
                        rate.note(now_s, float(reading.figures["count"]))

    def readings(self) -> list[tuple[SubtaskId, MetricReading]]:
        """All readings, with the rates of meters as they are now."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            return [
                (place[0], self._rates[place].in_reading(now_s, reading) if place in self._rates else reading)
                for place, reading in self._readings.items()
            ]

    def merged(self) -> list[MergedMetric]:
        """The readings merged over subtasks."""
        return merge_readings((subtask.index, reading) for subtask, reading in self.readings())


class MeterRate:
    """Events per second over a time span, as in Flink: also before the first span is over."""

    def __init__(self, span_s: int, now_s: float) -> None:
        self._span_s = span_s
        self._counts: list[tuple[float, float]] = [(now_s - span_s, 0.0)]
        """When the count was noted, and the count; oldest first."""

    def note(self, now_s: float, count: float) -> None:
        """The count has changed. One that follows soon replaces the last one, so that few are kept."""
        if len(self._counts) > 1 and now_s - self._counts[-2][0] < self._span_s / SAMPLES:
            self._counts[-1] = (now_s, count)
        else:
            self._counts.append((now_s, count))
        while len(self._counts) > 1 and now_s - self._counts[1][0] >= self._span_s:
            del self._counts[0]

    def in_reading(self, now_s: float, reading: MetricReading) -> MetricReading:
        """The reading with the rate."""
        before = [count for noted_s, count in self._counts if now_s - noted_s >= self._span_s]
        start = before[-1] if before else self._counts[0][1]
        rate = (self._counts[-1][1] - start) / self._span_s
        return msgspec.structs.replace(reading, figures={**reading.figures, "rate": rate})
