"""How checkpoints are taken, and who takes them: plain data."""

from dataclasses import dataclass

from penstock.errors import ConfigurationError
from penstock.model.execution import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.ids import JobId
from penstock.model.options import checkpointing_options as options


@dataclass(frozen=True)
class CheckpointSettings:
    """The checkpoint options of a job. With `interval_ms` None, checkpoints are taken only on request."""

    interval_ms: int | None
    timeout_ms: int = options.TIMEOUT.default
    min_pause_ms: int = options.MIN_PAUSE.default
    max_concurrent: int = options.MAX_CONCURRENT.default
    retained: int = options.NUM_RETAINED.default
    tolerable_failures: int = options.TOLERABLE_FAILURES.default
    commit_timeout_ms: int = options.COMMIT_TIMEOUT.default
    """How long a failing sink commit is retried before the attempt ends (PROTOCOL R21)."""
    mode: CheckpointingMode = options.MODE.default
    unaligned: bool = options.UNALIGNED.default
    """Rows that have not been processed may be stored in the checkpoint (PROTOCOL R13)."""
    aligned_timeout_ms: int = options.ALIGNED_TIMEOUT.default
    """How long an epoch processes its rows before it stores the rest; 0: it stores them at once."""
    max_spool_bytes: int = options.MAX_SPOOL.default
    retention: ExternalizedCheckpointRetention | None = options.RETENTION.default
    """Which checkpoints are kept when the job ends; None: it was not set."""
    retain_finished: bool = options.RETAIN_FINISHED.default
    """Keep the last checkpoint of a finished job too, so that its state can be read."""
    local_backup: bool = options.LOCAL_BACKUP.default
    """Keep a second copy of keyed state on the TaskManager's local disk."""
    local_backup_dirs: tuple[str, ...] = options.LOCAL_BACKUP_DIRECTORIES.default
    recover_from_local: bool = options.RECOVER_FROM_LOCAL.default

    def __post_init__(self) -> None:
        if self.retained < 1 or self.max_concurrent < 1 or self.timeout_ms < 1:
            raise ValueError(f"retained, max_concurrent and timeout_ms are at least 1: {self}")
        if self.unaligned and self.max_concurrent > 1:
            raise ConfigurationError(
                f"maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled; "
                f"set {options.MAX_CONCURRENT.key} to 1, or {options.UNALIGNED.key} to false"
            )

    def keeps(self, ending: str) -> bool:
        """Whether completed checkpoints outlive a job that has finished, cancelled, failed or suspended.

        Where nobody has chosen, Flink's default holds, except that a job that failed can be resumed.
        """
        retained = {
            ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: ("cancelled", "failed", "suspended"),
            ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: ("failed",),
            ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: (),
            None: ("failed", "suspended"),
        }
        return ending in retained[self.retention] or (ending == "finished" and self.retain_finished)

    @property
    def exactly_once(self) -> bool:
        """Sinks commit with the checkpoint; otherwise each epoch is a transaction (PROTOCOL R28)."""
        return self.mode is CheckpointingMode.EXACTLY_ONCE


@dataclass(frozen=True)
class WriterIdentity:
    """The attempt that writes. `writer` is the hash of its token, as in its claim."""

    job_id: JobId
    attempt: int
    writer: str
    first_checkpoint: int = 0
    """Above the numbers that its JobManager has given out before, also to checkpoints that left no trace."""
