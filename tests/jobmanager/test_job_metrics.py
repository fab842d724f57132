"""The metrics of a running job: rates of meters follow the clock, and an attempt starts with none."""

from penstock.jobmanager.job_metrics import JobMetrics
from penstock.model.ids import StageId, SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.subtask_work import SubtaskWork
from penstock.runtime.process.messages import SubtaskReport
from penstock.testing.clocks import ManualClock
from tests.jobmanager.reports import subtask_report

SUBTASK = SubtaskId(StageId("s0"), 0)


def meter(count: int) -> list[SubtaskReport]:
    reading = MetricReading("op", "rate", "meter", {"count": count}, 10)
    return [subtask_report(SUBTASK, SubtaskWork(), metrics=[reading])]


def rate(metrics: JobMetrics) -> object:
    ((_, reading),) = metrics.readings()
    return reading.figures["rate"]


def test_the_rate_of_a_meter_is_the_mean_over_its_span_and_fades_without_reports() -> None:
    clock = ManualClock()
    metrics = JobMetrics(clock)
    metrics.committed(meter(20))
    assert rate(metrics) == 2.0
    clock.advance(5_000)
    metrics.committed(meter(50))
    assert rate(metrics) == 5.0
    clock.advance(6_000)
    assert rate(metrics) == 3.0
    clock.advance(60_000)
    assert rate(metrics) == 0.0


def test_few_counts_are_kept_for_a_rate() -> None:
    clock = ManualClock()
    metrics = JobMetrics(clock)
    for count in range(1, 1001):
        metrics.committed(meter(count))
        clock.advance(100)
    assert 9.0 <= float(str(rate(metrics))) <= 11.0
    assert len(metrics._rates[SUBTASK, "op", "rate"]._counts) < 40


def test_a_new_attempt_starts_with_no_metrics() -> None:
    metrics = JobMetrics(ManualClock())
    metrics.committed(meter(20))
    metrics.begin_attempt()
    assert metrics.readings() == []
