"""Metrics and checkpoints by OpenTelemetry: every few seconds to a collector that the user names, over OTLP and HTTP.

A checkpoint is a trace: a span from its trigger to its end, and below it one for each subtask with its start delay,
its alignment, and the two parts of its snapshot.
"""

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from penstock import __version__
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.clock import Clock
from penstock.control.registry import JobRecord
from penstock.control.running_job import ControlledJob
from penstock.errors import ConfigurationError
from penstock.model.units import NANOSECONDS_PER_MS
from penstock.rest.otel_settings import OtelSettings
from penstock.rest.prometheus_text import samples

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

INSTALL = "pip install 'penstock[otel]'"
SCOPE = "penstock"
TIMEOUT_S = 2.0
"""Of one export: a collector that does not answer delays nothing else."""


MOST_SPANS = 65_536
"""That wait to be sent."""


class MetricsTarget(Protocol):
    """An exporter of the OpenTelemetry SDK."""

    def export(self, metrics_data: Any, timeout_millis: float = ..., **kwargs: Any) -> Any: ...
    def shutdown(self, timeout_millis: float = ..., **kwargs: Any) -> None: ...


class OtelExport:
    """Exports until `close`, in a thread of its own. A collector that is away costs values, and nothing else."""

    def __init__(
        self, control: ControlledJob, clock: Clock, interval_ms: int, metrics: MetricsTarget, traces: Any
    ) -> None:
        """`metrics` and `traces` are exporters of the SDK."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._control = control
        self._clock = clock
        self._interval_s = interval_ms / 1000
        record = control.job.record()
        self._resource = Resource.create(
            {"service.name": record.name, "service.instance.id": record.job_id, "service.version": __version__}
        )
        self._metrics = metrics
        self._provider = TracerProvider(resource=self._resource)
        batches = BatchSpanProcessor(traces, MOST_SPANS, schedule_delay_millis=interval_ms)
        self._provider.add_span_processor(batches)
        self._sent: set[int] = set()
        self._is_failing = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel", daemon=True)

    @staticmethod
    def to_collector(control: ControlledJob, clock: Clock, settings: OtelSettings) -> "OtelExport":
        """An export to the collector. Raises ConfigurationError without the packages."""
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise ConfigurationError(f"OpenTelemetry needs packages that are not installed: {INSTALL}") from error
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # driver.log says it once
        base = settings.endpoint.rstrip("/")
        metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=TIMEOUT_S)
        traces = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=TIMEOUT_S)
        return OtelExport(control, clock, settings.interval_ms, metrics, traces)

    def start(self) -> None:
        """Export from now on."""
        self._thread.start()

    def close(self) -> None:
        """Export once more and end; waits a few seconds at most."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT_S)

    def _run(self) -> None:
        while not self._ending.wait(self._interval_s):
            self._try()
        self._try()
        with suppress(Exception):  # the job has ended; what the SDK says of it helps nobody
            self._metrics.shutdown()
            self._provider.shutdown()

    def _try(self) -> None:
        """Export; the log says once that the collector does not take anything, until it does again."""
        try:
            problem = "" if self.export() else "the collector did not take them"
        except Exception as error:  # a monitor must not end the job
            problem = str(error)
        if problem and not self._is_failing:
            self._control.log.write("job", f"metrics were not exported: {problem}", level="WARN")
        self._is_failing = bool(problem)

    def export(self) -> bool:
        """Send the metrics as they are now, and the checkpoints that have ended since the last time.

        Returns whether the collector has taken the metrics.
        """
        record, report = self._control.job.record(), self._control.job.checkpoints()
        result = self._metrics.export(metrics_data(self._control, record, self._resource, self._clock.now_ms()))
        if getattr(result, "name", "SUCCESS") != "SUCCESS":
            return False  # the checkpoints are sent when it takes something again
        ended = [stats for stats in report.history if stats.status != "in_progress"]
        for stats in ended:
            if stats.checkpoint_id not in self._sent:
                send_checkpoint(self._provider, stats)
        self._sent = {stats.checkpoint_id for stats in ended}  # older ones are not listed any more
        self._provider.force_flush(round(1000 * TIMEOUT_S))
        return True


