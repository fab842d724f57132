"""Metrics and checkpoints by OpenTelemetry: what a collector gets."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.model.ids import StageId, SubtaskId
from penstock.model.snapshot import BarrierFigures
from penstock.model.units import NANOSECONDS_PER_MS
from penstock.rest.otel_export import OtelExport
from penstock.rest.otel_settings import OtelSettings
from tests.records import A_ID
from tests.rest.fake_job import Served

PART = SubtaskStats(SubtaskId(StageId("s0"), 1), BarrierFigures(12, 34), 5, 60, 70, 700)
DONE = CheckpointStats(3, "completed", 1000, 1250, 250, written_bytes=70, subtasks=1, acknowledged=1, parts=(PART,))
FAILED = CheckpointStats(4, "failed", 2000, 2100, 100, failure="a disk is full")


class Kept:
    """An exporter of metrics that keeps what it gets."""

    def __init__(self) -> None:
        self.data: list[Any] = []

    def export(self, metrics_data: Any, timeout_millis: float = 0, **kwargs: Any) -> None:
        self.data.append(metrics_data)

    def shutdown(self, timeout_millis: float = 0, **kwargs: Any) -> None: ...


@pytest.fixture
def served(tmp_path: Path) -> Served:
    served = Served(tmp_path)
    served.job.history = (DONE, FAILED, CheckpointStats(5, "in_progress", 3000))
    return served


def test_metrics_have_the_names_of_prometheus_with_dots(served: Served) -> None:
    kept = Kept()
    OtelExport(served.control, served.clock, 1000, kept, InMemorySpanExporter()).export()
    (resource,) = kept.data[0].resource_metrics
    assert resource.resource.attributes["service.instance.id"] == A_ID
    metrics = {metric.name: metric.data for metric in resource.scope_metrics[0].metrics}
    completed = metrics["penstock.job.number_of_completed_checkpoints"]
    assert completed.is_monotonic and completed.data_points[0].value == 1
    point = metrics["penstock.job.last_checkpoint_duration"].data_points[0]
    assert (point.value, point.time_unix_nano) == (250, served.clock.now_ms() * NANOSECONDS_PER_MS)
    busy = metrics["penstock.subtask.busy_time_ms_per_second"].data_points
    assert {one.attributes["subtask"] for one in busy} == {"0", "1"}


def test_every_ended_checkpoint_is_one_trace_and_is_sent_once(served: Served) -> None:
    spans = InMemorySpanExporter()
    export = OtelExport(served.control, served.clock, 1000, Kept(), spans)
    export.export()
    export.export()
    found: list[Any] = list(spans.get_finished_spans())
    roots = {span.attributes["penstock.checkpoint.id"]: span for span in found if span.name == "checkpoint"}
    assert set(roots) == {3, 4} and len([span for span in found if span.name == "checkpoint"]) == 2
    assert (roots[3].start_time, roots[3].end_time) == (1000 * NANOSECONDS_PER_MS, 1250 * NANOSECONDS_PER_MS)
    assert not roots[4].status.is_ok and roots[4].status.description == "a disk is full"
    of_third = [span for span in found if span.context.trace_id == roots[3].context.trace_id]
    lengths = {span.name: (span.end_time - span.start_time) // NANOSECONDS_PER_MS for span in of_third}
    assert lengths == {
        "checkpoint": 250,
        "subtask": 111,
        "start delay": 12,
        "alignment": 34,
        "snapshot, synchronous": 5,
        "snapshot, asynchronous": 60,
    }


def test_a_collector_that_fails_is_noted_and_nothing_else_happens(served: Served) -> None:
    class Broken(Kept):
        def export(self, metrics_data: Any, timeout_millis: float = 0, **kwargs: Any) -> None:
            raise ConnectionError("refused")

    export = OtelExport(served.control, served.clock, 3_600_000, Broken(), InMemorySpanExporter())
    export.start()
    export.close()
    assert "metrics were not exported: refused" in served.log.read_text(encoding="utf-8")


def test_a_collector_gets_both_over_http(served: Served) -> None:
    received: dict[str, bytes] = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received[self.path] = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = OtelSettings(f"http://127.0.0.1:{server.server_port}/", 3_600_000)
        export = OtelExport.to_collector(served.control, served.clock, settings)
        export.start()
        export.close()
        server.shutdown()
    names = str(ExportMetricsServiceRequest.FromString(received["/v1/metrics"]))
    assert "penstock.job.num_restarts" in names and A_ID in names
    assert "snapshot, asynchronous" in str(ExportTraceServiceRequest.FromString(received["/v1/traces"]))


def test_a_collector_that_is_away_is_noted_once_and_gets_checkpoints_when_it_is_back(served: Served) -> None:
    class Away(Kept):
        result = MetricExportResult.FAILURE

        def export(self, metrics_data: Any, timeout_millis: float = 0, **kwargs: Any) -> Any:
            return self.result

    collector, spans = Away(), InMemorySpanExporter()
    export = OtelExport(served.control, served.clock, 3_600_000, collector, spans)
    export._try()
    export._try()
    assert served.log.read_text(encoding="utf-8").count("metrics were not exported") == 1
    assert not spans.get_finished_spans()
    collector.result = MetricExportResult.SUCCESS
    export._try()
    assert spans.get_finished_spans()
