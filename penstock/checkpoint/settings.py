"""How checkpoints are taken, and who takes them: plain data."""

from dataclasses import dataclass

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
    inline_limit: int = 20_480
    commit_timeout_ms: int = 600_000
    """How long a failing sink commit is tried again before the attempt ends (PROTOCOL R21)."""

    def __post_init__(self) -> None:
        if self.retained < 1 or self.max_concurrent < 1 or self.timeout_ms < 1:
            raise ValueError(f"retained, max_concurrent and timeout_ms are at least 1: {self}")


@dataclass(frozen=True)
class WriterIdentity:
    """The attempt that writes. `writer` is the hash of its token, as in its claim."""

    job_id: JobId
    attempt: int
    writer: str
