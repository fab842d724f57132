"""The CheckpointCoordinator: starts checkpoints, collects acks, completes one at a time (PROTOCOL section 4).

Three kinds of threads call it: the epoch's (`check_fenced`, `start`, `epoch_committed`, `abort_all`), RPC threads
(`ack`, `decline`), and one completing thread (`complete_ready`), the only one that writes. It never sleeps: what failed
and may be tried again is tried by a later `complete_ready`. Any error that `complete_ready` raises ends the attempt.

Failpoints: `Cn.before` is just before the step that leads to the state PROTOCOL section 8 names, `Cn.after` is in it.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from penstock import failpoint
from penstock.checkpoint.checkpoint_request import CheckpointRequest
from penstock.checkpoint.checkpoint_schedule import CheckpointSchedule
from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.checkpoint.completion import Predecessor, build_manifest, first_manifest, publish, require_own_files
from penstock.checkpoint.failures import FailureCount, FailureReason
from penstock.checkpoint.file_names import checkpoint_of
from penstock.checkpoint.log.entries import Committing, Status
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.pending_checkpoint import EpochRecord, PendingCheckpoint
from penstock.checkpoint.retention import SweepScope
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.checkpoint.snapshot.manifest import file_paths
from penstock.checkpoint.stats.checkpoint_history import CheckpointHistory, CheckpointStats
from penstock.checkpoint.stats.state_sizes import add_up
from penstock.errors import CheckpointError, CheckpointFailedError, FencedError, NameTakenError
from penstock.model.ids import CheckpointId, SubtaskId
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    Committable,
    Manifest,
    SavepointOrder,
    SourcePosition,
    StateSize,
)


class CheckpointListenerHook(Protocol):
    """Who is told how checkpoints end: the functions, through their TaskManagers."""

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint exists and its sinks are committed."""
        ...

    def aborted(self, checkpoint_id: CheckpointId, reason: str) -> None:
        """The checkpoint will never exist."""
        ...


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
        self._history = CheckpointHistory()
        self._lock = threading.Lock()  # around everything that is not I/O
        self._completing = threading.Lock()  # PROTOCOL R21: one at a time
        self._pending: dict[int, PendingCheckpoint] = {}
        self._committables: dict[int, Sequence[Committable]] = {}
        self._requests: deque[CheckpointRequest] = deque()
        self._waiting: CheckpointRequest | None = None
        """For the checkpoint that is being committed."""
        # PROTOCOL R7: after the claim
        self._next_id = max(identity.first_checkpoint, _first_free_id(log.storage.list("")))
        self._completed = CompletedCheckpoints(settings, log, committer, restored)
        self._last_epoch = self._completed.last.epoch
        self._sizes: list[StateSize] | None = None
        self._failures = FailureCount(settings.tolerable_failures)
        self._fenced: str | None = None
        self._closed: FailureReason | None = None

    # ---- the epoch's thread

    def start(self, epoch: int, subtasks: Sequence[SubtaskId], *, forced: bool = False) -> CheckpointId | None:
        """The number of the checkpoint that the epoch's barrier carries; None if none may start now.

        What was asked for comes before what is due. The epoch's header must name `base_of` this number as what its
        subtasks build on.
        """
        with self._lock:
            self._require_owner()
            busy = self._busy_count()
            is_request_due = self._is_request_due(busy)
            if not (forced or is_request_due or self._schedule.may_start(busy)):
                return None
            request = self._requests.popleft() if is_request_due else None
            number = max(self.next_id, 1)
            self._next_id = number + 1
            now_ms = self._clock.now_ms()
            deadline_s = self._clock.monotonic_s() + self._settings.timeout_ms / 1000
            base = self._completed.newest
            self._pending[number] = PendingCheckpoint(
                number, epoch, frozenset(subtasks), base, now_ms, deadline_s, request=request
            )
            self._schedule.started()
            self._history.started(number, now_ms, subtasks=len(subtasks), manual=request is not None)
            return CheckpointId(number)

    def check_fenced(self) -> None:
        """Raise FencedError if a newer attempt owns the job: looked up at the start of each epoch (PROTOCOL R4)."""
        self._require_owner()
        self._log.check_fenced()

    def epoch_committed(self, record: EpochRecord) -> None:
        """Take note of an epoch whose action has returned and whose subtasks have all reported (PROTOCOL R14)."""
        with self._lock:
            if record.epoch <= self._last_epoch:
                raise ValueError(f"epoch {record.epoch} is committed after epoch {self._last_epoch}")
            self._last_epoch = record.epoch
            if record.committables:
                self._committables[record.epoch] = tuple(record.committables)
            for pending in self._pending.values():
                if pending.epoch == record.epoch:
                    pending.record = record

    def abort(self, checkpoint_id: int, reason: FailureReason, detail: str = "") -> None:
        """Give up a checkpoint that its epoch could not carry, before that epoch is committed."""
        self._abort([checkpoint_id], reason, detail)

    def abort_all(self, reason: FailureReason) -> None:
        """Give up every pending checkpoint; one that is being completed right now is left to its end."""
        with self._lock:
            chosen = [number for number, pending in self._pending.items() if not pending.is_completing]
            given_up = self._forget(chosen, reason)
        self._tell_aborted(given_up, reason.text())

    def close(self, reason: FailureReason) -> None:
        """The attempt is over: nothing that is pending completes any more, and nobody waits for it in vain."""
        self.abort_all(reason)
        with self._lock:
            self._closed = reason
            refused = [*self._requests, *([self._waiting] if self._waiting is not None else [])]
            self._requests.clear()
        for request in refused:
            request.fail(reason.text())

    # ---- any thread

    def request(self, *, full: bool = False) -> Future[CheckpointId]:
        """The number of a checkpoint at the next barrier that has room for one, or a CheckpointFailedError."""
        request = CheckpointRequest(full=full)
        with self._lock:
            if self._closed is None:
                self._requests.append(request)
                return request.future
        request.fail(self._closed.text())
        return request.future

    # ---- RPC threads

    def ack(self, ack: CheckpointAck) -> None:
        """Take a subtask's part. One that comes late, twice or for a dropped run of the epoch changes nothing."""
        with self._lock:
            pending = self._pending.get(ack.checkpoint_id)
            if pending is not None:
                pending.acknowledge(ack)

    def decline(self, decline: CheckpointDecline) -> None:
        """Take note that a subtask cannot take part."""
        with self._lock:
            pending = self._pending.get(decline.checkpoint_id)
            if pending is not None:
                pending.decline(decline)

    # ---- the completing thread

    def complete_ready(self) -> list[CheckpointId]:
        """Do what can be done now; return the checkpoints that exist, are committed and were told since the last call.

        Raises FencedError if a newer attempt owns the job, CheckpointFailedError if too many checkpoints have failed
        or a commit does not end, SinkTransactionLostError if output is lost, UnknownOutcomeError if the log does not
        answer.
        """
        with self._completing:
            self._require_owner()
            try:
                return self._advance()
            except FencedError as error:
                self._fenced = str(error)
                raise

    def first_checkpoint(self, source: SourcePosition) -> None:
        """Complete the checkpoint before the first epoch: empty state, the sources' initial positions (PROTOCOL R23).

        `next_id` is its number, for the name of the source position's file.
        """
        with self._completing:
            self._require_owner()
            view = self._log.view()
            if view.started or view.claim is None:
                raise CheckpointError("a job with a checkpoint never starts from nothing; restore it")
            with self._lock:
                number = self.next_id
                self._next_id = number + 1
                self._history.started(number, self._clock.now_ms())
            manifest = first_manifest(number, self._identity, source, self._clock.now_ms(), view.claim.max_parallelism)
            try:
                require_own_files(manifest, None, self._log)
                publish(manifest, self._log)
                # Nothing is committed, but rows follow. Were the `complete` lost while it is the last entry, nobody
                # would miss it, and the sources would begin somewhere else.
                self._log.append(Committing(number))
            except NameTakenError as error:
                raise CheckpointFailedError(f"checkpoint {number} was put by another attempt: {error}") from error
            with self._lock:
                self._completed.last = Predecessor(number, manifest.epoch)
                self._completed.newest = manifest
                self._last_epoch = max(self._last_epoch, manifest.epoch)
                self._history.completed(number, self._clock.now_ms())

    def finish(self, status: Status, *, keep_checkpoints: bool) -> None:
        """Append how the job ended, then discard and delete what is not kept (PROTOCOL R31).

        Raises CheckpointError while a checkpoint is pending, or while commits are left that nobody could do later:
        those of a finished job, or of checkpoints that are not kept.
        """
        with self._completing:
            self._require_owner()
            is_last_chance = status.status == "finished" or not keep_checkpoints
            if self._pending or (self._completed.is_committing and is_last_chance):
                raise CheckpointError("checkpoints are pending or not committed; complete or abort them first")
            self._log.append(status)
            with self._lock:
                self._completed.newest = None  # nothing builds on it any more
            self._completed.collect(self._settings.retained if keep_checkpoints else 0, self._scope)

    def end_job(self, status: Status) -> None:
        """Abort what is pending, append how the job ended, and delete the checkpoints that are not kept."""
        self.close(FailureReason.SHUTDOWN)
        if status.status == "finished" or self.is_settled:
            self.finish(status, keep_checkpoints=self._settings.keeps(status.status))
        else:
            self._log.append(status)  # the next attempt needs what is not committed yet

    def hold(self, checkpoint_id: int, *, held: bool) -> None:
        """Do not complete a pending checkpoint, or do so again."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            if pending is not None:
                pending.is_held = held

    def savepoint_taken(self, order: SavepointOrder, *, stops: bool) -> None:
        """The savepoint at the barrier of a checkpoint exists."""
        with self._lock:
            self._history.saved(order.number, order.format, order.uri, stops=stops)

    # ---- figures

    @property
    def newest_completed(self) -> Manifest | None:
        """The newest checkpoint that subtasks of the next epoch may build on."""
        return self._completed.newest

    @property
    def next_id(self) -> int:
        """The number that the next checkpoint gets: above every number in the log and on storage (PROTOCOL R7)."""
        return max(self._next_id, self._log.view().highest_checkpoint + 1)

    @property
    def is_settled(self) -> bool:
        """No checkpoint is pending and every commit is confirmed."""
        with self._lock:
            return not self._pending and not self._completed.is_committing

    @property
    def cleaning_failure(self) -> str | None:
        """Why the last removal of old files and transactions failed; it is tried again after the next checkpoint."""
        return self._completed.cleaning_failure

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
            last, busy = self._completed.last, self._busy_count()
            has_changed = last.checkpoint_id is None or self._last_epoch > last.epoch
            return self._is_request_due(busy) or (has_changed and self._schedule.may_start(busy))

    def covers(self, epoch: int) -> bool:
        """Whether a checkpoint of this epoch or a later one is complete, and its sinks are committed."""
        newest = self._completed.newest
        return newest is not None and newest.epoch >= epoch

    def failure_of(self, checkpoint_id: int, epoch: int) -> str | None:
        """Why the checkpoint at the barrier of an epoch failed; None if it has not, or if a newer one exists."""
        if self._completed.last.epoch >= epoch:
            return None
        for stats in self.history():
            if stats.checkpoint_id == checkpoint_id and stats.status == "failed":
                return stats.failure
        return None

    def base_of(self, checkpoint_id: int) -> Manifest | None:
        """What subtasks may build this pending checkpoint on: kept until it has ended (PROTOCOL R18)."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            return pending.usable_base if pending is not None else None

    def spool_after_ms(self, checkpoint_id: int | None, *, waiting: bool) -> int | None:
        """How long the subtasks of an epoch with this checkpoint, or without any, work on their rows (R13)."""
        with self._lock:
            busy = self._busy_count()
            return self._schedule.spool_after_ms(busy, checkpoint=checkpoint_id is not None, waiting=waiting)

    def history(self) -> tuple[CheckpointStats, ...]:
        """The last ten checkpoints, oldest first."""
        with self._lock:
            return self._history.entries()

    @property
    def state_sizes(self) -> list[StateSize] | None:
        """How large the states were at the newest checkpoint of this attempt; None before it. Never changed."""
        return self._sizes

    # ---- completion, in PROTOCOL R21's order

    def _advance(self) -> list[CheckpointId]:
        told: list[CheckpointId] = []
        self._settle(told)
        self._abort_hopeless()
        while not self._completed.is_committing and (pending := self._take_ready()) is not None:
            if self._complete(pending):
                self._settle(told)
        if not self._completed.is_committing:
            self._completed.collect_if_due(self._scope)
        with self._lock:
            self._failures.require_tolerable()
        return told

    def _take_ready(self) -> PendingCheckpoint | None:
        """The oldest checkpoint whose epoch is committed (PROTOCOL R20) and whose acks are all there."""
        with self._lock:
            for number in sorted(self._pending):
                pending = self._pending[number]
                if not pending.is_held and pending.declined() is None and pending.counted() is not None:
                    pending.is_completing = True
                    return pending
            return None

    def _complete(self, pending: PendingCheckpoint) -> bool:
        """Make the checkpoint exist; false if it had to be aborted."""
        try:
            failpoint.before("C17")
            manifest = self._manifest_of(pending)
            failpoint.after("C17")
        except CheckpointError as error:
            self._abort([pending.checkpoint_id], FailureReason.FINALIZE, str(error))
            return False
        failure = self._completed.publish(manifest, pending.usable_base)
        if failure is not None:
            self._abort([pending.checkpoint_id], FailureReason.FINALIZE, failure)
            return False
        with self._lock:
            del self._pending[pending.checkpoint_id]
            self._completed.published(manifest)
            self._committables = {e: found for e, found in self._committables.items() if e > manifest.epoch}
            acks = pending.counted() or []
            self._history.completed(manifest.checkpoint_id, self._clock.now_ms(), acks)
            self._sizes = add_up(size for ack in acks for size in ack.sizes)
            self._failures.reset()
            self._waiting = pending.request
            older = self._forget([n for n in self._pending if n < manifest.checkpoint_id], FailureReason.SUBSUMED)
        self._tell_aborted(older, FailureReason.SUBSUMED.text())
        return True

    def _manifest_of(self, pending: PendingCheckpoint) -> Manifest:
        with self._lock:
            acks = pending.counted() or []
            last = self._completed.last
            # PROTOCOL R20: committables of the epochs in (epoch of the last complete, e]; later ones stay.
            epochs = [epoch for epoch in sorted(self._committables) if last.epoch < epoch <= pending.epoch]
            committables = [committable for epoch in epochs for committable in self._committables[epoch]]
            return build_manifest(pending, acks, self._identity, last, committables)

    def _settle(self, told: list[CheckpointId]) -> None:
        """Commit, tell and clean up after the last completed checkpoint, unless a commit has to be repeated later."""
        manifest = self._completed.commit()
        if manifest is None:
            return
        number = CheckpointId(manifest.checkpoint_id)
        failpoint.before("C21")
        with self._lock:
            self._completed.committed(manifest)
            self._schedule.completed()
            request, self._waiting = self._waiting, None
        failpoint.after("C21")
        self._listener.completed(number)
        told.append(number)
        if request is not None:
            request.complete(number)
        self._completed.clean_after(manifest, self._scope)

    # ---- aborts and garbage

    def _abort_hopeless(self) -> None:
        """Abort what was declined, and what has taken too long (PROTOCOL R22)."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            verdicts = [(pending, self._verdict(pending, now_s)) for pending in self._pending.values()]
        for pending, verdict in verdicts:
            if verdict is not None:
                self._abort([pending.checkpoint_id], *verdict)

    def _verdict(self, pending: PendingCheckpoint, now_s: float) -> tuple[FailureReason, str] | None:
        declined = pending.declined()
        if declined is not None:
            return declined
        if now_s >= pending.deadline_s and pending.counted() is None:
            return FailureReason.EXPIRED, ""
        return None

    def _abort(self, numbers: Iterable[int], reason: FailureReason, detail: str = "") -> None:
        with self._lock:
            given_up = self._forget(numbers, reason, detail)
        self._tell_aborted(given_up, reason.text(detail))

    def _forget(self, numbers: Iterable[int], reason: FailureReason, detail: str = "") -> list[PendingCheckpoint]:
        """PROTOCOL R22: they will never exist, and their files go with the next removal."""
        text = reason.text(detail)
        found = [self._pending.pop(number) for number in list(numbers) if number in self._pending]
        for pending in found:
            number = pending.checkpoint_id
            self._history.failed(number, self._clock.now_ms(), text, pending.acknowledged())
            self._failures.add(number, reason, text)
            self._completed.collect_due = True
        return found

    def _tell_aborted(self, given_up: Iterable[PendingCheckpoint], text: str) -> None:
        for pending in given_up:
            if pending.request is not None:
                pending.request.fail(text)
            self._listener.aborted(CheckpointId(pending.checkpoint_id), text)

    def _busy_count(self) -> int:
        return len(self._pending) + self._completed.is_committing

    def _is_request_due(self, busy_count: int) -> bool:
        return bool(self._requests) and self._schedule.has_room(busy_count)

    def _scope(self, present: Sequence[str]) -> SweepScope:
        with self._lock:
            given_out = self.next_id
            # PROTOCOL R7: a number that an older attempt has used meanwhile is used up, so that its manifest may go.
            self._next_id = max(given_out, _first_free_id(present))
            pins = [pending.base for pending in self._pending.values() if pending.base is not None]
            if self._completed.newest is not None:
                pins.append(self._completed.newest)
            return SweepScope(
                attempt=self._identity.attempt,
                next_checkpoint=given_out,
                pending=frozenset(self._pending),
                pinned=frozenset(path for manifest in pins for path in file_paths(manifest)),
                log_number=self._log.view().number,
            )

    def _require_owner(self) -> None:
        if self._fenced is not None:
            raise FencedError(self._fenced)


def _first_free_id(present: Iterable[str]) -> int:
    numbers = (checkpoint_of(path) for path in present)
    return max((number for number in numbers if number is not None), default=-1) + 1
