"""When the epochs of an attempt run on Spark: one at a time, under a lock (PROTOCOL R15).

Epochs with rows run in Spark's callback thread. Epochs without rows, for timers, checkpoints, savepoints, waiting rows
and the end of the input, run in the attempt's own thread. What an epoch is, from header to commit, is in `_epoch`.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from penstock import failpoint
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.savepoints import Savepoints
from penstock.clock import Clock
from penstock.errors import JobFailedError, PenstockError, StorageError
from penstock.jobmanager.attempt.attempt import Attempt
from penstock.jobmanager.attempt.epoch_log import EpochLog
from penstock.jobmanager.attempt.epoch_tracker import EpochSummary, EpochTracker
from penstock.jobmanager.attempt.read_limit import ReadLimit
from penstock.jobmanager.attempt.source_tracker import SourceTracker
from penstock.jobmanager.attempt.spark_failure import spark_failure
from penstock.model.snapshot import SourcePosition
from penstock.runtime.process.messages import EpochHeader
from penstock.spark.epoch_query import EpochQuery, QuerySettings
from penstock.spark.epoch_runner import EpochRunner
from penstock.spark.offset_log import batch_files, batch_rows
from penstock.spark.read_limits import FILES, ROWS
from penstock.spark.source_files import require_files
from penstock.spark.warm_up import wait_for_warm_up

POLL_S = 0.1
IDLE_S = 0.3
"""While rows keep coming, timers and checkpoints wait for their epochs: an empty one needs this long without rows."""
BACKLOG_S = 1.0
"""The same, while more input waits than an epoch may read."""
FAILURE_GRACE_S = 3.0
FINAL_CHECKPOINT_TRIES = 5


@dataclass(frozen=True)
class AttemptEnd:
    """Tells every thread of an attempt that it ends."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    """The job was cancelled."""
    suspending: threading.Event = field(default_factory=threading.Event)
    """The job is being suspended: no epoch with rows starts any more, only one with a last checkpoint."""
    interrupted: threading.Event = field(default_factory=threading.Event)
    """The running Spark job is cancelled, and no pause goes on."""
    over: threading.Event = field(default_factory=threading.Event)
    """Nothing more is done."""

    @property
    def is_ending(self) -> bool:
        """No epoch starts any more."""
        return self.over.is_set() or self.cancelled.is_set()


@dataclass(frozen=True)
class EpochParts:
    """What an epoch needs, once the state is loaded."""

    tracker: EpochTracker
    sources: SourceTracker
    savepoints: Savepoints
    runner: EpochRunner
    end: AttemptEnd
    file_limit: ReadLimit = field(default_factory=ReadLimit.of_files)
    row_limit: ReadLimit = field(default_factory=ReadLimit.of_rows)


class EpochLoop:
    """Runs epochs when there are rows or something is due. `start_query` first."""

    def __init__(
        self,
        attempt: Attempt,
        parts: EpochParts,
        session: Any,
        clock: Clock,
        committed: Callable[[EpochSummary], None],
    ) -> None:
        """`session` is for epochs without rows; `committed` is called with each committed epoch."""
        self._attempt = attempt
        self._coordinator = attempt.coordinator
        self._tracker = parts.tracker
        self._sources = parts.sources
        self._savepoints = parts.savepoints
        self._runner = parts.runner
        self._end = parts.end
        self._file_limit = parts.file_limit
        self._row_limit = parts.row_limit
        self._limited: tuple[str, ...] = ()
        """For each stream of the query what is limited: FILES, ROWS or nothing."""
        self._session = session
        self._clock = clock
        self._committed = committed
        self._epoch_log = EpochLog()
        self._lock = threading.RLock()
        self._interval_s = 0.0
        self._started_at_s: float | None = None
        self._rows_at_s = clock.monotonic_s()
        self.epochs_begun = 0
        """Of this attempt, with or without rows."""

    def start_query(self, frame: Any, settings: QuerySettings) -> EpochQuery:
        """Let Spark read the sources and call `run_epoch` for every micro-batch."""
        self._interval_s = settings.epoch_interval_ms / 1000 if settings.bounded else 0.0
        self._limited = settings.limited
        with self._lock:  # Spark may call back at once, and an epoch needs to know its query
            self._query = EpochQuery(frame, settings, self.run_epoch)
        return self._query

    @property
    def has_backlog(self) -> bool:
        """The last epoch has read as much as it may: there is probably more."""
        return self._file_limit.is_reached or self._row_limit.is_reached

    # ---- Spark's callback thread

    def run_epoch(self, rows: Any, batch_id: int) -> None:
        """Called by Spark for every micro-batch. Whatever goes wrong is raised: Spark must not commit the batch."""
        wait_for_warm_up(self._session, self._end.interrupted)
        self._pace()
        with self._permission():
            try:
                self._complete_first_checkpoint()
                require_files(self._session, self._sources.folder, batch_id)
                rows.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
                self._process_until_suspended()
                if not self._tracker.waiting:
                    started_s = self._clock.monotonic_s()
                    self._epoch(rows, rows.sparkSession, batch_id)
                    self._rows_at_s = self._clock.monotonic_s()
                    self._process_until_suspended()
                    self._adapt_limit(batch_id, self._clock.monotonic_s() - started_s)
                    return
            except PenstockError as error:
                self._tracker.fail(error)
                raise
            except Exception as error:
                self._tracker.fail(self.cause_of(str(error)))
                raise
        self._end.over.wait()  # an error ends the query, and with it the attempt before its last checkpoint
        raise JobFailedError("the job is being suspended: older rows wait, and these are read again when it resumes")

    def _adapt_limit(self, batch_id: int, seconds: float) -> None:
        """Let the next epochs read as much as fits into the target time."""
        folder = self._sources.folder
        if FILES in self._limited:
            self._adapt(FILES, self._file_limit, [len(files) for files in batch_files(folder, batch_id)], seconds)
        if ROWS in self._limited:
            self._adapt(ROWS, self._row_limit, batch_rows(folder, batch_id), seconds)

    def _adapt(self, unit: str, limit: ReadLimit, counts: Sequence[int], seconds: float) -> None:
        read = [count for count, limited in zip(counts, self._limited, strict=False) if limited == unit]
        if limit.epoch_ended(read, seconds):
            self._query.set_limit(unit, limit.count)

    def _pace(self) -> None:
        """The epoch interval holds for bounded input too, for which Spark has no interval."""
        if self._started_at_s is not None:
            due_s = self._started_at_s + self._interval_s
            self._end.interrupted.wait(max(0.0, due_s - self._clock.monotonic_s()))
        self._started_at_s = self._clock.monotonic_s()

    @contextmanager
    def _permission(self) -> Iterator[None]:
        """The lock of epochs. PROTOCOL R30: an epoch with rows waits while a stop is requested or under way.

        In a job that is being suspended it waits for the end of the attempt.
        """
        while True:
            with self._lock:
                if self._end.is_ending or self._savepoints.stopped is not None:
                    raise JobFailedError("the attempt is over")
                is_suspending = self._end.suspending.is_set()
                if not is_suspending and not self._stop_first():
                    yield
                    return
            if is_suspending:
                self._end.over.wait(POLL_S)
            else:
                self._savepoints.wait_for_permission(POLL_S)

    # ---- the attempt's thread

    def run_empty_epoch_if_due(self) -> None:
        """Run an epoch without rows, unless nothing is due, another epoch runs, or a source was never read."""
        if self._are_sources_known and self._lock.acquire(blocking=False):
            try:
                if self._tracker.waiting or (not self._stop_first() and self._is_empty_epoch_due):
                    self._empty_epoch()
            finally:
                self._lock.release()

    def take_last_checkpoint(self) -> bool:
        """For a job that is being suspended: whether a checkpoint covers every epoch. If none does, one is started."""
        if not self._lock.acquire(blocking=False):
            return False  # an epoch runs
        try:
            epoch = self._tracker.epoch
            if epoch == self._attempt.origin.epoch or self._coordinator.covers(epoch):
                return True
            if self._are_sources_known and self._coordinator.is_settled:
                self._empty_epoch(forced=True)
            return False
        finally:
            self._lock.release()

    @property
    def _is_empty_epoch_due(self) -> bool:
        if self._clock.monotonic_s() - self._rows_at_s < (BACKLOG_S if self.has_backlog else IDLE_S):
            return False
        return self._coordinator.is_due or self._is_savepoint_due or self._tracker.timers_due()

    def run_final_epoch(self) -> None:
        """PROTOCOL R31: empty, aligned, with the MAX watermark; repeated until its checkpoint is complete."""
        for _ in range(FINAL_CHECKPOINT_TRIES):
            with self._lock:
                self._process_waiting_rows()
                failpoint.before("C29")
                header = self._empty_epoch(final=True)
                failpoint.after("C29")
            if not self._coordinator.can_recover:
                return
            if header.checkpoint is not None and self._wait_for_checkpoint(header.checkpoint):
                return
        raise JobFailedError(f"the final checkpoint failed {FINAL_CHECKPOINT_TRIES} times")

    def _wait_for_checkpoint(self, checkpoint: int) -> bool:
        """Whether the checkpoint was completed; False once it was aborted."""
        while not self._coordinator.is_settled:
            if self._tracker.failure is not None:
                raise self._tracker.failure
            self._end.over.wait(POLL_S / 2)
        if self._tracker.failure is not None:
            raise self._tracker.failure
        newest = self._coordinator.newest_completed
        return newest is not None and newest.checkpoint_id >= checkpoint

    @property
    def is_stop_due(self) -> bool:
        """A savepoint that stops the job is requested and can be taken."""
        request = self._savepoints.due()
        return request is not None and request.is_stop and self._is_savepoint_due

    def cause_of(self, text: str) -> PenstockError:
        """The error behind a failed Spark job."""
        return failure_behind(text, self._tracker, self._end)

    # ---- one epoch, under the lock

    def _epoch(
        self, rows: Any, session: Any, batch_id: int | None, *, final: bool = False, forced: bool = False
    ) -> EpochHeader:
        """One epoch from header to commit (PROTOCOL section 3). `forced`: its barrier carries a checkpoint."""
        started_ms = self._clock.now_ms()
        self.epochs_begun += 1
        self._attempt.log.check_fenced()  # PROTOCOL R4: at the start of each epoch
        may_save = not final and not self._tracker.waiting  # PROTOCOL R13: a savepoint holds no rows in flight
        header = self._tracker.begin(final=final, forced=forced, savepoint=may_save)
        first_task_ms = self._runner.run(session, rows, header, self._tracker.parents)
        if batch_id is not None:
            self._sources.advance(batch_id)
        summary = replace(self._tracker.commit(header, self._position(header)), first_task_ms=first_task_ms)
        self._committed(summary)  # at once: the checkpoint may be complete already
        self._epoch_log.write(summary, started_ms, self._clock.now_ms())
        return header

    def _empty_epoch(self, *, final: bool = False, forced: bool = False) -> EpochHeader:
        """An epoch without rows, in the query's job group (PROTOCOL R15). What goes wrong is an error of ours."""
        try:
            self._complete_first_checkpoint()
            self._session.sparkContext.setJobGroup(self._query.job_group, "empty epoch")
            return self._epoch(None, self._session, None, final=final, forced=forced)
        except PenstockError as error:
            self._tracker.fail(error)
            raise
        except Exception as error:
            cause = self.cause_of(str(error))
            self._tracker.fail(cause)  # before the lock is free: a waiting `run_epoch` must not begin this epoch again
            raise cause from error

    def _process_waiting_rows(self) -> None:
        """PROTOCOL R13: while rows wait in the subtasks, run epochs without new ones."""
        while self._tracker.waiting:
            if self._end.is_ending:
                raise JobFailedError("the attempt is over")
            self._empty_epoch()

    def _process_until_suspended(self) -> None:
        """The same, but in a job that is being suspended rows may wait on: its last checkpoint has them."""
        while self._tracker.waiting and not self._end.suspending.is_set():
            if self._end.is_ending:
                raise JobFailedError("the attempt is over")
            self._empty_epoch()

    def _stop_first(self) -> bool:
        """Whether a stop comes before the next rows; its barrier is sent if it was not yet."""
        if self.is_stop_due:
            self._process_waiting_rows()
            self._empty_epoch()
        return self._savepoints.is_stopping

    def _complete_first_checkpoint(self) -> None:
        """PROTOCOL R23: before the first epoch there is something to go back to."""
        if self._coordinator.needs_first_checkpoint:
            position = self._sources.position(self._coordinator.next_id, self._attempt.number)
            self._coordinator.first_checkpoint(position)

    def _position(self, header: EpochHeader) -> SourcePosition | None:
        """Where the sources are, for a checkpoint. If it cannot be written, only the checkpoint fails."""
        if header.checkpoint is None and header.savepoint is None:
            return None
        try:
            return self._sources.position(header.checkpoint or 0, self._attempt.number)
        except StorageError as error:
            if header.checkpoint is not None:
                self._coordinator.abort(header.checkpoint, FailureReason.IO, str(error))
            return None

    @property
    def _is_savepoint_due(self) -> bool:
        """A savepoint is requested, and the positions of the sources are known."""
        return self._savepoints.due() is not None and self._are_sources_known

    @property
    def _are_sources_known(self) -> bool:
        """Every source has an offset, or was polled and has recorded where it begins (R23)."""
        self._sources.is_known = self._sources.is_known or self._query.has_polled
        return self._sources.is_known


def failure_behind(text: str, tracker: EpochTracker, end: AttemptEnd) -> PenstockError:
    """The error behind a failed Spark job: Spark only knows that its task failed."""
    end.over.wait(0 if tracker.failure is not None else FAILURE_GRACE_S)
    return tracker.failure or spark_failure(text)
