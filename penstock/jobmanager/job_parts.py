"""The parts of a job that all its attempts share."""

from penstock.clock import Clock
from penstock.control.driver_log import DriverLog, Level
from penstock.control.registry import Registry
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary
from penstock.jobmanager.job_checkpoints import JobCheckpoints
from penstock.jobmanager.job_history import JobHistory, known_failures
from penstock.jobmanager.job_metrics import JobMetrics
from penstock.jobmanager.job_output import JobOutput, collect_sinks
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.job_savepoints import JobSavepoints
from penstock.jobmanager.job_scaling import JobScaling
from penstock.jobmanager.row_counts import RowCounts
from penstock.storage.storage import Storage


class JobParts:
    """Opened with the job, and used until it ends."""

    def __init__(self, request: JobRequest, registry: Registry, clock: Clock) -> None:
        settings, job_id = request.settings, request.identity.job_id
        self.storage: Storage | None = None
        if settings.takes_checkpoints:
            self.storage = settings.storage.open(job_id, resumed=request.resumed)
        self.log = DriverLog(registry.log_dir(job_id), job_id, clock, settings.log_limits)
        self.output = JobOutput(collect_sinks(request.graph), checkpointing=settings.commits_with_checkpoints)
        self.rows = RowCounts(clock, checkpointing=settings.takes_checkpoints)
        self.metrics = JobMetrics(clock)
        self.history = JobHistory(clock, known_failures(registry, job_id), registry.read_checkpoints(job_id))
        self.checkpoints = JobCheckpoints(job_id, settings, registry, self.log, self.history, self._release)
        self.savepoints = JobSavepoints(settings.savepoint_dir, self.log)
        self.scaling = JobScaling(request, clock, self.log, self.storage)
        self.attempts = 0
        """How many attempts this driver has begun."""
        self.attempt_number = 0
        """Of the last attempt that has claimed the job."""

    def begin_attempt(self, epoch: int) -> None:
        """An attempt continues after this epoch: what later ones have brought is forgotten."""
        self.output.roll_back(epoch)
        self.rows.roll_back(epoch)
        self.metrics.begin_attempt()

    def committed(self, summary: EpochSummary) -> None:
        """An epoch is committed."""
        self.scaling.committed(summary.rows_in)
        self.rows.committed(summary)
        self.metrics.committed(summary.reports)
        self.output.committed(summary)

    def detach(self) -> None:
        """The attempt is over."""
        self.savepoints.detach()
        self.checkpoints.detach()

    def log_failure(self, consequence: str, error: BaseException, *, level: Level = "ERROR") -> None:
        """Write to the log that the attempt has failed, with the whole error."""
        text = f"attempt {self.attempt_number} has failed, {consequence}"
        self.log.write_error("attempt", text, error, level=level, attempt=self.attempt_number)

    def _release(self, epoch: int) -> None:
        """A checkpoint of this epoch is complete: what it covers is final."""
        self.output.release(epoch)
        self.rows.release(epoch)
