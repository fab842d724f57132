"""The CheckpointCoordinator: starts checkpoints, collects acks, and has each completed checkpoint published.

Three kinds of threads call it: the epoch's (`check_fenced`, `start`, `epoch_committed`, `abort`), RPC threads (`ack`,
`decline`), and one completing thread (`complete_ready`), the only one that writes: what it does is in `publication.py`.
It never sleeps: a step that failed and may be repeated is repeated by a later `complete_ready`. Any error that
`complete_ready` raises ends the attempt.

Failpoints: `Cn.before` is just before the step that leads to the crash point `Cn`, `Cn.after` is at it.
"""

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from penstock import failpoint
from penstock.checkpoint.checkpoint_numbers import CheckpointNumbers
from penstock.checkpoint.checkpoint_request import CheckpointRequest
from penstock.checkpoint.checkpoint_schedule import CheckpointSchedule
from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.failures import FailureCount, FailureReason
from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.pending_checkpoint import EpochRecord, Pending, PendingCheckpoint, PendingCheckpoints
from penstock.checkpoint.publication import CheckpointListenerHook, Publication
from penstock.checkpoint.retention import SweepScope
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.checkpoint.snapshot.manifest import file_paths
from penstock.checkpoint.stats.checkpoint_history import CheckpointHistory, CheckpointStats
from penstock.checkpoint.stats.state_sizes import add_up
from penstock.errors import CheckpointError, FencedError
from penstock.model.ids import CheckpointId, SubtaskId
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    Manifest,
    SourcePosition,
    StateSize,
)


