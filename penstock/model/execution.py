"""What is said about whole jobs: status, modes of checkpoints, and settings of the execution."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import parse_duration_ms

JOB_PARAMETER_PREFIX = "pipeline.global-job-parameters."
AUTO_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"
AUTO_GENERATE_UIDS = "pipeline.auto-generate-uids"
OBJECT_REUSE = "pipeline.object-reuse"
PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"


class JobStatus(Enum):
    """Where a job is in its life."""

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
        """Whether the job has ended, for good or to be taken up again elsewhere."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()


class CheckpointingMode(Enum):
    """What a failure may do to output."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """What happens to checkpoints when the job ends."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""Its name in PyFlink 1."""


class RuntimeExecutionMode(Enum):
    """PyFlink's execution modes; programs here run as streams."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


class ExecutionConfig:
    """Settings of the execution, kept in the environment's configuration. Setters return the object itself."""

    PARALLELISM_DEFAULT = -1

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def set_auto_watermark_interval(self, interval: int) -> "ExecutionConfig":
        """Accepted as in PyFlink; watermarks here advance at the end of each epoch."""
        if interval < 0:
            raise UsageError(f"auto watermark interval of {interval} ms; it must be 0 or more")
        self._configuration.set_string(AUTO_WATERMARK_INTERVAL, f"{interval} ms")
        return self

    def get_auto_watermark_interval(self) -> int:
        """The interval in milliseconds."""
        text = self._configuration.get_string(AUTO_WATERMARK_INTERVAL, "200 ms")
        return parse_duration_ms(text)

    def set_global_job_parameters(self, global_job_parameters: dict[str, Any]) -> "ExecutionConfig":
        """Parameters that functions read with `RuntimeContext.get_job_parameter`."""
        for key, value in global_job_parameters.items():
            self._configuration.set_string(JOB_PARAMETER_PREFIX + str(key), str(value))
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """The parameters set so far."""
        return global_job_parameters(self._configuration)

    def enable_auto_generated_uids(self) -> "ExecutionConfig":
        """Give operators without a uid one made from their place in the program."""
        self._configuration.set_boolean(AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> "ExecutionConfig":
        """Make an operator without a uid an error."""
        self._configuration.set_boolean(AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators may be without a uid."""
        return self._configuration.get_boolean(AUTO_GENERATE_UIDS, True)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> "ExecutionConfig":
        """Compress snapshots, or not."""
        self._configuration.set_boolean(SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    def is_use_snapshot_compression(self) -> bool:
        """Whether snapshots are compressed."""
        return self._configuration.get_boolean(SNAPSHOT_COMPRESSION, False)

    def enable_object_reuse(self) -> "ExecutionConfig":
        """Accepted as in PyFlink; chained operators pass objects here in any case."""
        self._configuration.set_boolean(OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> "ExecutionConfig":
        """Accepted as in PyFlink; chained operators pass objects here in any case."""
        self._configuration.set_boolean(OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """What was asked for."""
        return self._configuration.get_boolean(OBJECT_REUSE, False)

    def get_parallelism(self) -> int:
        """The default parallelism; -1 when none is set."""
        return self._configuration.get_integer(PARALLELISM, self.PARALLELISM_DEFAULT)

    def set_parallelism(self, parallelism: int) -> "ExecutionConfig":
        """The parallelism of operators without one of their own."""
        self._configuration.set_integer(PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups; -1 when none is set."""
        return self._configuration.get_integer(MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> "ExecutionConfig":
        """The number of key groups."""
        self._configuration.set_integer(MAX_PARALLELISM, max_parallelism)
        return self


@dataclass(frozen=True)
class JobExecutionResult:
    """How a job ended."""

    job_id: str
    name: str
    rows: int
    attempts: int
    duration_ms: int

    def get_job_id(self) -> str:
        """The job's id."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from submission to the end."""
        return self.duration_ms


def global_job_parameters(configuration: Configuration) -> dict[str, str]:
    """The parameters that functions read with `RuntimeContext.get_job_parameter`.

    >>> global_job_parameters(Configuration.from_dict({"pipeline.global-job-parameters.limit": "5", "a": "b"}))
    {'limit': '5'}
    """
    start = len(JOB_PARAMETER_PREFIX)
    settings = configuration.to_dict()
    return {key[start:]: value for key, value in settings.items() if key.startswith(JOB_PARAMETER_PREFIX)}
