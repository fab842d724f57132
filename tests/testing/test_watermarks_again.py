"""Watermarks that a stage makes itself, in an epoch that is run again and after a restore (PROTOCOL I-6)."""

from collections.abc import Iterable
from typing import Any

from penstock.datastream import KeyedProcessFunction, ProcessFunction
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import OperatorSpec, SourceSpec, StreamGraph
from penstock.model.types import TAGGED
from penstock.model.watermark import WatermarkStrategy
from penstock.testing import CHECKPOINT, CRASH, Harness, MemorySink, Watermark
from penstock.testing.harness_options import HarnessOptions
from tests.sim.job import add_keyed, add_sink


class Passes(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        yield row


class Watches(ProcessFunction):
    """Says the watermark that each row meets."""

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        yield row[1], ctx.timer_service().current_watermark()


def watched(items: list[Any], losses: Iterable[int | None] = ()) -> dict[int, int]:
    """Row -> the watermark it meets, in the stage that makes it."""
    sink, lost = MemorySink(), iter(losses)
    graph = StreamGraph()
    node = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    node = add_keyed(graph, node, lambda row: row[0], Passes(), "passes")
    strategy = WatermarkStrategy(0).with_timestamp_assigner(lambda row, _: row[1])
    spec = OperatorSpec("timestamps", strategy, {"out_of_orderness_ms": 0})
    times = graph.add("operator", "times", [node.id], spec, TAGGED)
    watch = graph.add("operator", "watch", [times.id], OperatorSpec("process", Watches()), TAGGED)
    times.uid, watch.uid = "times", "watch"
    add_sink(graph, watch, sink, "out")
    options = HarnessOptions(lost_after=lambda tries: next(lost, None))
    harness = Harness(build_job_graph(graph, GraphSettings(1, 8)), options)
    for item in items:
        harness.feed([item])
    harness.finish()
    return dict(sink.rows)


def test_an_epoch_that_is_run_again_meets_the_watermark_of_its_first_run() -> None:
    rows = [("a", time) for time in (100, 200, 300)]
    tasks_before = [None] * 5  # two stages, two epochs, and the first stage of the third
    assert watched(rows, [*tasks_before, 0]) == watched(rows)


def test_after_a_restore_rows_do_not_meet_the_watermark_of_another_clock() -> None:
    met = watched([("a", 10), Watermark(1000), CHECKPOINT, CRASH, ("a", 20)])
    assert met[20] < 20
