"""What a TaskManager is started with, and what it is deployed with: plain data."""

import msgspec

from penstock.graph.job_graph import StagePlan
from penstock.model.snapshot import InlineLimits
from penstock.runtime.process.log_parts import LogLimits
from penstock.runtime.snapshots.local_copies import LocalBackup
from penstock.runtime.snapshots.spool import MAX_SPOOL_BYTES
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.backend.backend_spec import BackendSpec


class TaskManagerConfig(msgspec.Struct, frozen=True):
    """What a TaskManager reads from its standard input when it starts."""

    taskmanager: str
    job_id: str
    attempt: int
    token: str
    jobmanager: tuple[str, int]
    host: str
    storage: str | None
    log_path: str
    sys_path: list[str]
    executor: str
    watch: list[tuple[int, float]]
    """(pid, start time) of processes that this one must not outlive."""
    limits: InlineLimits = InlineLimits()
    """With `max_state_bytes` every state is sent to the JobManager: nothing is read or written here."""
    local: LocalBackup = LocalBackup()
    log_limits: LogLimits = LogLimits()
    pyflink: bool = False
    """`import pyflink` means penstock, as in the driver."""
    environment: dict[str, str] = {}
    """Variables that look like secrets, and that this job needs."""
    withheld: list[str] = []
    """Names of such variables of the driver that are not passed on."""


class DeployedPlan(msgspec.Struct):
    """The stages, and what a host needs to know of the whole graph."""

    stages: dict[str, StagePlan]
    channels: dict[int, int]
    """Edge id -> number of upstream subtasks, for edges that start at a stage."""
    batch_rows: int
    """The most rows that a function gets in one batch."""
    drop_untimed: bool = False
    """Rows of a source without event time are dropped instead of failing the job."""
    backend: BackendSettings = BackendSettings()
    backends: tuple[type[BackendSpec], ...] = ()
    """Kinds of backends that the program has registered."""
    max_spool_bytes: int = MAX_SPOOL_BYTES
    job_parameters: dict[str, str] = {}