def metrics_data(control: ControlledJob, record: JobRecord, resource: "Resource", now_ms: int) -> Any:
    """The same metrics as at `/metrics`, with dots in their names: `penstock.job.num_records_in`."""
    from opentelemetry.sdk.metrics import export as sdk
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    points: dict[tuple[str, str], list[sdk.NumberDataPoint]] = {}
    for name, kind, labels, value in samples(control, record):
        start = record.started_ms * NANOSECONDS_PER_MS
        points.setdefault((name, kind), []).append(
            sdk.NumberDataPoint(labels, start, now_ms * NANOSECONDS_PER_MS, value)
        )
    metrics = [
        sdk.Metric(dotted(name), None, None, sdk.Sum(found, sdk.AggregationTemporality.CUMULATIVE, is_monotonic=True))
        if kind == "counter"
        else sdk.Metric(dotted(name), None, None, sdk.Gauge(found))
        for (name, kind), found in points.items()
    ]
    scope = sdk.ScopeMetrics(InstrumentationScope(SCOPE, __version__), metrics, "")
    return sdk.MetricsData([sdk.ResourceMetrics(resource, [scope], "")])


def dotted(name: str) -> str:
    """
    >>> dotted("penstock_job_num_restarts"), dotted("penstock_function_seen")
    ('penstock.job.num_restarts', 'penstock.function.seen')
    """
    return ".".join(name.split("_", 2))


def send_checkpoint(provider: "TracerProvider", stats: CheckpointStats) -> None:
    """One trace: the checkpoint, its subtasks, and the phases of each."""
    from opentelemetry import trace

    tracer = provider.get_tracer(SCOPE, __version__)
    ended_ms = stats.complete_ms if stats.complete_ms is not None else stats.trigger_ms
    attributes: Any = {
        "penstock.checkpoint.id": stats.checkpoint_id,
        "penstock.checkpoint.type": stats.checkpoint_type,
        "penstock.checkpoint.status": stats.status,
        "penstock.checkpoint.written_bytes": stats.written_bytes,
        "penstock.checkpoint.full_bytes": stats.full_bytes,
        "penstock.checkpoint.subtasks": stats.subtasks,
    }
    root = tracer.start_span("checkpoint", start_time=stats.trigger_ms * NANOSECONDS_PER_MS, attributes=attributes)
    if stats.status == "failed":
        root.set_status(trace.Status(trace.StatusCode.ERROR, stats.failure))
    context = trace.set_span_in_context(root)
    for part in stats.parts:
        _send_part(tracer, context, stats.trigger_ms, part)
    root.end(ended_ms * NANOSECONDS_PER_MS)


def _send_part(tracer: Any, context: Any, trigger_ms: int, part: SubtaskStats) -> None:
    from opentelemetry import trace

    attributes: Any = {"penstock.subtask": str(part.subtask), "penstock.checkpoint.written_bytes": part.written_bytes}
    start = trigger_ms * NANOSECONDS_PER_MS
    span = tracer.start_span("subtask", context, start_time=start, attributes=attributes)
    below, at_ms = trace.set_span_in_context(span), trigger_ms
    for name, duration_ms in phases_of(part):
        phase = tracer.start_span(name, below, start_time=at_ms * NANOSECONDS_PER_MS)
        at_ms += duration_ms
        phase.end(at_ms * NANOSECONDS_PER_MS)
    span.end(at_ms * NANOSECONDS_PER_MS)


def phases_of(part: SubtaskStats) -> Iterable[tuple[str, int]]:
    """Name and milliseconds, in order."""
    return (
        ("start delay", part.figures.start_delay_ms),
        ("alignment", part.figures.alignment_ms),
        ("snapshot, synchronous", part.sync_ms),
        ("snapshot, asynchronous", part.async_ms),
    )
