"""The status of a job, how it ended, and the modes in which it runs."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class JobID(str):
    """A job's id, 32 hex digits. It is plain text."""


class JobStatus(Enum):
    """The status of a job."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9
    INITIALIZING = 10

    def is_globally_terminal_state(self) -> bool:
        """Whether the job has ended for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether the job has ended, for good or until it is resumed."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()


class CheckpointingMode(Enum):
    """Whether a failure may repeat output."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """Which checkpoints are kept when the job ends."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""The name of `ExternalizedCheckpointRetention` in PyFlink 1."""


class RuntimeExecutionMode(Enum):
    """Whether a program runs as a stream or as a batch job. AUTOMATIC: as a batch job if all its sources end."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


@dataclass(frozen=True)
class JobExecutionResult:
    """How a job ended."""

    job_id: str
    name: str
    rows: int
    attempts: int
    duration_ms: int

    def get_job_id(self) -> JobID:
        """The job's id."""
        return JobID(self.job_id)

    def get_net_runtime(self) -> int:
        """Milliseconds from the submission of the job to its end."""
        return self.duration_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Always None, as for an unknown name: functions in Python cannot make accumulators, in PyFlink neither."""
        return None

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Always empty: functions in Python cannot make accumulators, in PyFlink neither."""
        return {}
