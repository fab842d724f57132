"""The autoscaler of a running job: it measures, decides (`scaling_decision.py`), and asks for the rescale.

A rescale that it asks for is like one by `penstock rescale`: the driver's log, the record and REST have it with its
reason.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.clock import Clock, SystemClock
from penstock.control.driver_log import DriverLog
from penstock.control.registry import JobRecord, RescaleRecord
from penstock.control.terminal import print_message, print_warning
from penstock.errors import JobFailedError, PenstockError
from penstock.graph.job_graph import JobGraph
from penstock.graph.scaled_stages import scaled_stages
from penstock.jobmanager.scaling_decision import LoadSample, LoadWindow, ScalingBounds, ScalingDecision
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from penstock.model.options.autoscale_options import AUTOSCALE
from penstock.model.subtask_work import SubtaskFigures

SAMPLES_PER_WINDOW = 20
LONGEST_STEP_S = 5.0
LAG_GROWTH = 0.5
"""A job lags if its watermark falls behind by more than this part of the time that passes."""
BUSY_LAG = 0.5
"""A watermark may also stand still because a source is idle: it counts only in a job that is at least so busy."""


class ScaledJob(Protocol):
    """A running job."""

    @property
    def graph(self) -> JobGraph: ...
    @property
    def log(self) -> DriverLog: ...
    def record(self) -> JobRecord: ...
    def status(self) -> JobStatus: ...
    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]: ...


class Autoscaler:
    """Belongs to one thread."""

    def __init__(self, job: ScaledJob, bounds: ScalingBounds, clock: Clock) -> None:
        self._job = job
        self._bounds = bounds
        self._clock = clock
        self._window = LoadWindow(bounds, clock.monotonic_s())
        self._scaled: tuple[JobGraph, frozenset[str]] | None = None
        """A graph, and which of its stages a rescale changes."""
        self._lag: tuple[float, int] | None = None
        """When the watermark was looked at last, and how far behind it was, in milliseconds."""
        self._error = ""
        """Why the last look failed; empty if it did not."""

    @property
    def step_s(self) -> float:
        """The time between two looks."""
        return min(LONGEST_STEP_S, self._bounds.window_s / SAMPLES_PER_WINDOW)

    def look(self) -> None:
        """Measure once, and rescale the job if it is time to. Returns when that is done."""
        record = self._job.record()
        if record.status != JobStatus.RUNNING.name or record.phase is not None:
            self._window.interrupt()
            self._lag = None
            return
        graph = self._job.graph
        if self._scaled is None or self._scaled[0] is not graph:
            self._scaled = graph, scaled_stages(graph)
        parallelism, stages = graph.default_parallelism, self._scaled[1]
        busy = busy_share([subtask for subtask in record.subtasks if subtask.vertex in stages], parallelism)
        sample = LoadSample(self._clock.monotonic_s(), parallelism, busy, self._lags(record, busy), record.rows_per_s)
        decision = self._window.add(sample)
        if decision is not None:
            self._rescale(decision)

    def run(self, pause: Callable[[float], object]) -> None:
        """Look until the job has ended. A look that fails is logged: the next one may succeed."""
        while not self._job.status().is_terminal_state():
            pause(self.step_s)
            try:
                self.look()
            except Exception as error:  # a bug, or Spark is gone: nobody waits for this thread
                self._window.interrupt()
                self._log_once(error)
            else:
                self._error = ""

    def _log_once(self, error: Exception) -> None:
        """One that repeats itself with every look is in the log once."""
        text = f"{type(error).__name__}: {error}"
        if text != self._error:
            self._job.log.write_error("job", "autoscaler: it could not look at the job, and tries again", error)
        self._error = text

    def _lags(self, record: JobRecord, busy: float) -> bool:
        """Whether more input waits than the job can read: files, rows in spools, or a watermark that falls behind."""
        now_s, before = self._clock.monotonic_s(), self._lag
        self._lag = None if record.watermark is None else (now_s, record.updated_ms - record.watermark)
        falls_behind = False
        if before is not None and self._lag is not None and record.rows_per_s > 0 and busy >= BUSY_LAG:
            falls_behind = self._lag[1] - before[1] > LAG_GROWTH * 1000 * (now_s - before[0])
        if any(subtask.rows_waiting for subtask in record.subtasks):
            return True
        return falls_behind or (record.has_backlog and record.rows_per_s > 0)  # the last files may have just filled it

    def _rescale(self, decision: ScalingDecision) -> None:
        self._job.log.write("job", f"autoscaler: from {decision.before} to {decision.after}: {decision.why}")
        try:
            self._job.request_rescale(decision.after, f"autoscaler: {decision.why}")()
        except PenstockError as error:
            self._job.log.write("job", f"autoscaler: the job was not rescaled: {error}", level="WARN")
            if isinstance(error, JobFailedError):  # it could not start there
                self._window.failed(decision, self._clock.monotonic_s())
            else:  # what was not done cannot have failed to help: it is tried again a window later
                self._window.interrupt()
            return
        self._window.begin(self._clock.monotonic_s(), decision.lagging_rate)


def busy_share(subtasks: Sequence[SubtaskFigures], parallelism: int) -> float:
    """How busy the subtasks of the busiest stage are, from 0 to 1. Stages with another parallelism keep theirs."""
    by_stage: dict[str, list[float]] = {}
    for subtask in subtasks:
        by_stage.setdefault(subtask.vertex, []).append(subtask.busy_ms_per_s / 1000)
    means = [sum(shares) / parallelism for shares in by_stage.values() if len(shares) == parallelism]
    return min(1.0, max(means, default=0.0))


def start_autoscaler(job: ScaledJob, configuration: Configuration, spark: Any) -> None:
    """Let the job rescale itself until it ends, if the settings ask for it and it can be rescaled."""
    if not configuration.get(AUTOSCALE):
        return
    graph = job.graph
    if graph.batch or job.record().checkpoint_dir is None:
        print_warning(f"{AUTOSCALE.key} has no effect: only a streaming job with checkpoints can be rescaled")
        return
    cores = int(spark.sparkContext.defaultParallelism)
    bounds = ScalingBounds.of(configuration, cores, graph.max_parallelism)
    text = f"autoscaler: the parallelism stays between {bounds.least} and {bounds.most}"
    job.log.write("job", text)
    print_message(text)
    scaler = Autoscaler(job, bounds, SystemClock())
    threading.Thread(target=scaler.run, args=(threading.Event().wait,), name="autoscaler", daemon=True).start()
