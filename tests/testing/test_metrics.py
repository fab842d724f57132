"""Metrics of functions: merged over subtasks, exact after lost tasks, new after a crash, and never a reason to fail."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.metrics import Counter, MetricGroup
from penstock.runtime.operators.subtask_metrics import MAX_METRICS, SubtaskMetrics
from penstock.testing import CHECKPOINT, CRASH, Harness


class Measured(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        self.seen = group.counter("seen")
        self.even = group.add_group("parity", "even").counter("numbers")
        self.rate = group.meter("rate", 10)
        self.sizes = group.distribution("sizes")
        self.last = 0
        group.gauge("last", lambda: self.last)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.seen.inc()
        if value % 2 == 0:
            self.even.inc(2)
            self.even.dec()
        self.rate.mark_event(3)
        self.sizes.update(value)
        self.last = value
        yield self.seen.get_count()


def test_metrics_of_all_kinds_are_merged_over_subtasks() -> None:
    harness = Harness.keyed(Measured(), key=lambda value: value, parallelism=2).feed([1, 2, 3, 4, 5, CHECKPOINT])
    metrics = harness.metrics()
    assert (metrics["seen"], metrics["parity.even.numbers"], metrics["rate"]) == (5, 2, 15)
    assert metrics["sizes"] == {"count": 5, "sum": 15, "min": 1, "max": 5}
    assert set(metrics["last"]) == {"0", "1"} and 5 in metrics["last"].values()


def test_metrics_start_again_after_a_crash() -> None:
    harness = Harness.keyed(Measured(), key=lambda value: value)
    harness.feed([1, 2, CHECKPOINT, 3, CRASH, 4, CHECKPOINT])
    assert harness.metrics()["seen"] == 2  # the replayed 3, and 4


class WithGauges(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        group.gauge("failing", lambda: 1 // 0)
        group.gauge("a list", lambda: [1])  # type: ignore[arg-type,return-value]
        group.gauge("text", lambda: "warm")  # type: ignore[arg-type,return-value]
        group.gauge("large", lambda: 1 << 70)

    def map(self, value: Any) -> Any:
        return value


def test_a_failing_gauge_is_logged_once_and_does_not_fail_the_job(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.metrics"):
        harness = Harness.non_keyed(WithGauges()).feed([1, CHECKPOINT, 2, CHECKPOINT])
    assert harness.output == [1, 2]
    assert harness.metrics() == {"text": {"0": "warm"}, "large": {"0": float(1 << 70)}}
    assert sorted(str(record.args) for record in caplog.records) == ["('a list',)", "('failing',)"]


def test_undone_updates_are_taken_back_and_the_same_metric_is_found_again() -> None:
    metrics = SubtaskMetrics()
    counter = metrics.group("op").counter("seen")
    counter.inc(3)
    metrics.finish_epoch()
    counter.inc(4)
    metrics.roll_back()
    again: Counter = metrics.group("op").counter("seen")
    again.inc()
    assert [reading.figures for reading in metrics.readings()] == [{"count": 4}]


def test_only_changes_are_reported() -> None:
    metrics = SubtaskMetrics()
    group: MetricGroup = metrics.group("op")
    seen, other = group.counter("seen"), group.counter("other")
    assert len(metrics.changes()) == 2 and metrics.changes() == []
    seen.inc()
    assert [reading.name for reading in metrics.changes()] == ["seen"]
    assert other.get_count() == 0


def test_metrics_beyond_the_limit_work_and_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    metrics = SubtaskMetrics()
    group = metrics.group("op")
    with caplog.at_level(logging.WARNING, "penstock.metrics"):
        counters = [group.counter(f"c{number}") for number in range(MAX_METRICS + 2)]
    counters[-1].inc()
    assert counters[-1].get_count() == 1
    assert len(metrics.readings()) == MAX_METRICS and len(caplog.records) == 1


def test_a_name_has_one_kind(caplog: pytest.LogCaptureFixture) -> None:
    metrics = SubtaskMetrics()
    group = metrics.group("op")
    group.counter("seen")
    with caplog.at_level(logging.WARNING, "penstock.metrics"):
        group.meter("seen").mark_event()
    assert [reading.kind for reading in metrics.readings()] == ["counter"] and "another kind" in caplog.text


@pytest.mark.parametrize("name", ["", 3])
def test_a_name_must_be_a_text(name: Any) -> None:
    with pytest.raises(TypeError, match="must be a text"):
        SubtaskMetrics().group("op").counter(name)
