"""A request to run a job."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.control.registry import JobRecord
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.attempt import JobIdentity
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.jobmanager.settings.job_settings import JobSettings


@dataclass(frozen=True)
class JobRequest:
    """A job to run."""

    identity: JobIdentity
    graph: JobGraph
    settings: JobSettings
    allow_fallback: bool = False
    resumed: bool = False
    reopens: bool = True
    """A resumed job may be one that has failed."""
    rescaled: int | None = None
    """The parallelism that an earlier driver was rescaled to, and the graph has."""
    start: StartOptions = StartOptions()
    rest: str | None = None
    """Where the job's control server listens."""
    report: Callable[[JobRecord], None] | None = None
    """Called with every new record of the job."""
    claimed: Callable[[], None] = lambda: None
    """Called when an attempt has claimed the job: no driver that began before owns it any more."""
