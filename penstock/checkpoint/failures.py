"""Why a checkpoint failed, in Flink's words, and how many failures in a row a job tolerates (features K7)."""

from enum import Enum

from penstock.errors import CheckpointFailedError


class FailureReason(Enum):
    """Why a checkpoint will never exist."""

    EXPIRED = "Checkpoint expired before completing."
    DECLINED = "Checkpoint was declined."
    ASYNC = "Asynchronous task checkpoint failed."
    FINALIZE = "Failure to finalize checkpoint."
    IO = "An Exception occurred while triggering the checkpoint. IO-problem detected."
    SUBSUMED = "Checkpoint has been subsumed."
    NOT_RUNNING = "Not all required tasks are currently running."
    SHUTDOWN = "CheckpointCoordinator shutdown."
    SUSPENDING = "Checkpoint Coordinator is suspending."

    @property
    def is_counted(self) -> bool:
        """Whether it counts towards the tolerable failures."""
        return self in _COUNTED

    def text(self, detail: str = "") -> str:
        """The reason, with details."""
        return f"{self.value} {detail}".rstrip()


_COUNTED = (
    FailureReason.EXPIRED,
    FailureReason.DECLINED,
    FailureReason.ASYNC,
    FailureReason.FINALIZE,
    FailureReason.IO,
)


class FailureCount:
    """Failed checkpoints in a row: each counts once, and a completed one resets the count. Not thread safe."""

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._failed: set[int] = set()
        self._latest = ""

    def add(self, checkpoint_id: int, reason: FailureReason, text: str) -> None:
        """Note that a checkpoint failed, if the reason counts."""
        if reason.is_counted:
            self._failed.add(checkpoint_id)
            self._latest = text

    def reset(self) -> None:
        """A checkpoint is complete."""
        self._failed.clear()

    def require_tolerable(self) -> None:
        """Raise CheckpointFailedError if there are more than the job tolerates."""
        if len(self._failed) > self._tolerable:
            raise CheckpointFailedError(
                f"Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to {self._latest}"
            )
