"""A batch job is one epoch: one Spark job over the whole input, then the commit of its output."""

from collections.abc import Callable, Sequence

from penstock.checkpoint.sink_commits import RETRY_S, SinkCommitter
from penstock.clock import Clock
from penstock.errors import OutputIncompleteError, PenstockError
from penstock.jobmanager.attempt.epoch_loop import AttemptEnd, failure_behind
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary, EpochTracker
from penstock.model.snapshot import Committable, commit_groups
from penstock.spark.batch_input import BatchInput
from penstock.spark.epoch_runner import EpochRunner
from penstock.spark.warm_up import wait_for_warm_up


class BatchEpoch:
    """The only epoch of an attempt in batch mode. Until it commits, nothing of it is visible."""

    def __init__(self, tracker: EpochTracker, runner: EpochRunner, batch_input: BatchInput, end: AttemptEnd) -> None:
        self._tracker = tracker
        self._runner = runner
        self._input = batch_input
        self._end = end

    def run(self) -> EpochSummary | None:
        """Process the whole input and commit the output; None if the job was cancelled before the commit."""
        try:
            wait_for_warm_up(self._input.session, self._end.interrupted)
            if self._end.cancelled.is_set():  # before there was a job to cancel
                return None
            header = self._tracker.begin(final=True)
            with self._input.cancellable():
                self._runner.run(self._input.session, self._input.read(), header, self._tracker.parents)
            if not self._end.cancelled.is_set():
                return self._tracker.commit(header, None)
        except PenstockError as error:
            self._tracker.fail(error)
            if not self._end.cancelled.is_set() or isinstance(error, OutputIncompleteError):
                raise
        except Exception as error:
            cause = failure_behind(str(error), self._tracker, self._end)
            self._tracker.fail(cause)
            if not self._end.cancelled.is_set():
                raise cause from error
        return None


def announce(summary: EpochSummary, committed: Callable[[EpochSummary], None]) -> None:
    """Hand on what a batch job that is committed has printed and collected. If that fails, it is not run again."""
    try:
        committed(summary)
    except Exception as error:
        raise OutputIncompleteError(
            f"the output of the batch job is committed, but what it printed or collected could not be written: {error}"
        ) from error


class PersistentCommitter:
    """Commits the output of a batch job. An attempt after the first commit would commit the same rows again.

    So a commit that fails is retried for a time; then the job fails for good.
    """

    def __init__(
        self, committer: SinkCommitter, clock: Clock, timeout_s: float, wait: Callable[[float], object]
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._timeout_s = timeout_s
        self._wait = wait

    def commit(self, committables: Sequence[Committable]) -> None:
        """Make the transactions visible. Raises OutputIncompleteError if that is not possible."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        for group in commit_groups(committables):
            while not self._try(group, is_last=self._clock.monotonic_s() >= deadline_s):
                self._wait(RETRY_S)

    def _try(self, group: Sequence[Committable], *, is_last: bool) -> bool:
        try:
            self._committer.commit(group)
        except Exception as error:
            if is_last:
                raise OutputIncompleteError(
                    f"transaction {group[0].transaction!r} of sink {group[0].sink_uid!r} could not be committed: "
                    f"{error}; other output of this batch job may be visible: remove it before you run the job again"
                ) from error
            return False
        return True

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        """Abort the transactions of older attempts."""
        self._committer.sweep(keep, attempt)
