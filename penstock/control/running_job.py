"""A job of this process, as its control server sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from msgspec import Struct

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_report import CheckpointReport
from penstock.control.driver_log import DriverLog
from penstock.control.inspect.snapshot_lookup import SnapshotLookup
from penstock.control.operations import Operations
from penstock.control.registry import JobRecord, RescaleRecord
from penstock.control.state_query import LiveQueries
from penstock.graph.guarantees import GuaranteeReport
from penstock.graph.job_graph import JobGraph
from penstock.model.ids import SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.recent_epoch import RecentEpoch


@dataclass(frozen=True)
class JobFacts:
    """The facts about a job that do not change while it runs."""

    graph: JobGraph
    checkpoints: CheckpointSettings | None
    """None: there are no periodic checkpoints."""
    backend: str
    """The name of the state backend."""
    checkpoint_dir: str | None
    """The job's own folder; None: checkpoints are in the JobManager's memory, or there are none."""
    savepoint_dir: str | None
    """The default folder of savepoints."""
    guarantees: GuaranteeReport
    check_restore: Callable[[JobGraph, str], Struct]
    """What a start of the program, with this graph, from the snapshot at a path would do. It opens the functions."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those that are set, without secret values."""
    restart: str = ""
    """The restart strategy, as text."""
    job_parameters: Mapping[str, str] = field(default_factory=dict)


class RunningJob(Protocol):
    """A job that was started in this process. Any thread may call it."""

    @property
    def job_id(self) -> str: ...
    @property
    def graph(self) -> JobGraph: ...
    @property
    def queries(self) -> LiveQueries: ...

    def record(self) -> JobRecord: ...
    def checkpoints(self) -> CheckpointReport: ...
    def metrics(self) -> list[tuple[SubtaskId, MetricReading]]: ...
    def epochs(self) -> list[RecentEpoch]: ...
    def rates(self) -> list[tuple[int, float]]: ...
    def cancel(self) -> None: ...
    def checkpoint(self, *, full: bool = False) -> int: ...
    def request_rescale(self, parallelism: int, why: str = "requested") -> Callable[[], RescaleRecord]: ...
    def trigger_savepoint(self, request: SavepointRequest) -> SavepointRequest: ...
    def savepoint_request(self, trigger_id: str) -> SavepointRequest | None: ...


@dataclass(frozen=True)
class ControlledJob:
    """A job, and what its control server keeps about it."""

    job: RunningJob
    first_facts: JobFacts
    """As they were when the job was submitted."""
    operations: Operations
    log: DriverLog
    snapshots: SnapshotLookup = field(default_factory=SnapshotLookup)

    @property
    def facts(self) -> JobFacts:
        """The facts now: a rescale changes the graph."""
        return replace(self.first_facts, graph=self.job.graph)
