"""Committing the sink transactions of a completed checkpoint, repeated until all are confirmed (PROTOCOL R21)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock import failpoint
from penstock.clock import Clock
from penstock.errors import CheckpointFailedError, FencedError, SinkTransactionLostError
from penstock.model.snapshot import Committable, Manifest, commit_groups

RETRY_S = 1.0


class SinkCommitter(Protocol):
    """The sinks of a job, as the coordinator and recovery use them."""

    def commit(self, committables: Sequence[Committable]) -> None:
        """Make pre-committed transactions, one of `commit_groups`, visible; repeating it changes nothing."""
        ...

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        """Abort transactions of attempts before this one that are not in `keep`."""
        ...


class CommitRun:
    """The commits of one completed checkpoint, and which of them are left."""

    def __init__(self, manifest: Manifest, clock: Clock, timeout_s: float) -> None:
        self.manifest = manifest
        self._left = commit_groups(manifest.committables)
        self._clock = clock
        self._retry_at_s = clock.monotonic_s()
        self._deadline_s = self._retry_at_s + timeout_s

    @property
    def is_due(self) -> bool:
        """Whether the pause after a failure has passed."""
        return self._clock.monotonic_s() >= self._retry_at_s

    def advance(self, committer: SinkCommitter, require_owner: Callable[[], None]) -> bool:
        """Commit what is left; false if a commit failed and will be retried later.

        `require_owner` is called before each commit: a process may sleep between two of them (PROTOCOL R4).

        Raises CheckpointFailedError when the time for retries is over, SinkTransactionLostError at once.
        """
        while self._left:
            failpoint.before("C20")
            try:
                require_owner()
                committer.commit(self._left[0])
            except (FencedError, SinkTransactionLostError):
                raise
            except Exception as error:
                self.postpone(error)
                return False
            failpoint.after("C20")
            del self._left[:1]
        return True

    def postpone(self, error: Exception) -> None:
        """Retry after a pause; raise CheckpointFailedError when the time for retries is over."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._deadline_s:
            next_one = (
                f"transaction {self._left[0][0].transaction!r} of sink {self._left[0][0].sink_uid!r}"
                if self._left
                else "it"
            )
            raise CheckpointFailedError(
                f"checkpoint {self.manifest.checkpoint_id} is complete, but {next_one} was not committed in time: "
                f"{error}; recovery commits it again"
            ) from error
        self._retry_at_s = min(now_s + RETRY_S, self._deadline_s)
