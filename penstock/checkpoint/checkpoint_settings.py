"""How checkpoints are taken, and who takes them: plain data."""

from dataclasses import dataclass

from penstock.errors import ConfigurationError
from penstock.model.execution import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.ids import JobId


@dataclass(frozen=True)
class CheckpointSettings:
    """The job's checkpointing options. `interval_ms` None: only when forced."""

    interval_ms: int | None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    retained: int = 1
    tolerable_failures: int = 0
    commit_timeout_ms: int = 600_000
    """How long a failing sink commit is tried again before the attempt ends (PROTOCOL R21)."""
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    unaligned: bool = False
    """Rows not yet processed may be spooled into the checkpoint (PROTOCOL R13)."""
    aligned_timeout_ms: int = 0
    """How long an epoch waits for its rows before it spools; 0: not at all."""
    max_spool_bytes: int = 1 << 30
    retention: ExternalizedCheckpointRetention | None = None
    """What of the checkpoints outlives the job; None: nobody has chosen."""
    retain_finished: bool = False
    """The last checkpoint of a job that has finished stays too, for those who want to look at its state."""
    local_backup: bool = False
    """A second copy of keyed state on the TaskManager's own disk."""
    local_backup_dirs: tuple[str, ...] = ()
    recover_from_local: bool = False

    def __post_init__(self) -> None:
        if self.retained < 1 or self.max_concurrent < 1 or self.timeout_ms < 1:
            raise ValueError(f"retained, max_concurrent and timeout_ms are at least 1: {self}")
        if self.unaligned and self.max_concurrent > 1:
            raise ConfigurationError(
                "maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled; "
                "set execution.checkpointing.max-concurrent-checkpoints to 1, or unaligned.enabled to false"
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
