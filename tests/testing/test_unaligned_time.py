"""Unaligned checkpoints and time: event time waits for rows that wait, and rows that wait are worked on."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock.datastream import KeyedProcessFunction
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import Node, OperatorSpec, SourceSpec, StreamGraph
from penstock.model.types import TAGGED
from penstock.model.watermark import WatermarkStrategy
from penstock.runtime import intake
from penstock.testing import Harness, ManualClock, MemorySink, Watermark
from penstock.testing.harness_options import HarnessOptions
from tests.sim.job import add_keyed, add_sink

ONE, OTHER = "a", "c"
"""Keys of different subtasks."""
CLOCKS: list[ManualClock] = []


class Works(KeyedProcessFunction):
    """Takes a second for each row but those of time 100."""

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        if row[1] != 100:
            CLOCKS[-1].advance(1000)
        yield row


class Passes(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        yield row


class Watches(KeyedProcessFunction):
    """Says the watermark that each row meets."""

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        yield row[1], ctx.timer_service().current_watermark()


class WorksAndWatches(Works):
    """Both, in one stage."""

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        for _, time in super().process_element(row, ctx):
            yield time, ctx.timer_service().current_watermark()


def event_time_job(sink: MemorySink, *, stages_between: int) -> JobGraph:
    """source → Works → (Passes) → timestamps, without lateness → Watches → sink, each behind a `key_by`."""
    graph = StreamGraph()
    node = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    node = add_keyed(graph, node, lambda row: row[0], Works(), "works")
    for number in range(stages_between):
        node = add_keyed(graph, node, lambda row: row[0], Passes(), f"passes-{number}")
    node = add_times(graph, node)
    node = add_keyed(graph, node, lambda row: row[0], Watches(), "watches")
    add_sink(graph, node, sink, "out")
    return build_job_graph(graph, GraphSettings(2, 8))


def add_times(graph: StreamGraph, node: Node) -> Node:
    """Event time from the rows; none is late."""
    strategy = WatermarkStrategy(0).with_timestamp_assigner(lambda row, _: row[1])
    spec = OperatorSpec("timestamps", strategy, {"out_of_orderness_ms": 0})
    made = graph.add("operator", "times", [node.id], spec, TAGGED)
    made.uid = "times"
    return made


def one_row_at_a_time(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    monkeypatch.setattr(intake, "FIRST_PORTION", 1)
    monkeypatch.setattr(intake, "MAX_PORTION", 1)
    CLOCKS.append(ManualClock())
    return CLOCKS[-1]


def limits(*given: int | None) -> Callable[[], int | None]:
    """The limits of the first epochs; the others have the last one."""
    rest = itertools.chain(given, itertools.repeat(given[-1]))
    return lambda: next(rest)


@pytest.mark.parametrize("stages_between", [0, 1, 2])
def test_l5_a_watermark_made_downstream_does_not_pass_rows_that_wait_upstream(
    stages_between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, sink = one_row_at_a_time(monkeypatch), MemorySink()
    graph = event_time_job(sink, stages_between=stages_between)
    harness = Harness(graph, HarnessOptions(clock=clock, spool_after=limits(100)))
    harness.feed([*((ONE, time) for time in (10, 20, 30, 40)), (OTHER, 100)]).finish()
    met = dict(sink.rows)
    assert sorted(met) == [10, 20, 30, 40, 100]
    assert [time for time, watermark in met.items() if watermark >= time] == []


def test_l5_a_watermark_made_upstream_waits_for_the_rows_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sink, graph = one_row_at_a_time(monkeypatch), MemorySink(), StreamGraph()
    source = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    node = add_keyed(graph, add_times(graph, source), lambda row: row[0], WorksAndWatches(), "works")
    add_sink(graph, node, sink, "out")
    options = HarnessOptions(clock=clock, spool_after=limits(100))
    harness = Harness(build_job_graph(graph, GraphSettings(2, 8)), options)
    harness.feed([*((ONE, time) for time in (10, 20, 30, 40)), (OTHER, 100)]).finish()
    assert sorted(time for time, _ in sink.rows) == [10, 20, 30, 40, 100]
    assert [time for time, watermark in sink.rows if watermark >= time] == []


def test_l5_a_watermark_that_is_held_back_is_not_replaced_by_that_of_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, sink = one_row_at_a_time(monkeypatch), MemorySink()
    graph = event_time_job(sink, stages_between=0)
    harness = Harness(graph, HarnessOptions(clock=clock, spool_after=limits(None, None, 100)))
    harness.feed(
        [(ONE, 1), Watermark(1000), *((key, time) for time in (10, 20, 30, 40) for key in (ONE, OTHER))]
    ).finish()
    assert [time for time, watermark in sink.rows if watermark >= time] == []


def test_l5_rows_that_wait_are_worked_on_however_short_the_time_is() -> None:
    epochs = itertools.count()

    def no_time() -> int:
        assert next(epochs) < 50, "rows wait for ever"
        return 0

    rows = [(key, number) for number in range(20) for key in (ONE, OTHER)]
    harness = Harness.keyed(Passes(), key=lambda row: row[0], spool_after=no_time)
    assert sorted(harness.feed(rows).output) == sorted(rows)


def test_l5_a_slow_function_is_asked_for_one_row_before_the_clock_is_looked_at() -> None:
    CLOCKS.append(ManualClock())
    harness = Harness.keyed(Works(), key=lambda row: row[0], clock=CLOCKS[-1], spool_after=limits(1500))
    harness._work_off_spools = lambda: None  # type: ignore[method-assign]
    assert harness.feed([(ONE, number) for number in range(3)]).output == [(ONE, 0), (ONE, 1)]