class CheckpointCoordinator:
    """Checkpoints of one attempt, after its claim and, if it restored something, after its `restore` entry."""

    def __init__(
        self,
        settings: CheckpointSettings,
        log: JobLog,
        identity: WriterIdentity,
        committer: SinkCommitter,
        listener: CheckpointListenerHook,
        *,
        restored: Manifest | None,
    ) -> None:
        if log.view().attempt != identity.attempt:
            raise ValueError(f"the log is at attempt {log.view().attempt}, the coordinator at {identity.attempt}")
        self._settings = settings
        self._log = log
        self._identity = identity
        self._clock = log.clock
        self._listener = listener
        self._schedule = CheckpointSchedule(settings, log.clock)
        self._publication = Publication(settings, log, committer, listener, self._schedule, restored=restored)
        self._lock = threading.Lock()  # around everything that is not I/O
        self._completing = threading.Lock()  # PROTOCOL R21: one at a time
        self._pending = PendingCheckpoints()
        self._numbers = CheckpointNumbers(log, identity.first_checkpoint)
        self._last_epoch = self._publication.state.last_epoch
        self._history = CheckpointHistory()
        self._sizes: list[StateSize] | None = None
        self._failures = FailureCount(settings.tolerable_failures)
        self._fenced: str | None = None
        self._closed: FailureReason | None = None

    # ---- the epoch's thread

    def start(self, epoch: int, subtasks: Sequence[SubtaskId], *, forced: bool = False) -> CheckpointId | None:
        """The number of the checkpoint that the epoch's barrier carries; None if none may start now.

        A requested checkpoint comes before a periodic one. The epoch's header must name `base_of` this number as what
        its subtasks build on.
        """
        with self._lock:
            self._require_owner()
            busy = self._busy_count()
            request = self._schedule.take_request(busy)
            if not (forced or request is not None or self._schedule.may_start(busy)):
                return None
            number = self._numbers.take(lowest=1)
            now_ms = self._clock.now_ms()
            deadline_s = self._clock.monotonic_s() + self._settings.timeout_ms / 1000
            base = self._publication.state.newest if request is None or not request.full else None
            self._pending.add(PendingCheckpoint(number, epoch, frozenset(subtasks), request, now_ms, deadline_s, base))
            self._schedule.started()
            self._history.started(number, now_ms, subtasks=len(subtasks), manual=request is not None)
            return CheckpointId(number)

    def check_fenced(self) -> None:
        """Raise FencedError if a newer attempt owns the job: at the start of each epoch (PROTOCOL R4)."""
        self._require_owner()
        self._log.check_fenced()

    def epoch_committed(self, record: EpochRecord) -> None:
        """Note an epoch whose Spark job has ended and whose subtasks have all reported (PROTOCOL R14)."""
        with self._lock:
            if record.epoch <= self._last_epoch:
                raise ValueError(f"epoch {record.epoch} is committed after epoch {self._last_epoch}")
            self._last_epoch = record.epoch
            self._pending.epoch_committed(record)

    def abort(self, checkpoint_id: int, reason: FailureReason, detail: str = "") -> None:
        """Abort a checkpoint that its epoch cannot carry, before that epoch is committed."""
        self._abort([checkpoint_id], reason, detail)

    def abort_all(self, reason: FailureReason) -> None:
        """Abort every pending checkpoint, except one that is being published right now."""
        with self._lock:
            aborted = self._forget(self._pending.abortable(), reason)
        self._notify_aborted(aborted, reason.text())

    def close(self, reason: FailureReason) -> None:
        """The attempt is over: no pending checkpoint completes any more, and every open request fails."""
        self.abort_all(reason)
        with self._lock:
            self._closed = reason
            dropped = self._schedule.drop_requests()
        for request in dropped:
            request.fail(reason.text())
        self._publication.fail_request(reason.text())
        if self._completing.acquire(blocking=False):  # otherwise `complete_ready` does it when it ends
            self._completing.release()
            self._fail_open_requests()

    # ---- any thread

    def request(self, *, full: bool = False) -> Future[CheckpointId]:
        """The number of a checkpoint at the next barrier that has room for one, or a CheckpointFailedError."""
        request = CheckpointRequest(full=full)
        with self._lock:
            if self._closed is None:
                self._schedule.add(request)
                return request.future
        request.fail(self._closed.text())
        return request.future

    # ---- RPC threads

    def ack(self, ack: CheckpointAck) -> None:
        """Keep a subtask's part. One that comes late, twice or from a dropped run of the epoch changes nothing."""
        with self._lock:
            pending = self._pending.find(ack.checkpoint_id)
            if pending is not None:
                pending.acknowledge(ack)

    def decline(self, decline: CheckpointDecline) -> None:
        """Note that a subtask cannot write its part."""
        reason = FailureReason.ASYNC if decline.asynchronous else FailureReason.DECLINED
        with self._lock:
            pending = self._pending.find(decline.checkpoint_id)
            if pending is not None:
                pending.decline(decline.subtask, decline.version, reason, decline.reason)

    # ---- the completing thread

    def complete_ready(self) -> list[CheckpointId]:
        """Publish every checkpoint that has all its parts; those whose commits have ended since the last call.

        Raises FencedError if a newer attempt owns the job, CheckpointFailedError if too many checkpoints have failed
        or a commit does not end, SinkTransactionLostError if output is lost, UnknownOutcomeError if the log does not
        answer.
        """
        try:
            with self._completing:
                self._require_owner()
                return self._advance()
        except FencedError as error:
            self._fenced = str(error)
            raise
        finally:
            self._fail_open_requests()

    def first_checkpoint(self, source: SourcePosition) -> None:
        """Complete the checkpoint before the first epoch: empty state, the sources' initial positions (PROTOCOL R23).

        `next_id` is its number, for the name of the source position's file.
        """
        with self._completing:
            self._require_owner()
            view = self._log.view()
            if view.started or view.claim is None:
                raise CheckpointError("a job with a checkpoint never starts from nothing; restore it")
            now_ms = self._clock.now_ms()
            with self._lock:
                number = self._numbers.take()
                self._history.started(number, now_ms)
            record = EpochRecord(0, now_ms, {}, (), source, {}, {}, view.claim.max_parallelism)
            first: Pending = PendingCheckpoint(number, 0, frozenset(), None, now_ms, 0.0, record=record)
            self._publication.publish_first(first.build_manifest(self._identity))
            with self._lock:
                self._history.completed(number, self._clock.now_ms())

    def finish(self, status: Status, *, keep_checkpoints: bool) -> None:
        """Append how the job ended, then discard and delete what is not kept (PROTOCOL R31).

        Raises CheckpointError while a checkpoint is pending, or while commits are open that no later attempt would do:
        those of a finished job, or of checkpoints that are not kept.
        """
        with self._completing:
            self._require_owner()
            is_last_chance = status.status == "finished" or not keep_checkpoints
            if self._pending or (self._publication.state.is_committing and is_last_chance):
                raise CheckpointError("checkpoints are pending or not committed; complete or abort them first")
            self._publication.finish(status, self._settings.retained if keep_checkpoints else 0, self._scope)

    def end_job(self, status: Status) -> None:
        """Abort what is pending, append how the job ended, and delete the checkpoints that are not kept."""
        self.close(FailureReason.SHUTDOWN)
        if status.status == "finished" or self.is_settled:
            self.finish(status, keep_checkpoints=self._settings.keeps(status.status))
        else:
            self._log.append(status)  # the next attempt needs what is not committed yet

    # ---- the savepoint at a checkpoint's barrier

    def hold(self, checkpoint_id: int) -> None:
        """Do not complete a pending checkpoint before `release`: until then it can be taken back."""
        with self._lock:
            self._pending.hold(checkpoint_id)

    def release(self, checkpoint_id: int) -> None:
        """Let a checkpoint complete."""
        with self._lock:
            self._pending.release(checkpoint_id)

    def savepoint_taken(self, checkpoint_id: int, request: SavepointRequest, path: str) -> None:
        """The savepoint at the barrier of a checkpoint exists."""
        with self._lock:
            self._history.saved(checkpoint_id, request.format, path, stops=request.is_stop)

    def covers(self, epoch: int) -> bool:
        """Whether a checkpoint of this epoch or a later one is complete, and its sinks are committed."""
        newest = self._publication.state.newest
        return newest is not None and newest.epoch >= epoch

    def failure_of(self, checkpoint_id: int, epoch: int) -> str | None:
        """Why the checkpoint at the barrier of an epoch failed; None if it has not, or if a newer one exists."""
        if self._publication.state.last_epoch >= epoch:
            return None
        for stats in self.history():
            if stats.checkpoint_id == checkpoint_id and stats.status == "failed":
                return stats.failure
        return None

    # ---- figures

    @property
    def newest_completed(self) -> Manifest | None:
        """The newest checkpoint that subtasks of the next epoch may build on."""
        return self._publication.state.newest

    @property
    def next_id(self) -> int:
        """The number that the next checkpoint gets."""
        return self._numbers.next

    @property
    def is_settled(self) -> bool:
        """No checkpoint is pending and every commit is confirmed."""
        with self._lock:
            return not self._pending and not self._publication.state.is_committing

    @property
    def cleaning_failure(self) -> str | None:
        """Why the last removal of old files and transactions failed; it is tried again after the next checkpoint."""
        return self._publication.cleaning_failure

    @property
    def can_recover(self) -> bool:
        """A new attempt restores a checkpoint, and completes a stop that the log knows of."""
        return True

    @property
    def needs_first_checkpoint(self) -> bool:
        """There is nothing to go back to: no checkpoint, and nothing was restored (PROTOCOL R23)."""
        return not self._log.view().started

    @property
    def is_due(self) -> bool:
        """A checkpoint should start: a requested one, or, if an epoch was committed since the last, a periodic one.

        Never before the first checkpoint, which no epoch carries.
        """
        with self._lock:
            if self.needs_first_checkpoint:
                return False
            published, busy = self._publication.state, self._busy_count()
            has_changed = published.last_id is None or self._last_epoch > published.last_epoch
            return self._schedule.is_request_due(busy) or (has_changed and self._schedule.may_start(busy))

    def base_of(self, checkpoint_id: int) -> Manifest | None:
        """The checkpoint that subtasks build this pending one on; None: on nothing (PROTOCOL R18)."""
        with self._lock:
            pending = self._pending.find(checkpoint_id)
            return pending.base if pending is not None else None

    def spool_after_ms(self, checkpoint_id: int | None, *, waiting: bool) -> int | None:
        """How long the subtasks of an epoch, with a checkpoint or without, process rows before they spool the rest."""
        with self._lock:
            busy = self._busy_count()
            return self._schedule.spool_after_ms(busy, checkpoint=checkpoint_id is not None, waiting=waiting)

    def history(self) -> tuple[CheckpointStats, ...]:
        """The last ten checkpoints, oldest first."""
        with self._lock:
            return self._history.entries()

    @property
    def state_sizes(self) -> list[StateSize] | None:
        """How large the states were at the newest checkpoint of this attempt; None before the first."""
        return self._sizes

    # ---- completion

    def _advance(self) -> list[CheckpointId]:
        settled = [self._publication.settle(self._scope)]
        self._abort_failed()
        while not self._publication.state.is_committing and (pending := self._take_ready()) is not None:
            if self._publish(pending):
                settled.append(self._publication.settle(self._scope))
        if not self._publication.state.is_committing:
            self._publication.collect_if_due(self._scope)
        with self._lock:
            self._failures.require_tolerable()
        return [number for number in settled if number is not None]

    def _take_ready(self) -> Pending | None:
        with self._lock:
            return self._pending.take_ready()

    def _publish(self, pending: Pending) -> bool:
        """Make the checkpoint exist; false if it had to be aborted."""
        try:
            failpoint.before("C17")
            manifest = self._manifest_of(pending)
            failpoint.after("C17")
        except CheckpointError as error:
            self._abort([pending.checkpoint_id], FailureReason.FINALIZE, str(error))
            return False
        failure = self._publication.publish(manifest, pending.base, pending.request)
        if failure is not None:
            self._abort([pending.checkpoint_id], FailureReason.FINALIZE, failure)
            return False
        with self._lock:
            subsumed = self._forget(self._pending.published(pending), FailureReason.SUBSUMED)
            acks = pending.counted() or []
            self._history.completed(
                manifest.checkpoint_id, self._clock.now_ms(), acks, metadata_bytes=self._publication.metadata_bytes
            )
            self._sizes = add_up(size for ack in acks for size in ack.sizes)
            self._failures.reset()
        self._notify_aborted(subsumed, FailureReason.SUBSUMED.text())
        return True

    def _manifest_of(self, pending: Pending) -> Manifest:
        last = self._publication.state
        with self._lock:
            committables = self._pending.committables(last.last_epoch, pending.epoch)
            return pending.build_manifest(self._identity, parent=last.last_id, committables=committables)

    # ---- aborts and garbage

    def _abort_failed(self) -> None:
        """Abort checkpoints that a subtask has declined, and those that have taken too long (PROTOCOL R22)."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            failures = [(pending, self._failure(pending, now_s)) for pending in self._pending]
        for pending, failure in failures:
            if failure is not None:
                self._abort([pending.checkpoint_id], *failure)

    def _failure(self, pending: Pending, now_s: float) -> tuple[FailureReason, str] | None:
        failure = pending.why_failed()
        if failure is None and now_s >= pending.deadline_s and pending.counted() is None:
            return FailureReason.EXPIRED, ""
        return failure

    def _abort(self, numbers: Iterable[int], reason: FailureReason, detail: str = "") -> None:
        with self._lock:
            aborted = self._forget(numbers, reason, detail)
        self._notify_aborted(aborted, reason.text(detail))

    def _forget(self, numbers: Iterable[int], reason: FailureReason, detail: str = "") -> list[Pending]:
        """PROTOCOL R22: they will never exist, and their files are removed with the next collection."""
        text = reason.text(detail)
        found = self._pending.remove(numbers)
        for pending in found:
            number = pending.checkpoint_id
            self._history.failed(number, self._clock.now_ms(), text, pending.acknowledged())
            self._failures.add(number, reason, text)
            self._publication.collect_later()
        return found

    def _notify_aborted(self, aborted: Iterable[Pending], text: str) -> None:
        for pending in aborted:
            if pending.request is not None:
                pending.request.fail(text)
            self._listener.aborted(CheckpointId(pending.checkpoint_id), text)

    def _fail_open_requests(self) -> None:
        """Once the attempt is over, fail the request for a checkpoint that was being published when it was closed.

        `close` and the end of `complete_ready` both call this without `_completing`, so that the later one of them
        finds what the other has left.
        """
        with self._lock:
            if self._closed is None:
                return
            text = self._closed.text()
            requests = [pending.request for pending in self._pending if pending.request is not None]
        for request in requests:
            request.fail(text)
        self._publication.fail_request(text)

    def _busy_count(self) -> int:
        return len(self._pending) + self._publication.state.is_committing

    def _scope(self, present: Sequence[str]) -> SweepScope:
        with self._lock:
            next_checkpoint = self._numbers.next
            self._numbers.skip(present)
            newest = self._publication.state.newest
            pins = [base for base in (newest, *(pending.base for pending in self._pending)) if base is not None]
            return SweepScope(
                attempt=self._identity.attempt,
                next_checkpoint=next_checkpoint,
                pending=frozenset(pending.checkpoint_id for pending in self._pending),
                pinned=frozenset(path for manifest in pins for path in file_paths(manifest)),
                log_number=self._log.view().number,
            )

    def _require_owner(self) -> None:
        if self._fenced is not None:
            raise FencedError(self._fenced)
