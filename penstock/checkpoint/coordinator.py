"""The CheckpointCoordinator: starts checkpoints, collects acks, completes one at a time (PROTOCOL section 4).

Three kinds of threads call it: the epoch's (`check_fenced`, `start`, `epoch_committed`, `abort_all`), RPC threads
(`ack`, `decline`), and one completing thread (`complete_ready`), the only one that writes. It never sleeps: what failed
and may be tried again is tried by a later `complete_ready`. Any error that `complete_ready` raises ends the attempt.

Failpoints: `Cn.before` is just before the step that leads to the state PROTOCOL section 8 names, `Cn.after` is in it.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock import failpoint
from penstock.checkpoint.commits import CommitRun, SinkCommitter
from penstock.checkpoint.completion import Predecessor, build_manifest, first_manifest, publish, require_own_files
from penstock.checkpoint.decider import Decider
from penstock.checkpoint.entries import Status
from penstock.checkpoint.history import CheckpointHistory, CheckpointStats
from penstock.checkpoint.log import JobLog
from penstock.checkpoint.manifest import file_paths
from penstock.checkpoint.names import checkpoint_of
from penstock.checkpoint.pending import EpochRecord, PendingCheckpoint
from penstock.checkpoint.retention import SweepScope, collect_garbage
from penstock.checkpoint.settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.state_sizes import add_up
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    FencedError,
    LogCorruptError,
    NameTakenError,
    StorageError,
)
from penstock.model.ids import CheckpointId, SubtaskId
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, Committable, Manifest, SourcePosition, StateSize


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
        self._committer = committer
        self._listener = listener
        self._decider = Decider(settings, log.clock)
        self._history = CheckpointHistory()
        self._lock = threading.Lock()  # around everything that is not I/O
        self._completing = threading.Lock()  # PROTOCOL R21: one at a time
        self._pending: dict[int, PendingCheckpoint] = {}
        self._committables: dict[int, Sequence[Committable]] = {}
        self._next_id = _first_free_id(log.storage.list(""))  # PROTOCOL R7: after the claim
        self._last, self._newest = self._where_from(restored)
        self._last_epoch = self._last.epoch
        self._commits: CommitRun | None = None
        self._sizes: list[StateSize] | None = None
        self._failures: list[str] = []
        self._collect_due = True
        self._is_final = False
        self._cleaning_failure: str | None = None
        self._fenced: str | None = None

    # ---- the epoch's thread

    def start(self, epoch: int, subtasks: Sequence[SubtaskId], *, forced: bool = False) -> CheckpointId | None:
        """The number of the checkpoint that the epoch's barrier carries; None if none may start now.

        The epoch's header must name `base_of` this number as what its subtasks build on.
        """
        with self._lock:
            self._require_owner()
            busy = len(self._pending) + (self._commits is not None)
            if not forced and not self._decider.may_start(busy):
                return None
            number = max(self.next_id, 1)
            self._next_id = number + 1
            deadline_s = self._clock.monotonic_s() + self._settings.timeout_ms / 1000
            self._pending[number] = PendingCheckpoint(
                number, epoch, frozenset(subtasks), self._newest, self._clock.now_ms(), deadline_s
            )
            self._decider.started()
            self._history.started(number, self._clock.now_ms())
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

    def abort_all(self, reason: str) -> None:
        """Give up every pending checkpoint; one that is being completed right now is left to its end."""
        with self._lock:
            chosen = [pending for pending in self._pending.values() if not pending.is_completing]
            for pending in chosen:
                self._forget(pending, reason)
        for pending in chosen:
            self._listener.aborted(CheckpointId(pending.checkpoint_id), reason)

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
                raise CheckpointError("a job with a checkpoint never starts from nothing; restore it (PROTOCOL R23)")
            with self._lock:
                number = self.next_id
                self._next_id = number + 1
                self._history.started(number, self._clock.now_ms())
            manifest = first_manifest(number, self._identity, source, self._clock.now_ms(), view.claim.max_parallelism)
            try:
                require_own_files(manifest, None, self._log)
                publish(manifest, self._log)
            except NameTakenError as error:
                raise CheckpointFailedError(f"checkpoint {number} was put by another attempt: {error}") from error
            with self._lock:
                self._last = Predecessor(number, manifest.epoch)
                self._last_epoch = max(self._last_epoch, manifest.epoch)
                self._newest = manifest
                self._history.completed(number, self._clock.now_ms(), 0)

    def finish(self, status: Status, *, keep_checkpoints: bool) -> None:
        """Append how the job ended, then discard and delete what is not kept (PROTOCOL R31).

        Raises CheckpointError while a checkpoint is pending, or while commits are left that nobody could do later:
        those of a finished job, or of checkpoints that are not kept.
        """
        with self._completing:
            self._require_owner()
            is_last_chance = status.status == "finished" or not keep_checkpoints
            if self._pending or (self._commits is not None and is_last_chance):
                raise CheckpointError("checkpoints are pending or not committed; complete or abort them first")
            self._log.append(status)
            with self._lock:
                self._newest = None  # nothing builds on it any more
            self._collect(self._settings.retained if keep_checkpoints else 0)

    # ---- figures

    @property
    def newest_completed(self) -> Manifest | None:
        """The newest checkpoint that subtasks of the next epoch may build on."""
        return self._newest

    @property
    def next_id(self) -> int:
        """The number that the next checkpoint gets: above every number in the log and on storage (PROTOCOL R7)."""
        return max(self._next_id, self._log.view().highest_checkpoint + 1)

    @property
    def dirty(self) -> bool:
        """An epoch was committed since the newest completed checkpoint."""
        return self._last_epoch > self._last.epoch

    @property
    def is_settled(self) -> bool:
        """No checkpoint is pending and every commit is confirmed."""
        with self._lock:
            return not self._pending and self._commits is None

    @property
    def cleaning_failure(self) -> str | None:
        """Why the last removal of old files and transactions failed; it is tried again after the next checkpoint."""
        return self._cleaning_failure

    def base_of(self, checkpoint_id: int) -> Manifest | None:
        """What subtasks may build this pending checkpoint on: kept until it has ended (PROTOCOL R18)."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            return pending.base if pending is not None else None

    def next_due(self) -> float | None:
        """When a periodic checkpoint may start, in monotonic seconds; None if not before a pending one ends."""
        with self._lock:
            return self._decider.next_due(len(self._pending) + (self._commits is not None))

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
        is_settled = self._settle(told)
        self._abort_hopeless()
        while is_settled and (pending := self._take_ready()) is not None:
            if self._complete(pending):
                is_settled = self._settle(told)
        if is_settled and self._collect_due and self._may_collect():
            self._collect(self._settings.retained)
        self._require_tolerable()
        return told

    def _take_ready(self) -> PendingCheckpoint | None:
        """The oldest checkpoint whose epoch is committed (PROTOCOL R20) and whose acks are all there."""
        with self._lock:
            for number in sorted(self._pending):
                pending = self._pending[number]
                if pending.declined() is None and pending.counted() is not None:
                    pending.is_completing = True
                    return pending
            return None

    def _complete(self, pending: PendingCheckpoint) -> bool:
        """Make the checkpoint exist; false if it had to be aborted."""
        try:
            failpoint.before("C17")
            manifest = self._manifest_of(pending)
            failpoint.after("C17")
            require_own_files(manifest, pending.base, self._log)
            publish(manifest, self._log)
        except (FencedError, LogCorruptError):
            raise
        except (StorageError, CheckpointError) as error:
            if self._log.in_doubt:
                raise  # PROTOCOL R5: it may exist, so nothing that depends on it may happen
            if isinstance(error, NameTakenError):
                self._log.check_fenced()  # PROTOCOL R7: a clash is with an attempt before or after this one
            self._abort(pending, f"it could not be finalized: {error}", is_failure=True)
            return False
        with self._lock:
            del self._pending[pending.checkpoint_id]
            self._last = Predecessor(manifest.checkpoint_id, manifest.epoch)
            self._committables = {e: found for e, found in self._committables.items() if e > manifest.epoch}
            self._commits = CommitRun(manifest, self._clock, self._settings.commit_timeout_ms / 1000)
            self._history.completed(manifest.checkpoint_id, self._clock.now_ms(), pending.written_bytes())
            self._sizes = add_up(size for ack in pending.counted() or () for size in ack.sizes)
            self._failures.clear()
            older = [other for number, other in self._pending.items() if number < manifest.checkpoint_id]
        for other in older:
            self._abort(other, f"checkpoint {manifest.checkpoint_id} completed before it", is_failure=False)
        return True

    def _manifest_of(self, pending: PendingCheckpoint) -> Manifest:
        with self._lock:
            acks = pending.counted() or []
            # PROTOCOL R20: committables of the epochs in (epoch of the last complete, e]; later ones stay.
            epochs = [epoch for epoch in sorted(self._committables) if self._last.epoch < epoch <= pending.epoch]
            committables = [committable for epoch in epochs for committable in self._committables[epoch]]
            return build_manifest(pending, acks, self._identity, self._last, committables)

    def _settle(self, told: list[CheckpointId]) -> bool:
        """Commit, tell and clean up after the last completed checkpoint; false while a commit has to be repeated."""
        run = self._commits
        if run is None:
            return True
        if not run.is_due or not self._commit(run):
            return False
        number = CheckpointId(run.manifest.checkpoint_id)
        failpoint.before("C21")
        with self._lock:
            self._commits = None
            self._newest = run.manifest
            self._decider.completed()
        failpoint.after("C21")
        self._listener.completed(number)
        told.append(number)
        self._is_final = run.manifest.final
        if not self._is_final:  # PROTOCOL R31: at the end the status comes before discards
            self._collect(self._settings.retained)
            self._sweep_sinks(run.manifest)
        return True

    def _commit(self, run: CommitRun) -> bool:
        try:
            self._log.check_fenced()  # PROTOCOL R4: before commits
        except StorageError as error:
            run.postpone(error)
            return False
        return run.advance(self._committer)

    # ---- aborts and garbage

    def _abort_hopeless(self) -> None:
        """Abort what was declined, and what has taken too long (PROTOCOL R22)."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            verdicts = [(pending, self._verdict(pending, now_s)) for pending in self._pending.values()]
        for pending, reason in verdicts:
            if reason is not None:
                self._abort(pending, reason, is_failure=True)

    def _verdict(self, pending: PendingCheckpoint, now_s: float) -> str | None:
        declined = pending.declined()
        if declined is not None:
            return declined
        if now_s >= pending.deadline_s and pending.counted() is None:
            return "Checkpoint expired before completing."
        return None

    def _abort(self, pending: PendingCheckpoint, reason: str, *, is_failure: bool) -> None:
        with self._lock:
            if pending.checkpoint_id not in self._pending:
                return
            self._forget(pending, reason)
            if is_failure:
                self._failures.append(reason)
        self._listener.aborted(CheckpointId(pending.checkpoint_id), reason)

    def _forget(self, pending: PendingCheckpoint, reason: str) -> None:
        del self._pending[pending.checkpoint_id]
        self._history.failed(pending.checkpoint_id, self._clock.now_ms(), reason)
        self._collect_due = True

    def _may_collect(self) -> bool:
        """Not before the first checkpoint, whose number is fixed already, and not between the last and the status."""
        return self._log.view().started and not self._is_final

    def _collect(self, retained: int) -> None:
        """Remove old files. A failure is kept to be shown; what is left goes the next time."""
        self._collect_due = False
        self._cleaning_failure = None
        try:
            collect_garbage(self._log, retained, self._scope)
            self._log.shorten_if_due()
        except (FencedError, LogCorruptError):
            raise
        except (StorageError, CheckpointError) as error:
            if self._log.in_doubt:
                raise
            self._cleaning_failure = str(error)

    def _sweep_sinks(self, manifest: Manifest) -> None:
        try:
            self._committer.sweep(manifest.committables, self._identity.attempt)
        except FencedError:
            raise
        except Exception as error:
            self._cleaning_failure = f"old sink transactions could not be swept: {error}"

    def _scope(self, present: Sequence[str]) -> SweepScope:
        with self._lock:
            given_out = self.next_id
            # PROTOCOL R7: a number that an older attempt has used meanwhile is used up, so that its manifest may go.
            self._next_id = max(given_out, _first_free_id(present))
            pins = [pending.base for pending in self._pending.values() if pending.base is not None]
            if self._newest is not None:
                pins.append(self._newest)
            return SweepScope(
                attempt=self._identity.attempt,
                next_checkpoint=given_out,
                pending=frozenset(self._pending),
                pinned=frozenset(path for manifest in pins for path in file_paths(manifest)),
                log_number=self._log.view().number,
            )

    def _require_tolerable(self) -> None:
        if len(self._failures) > self._settings.tolerable_failures:
            raise CheckpointFailedError(
                "Exceeded checkpoint tolerable failure threshold. "
                f"The latest checkpoint failed due to {self._failures[-1]}"
            )

    def _require_owner(self) -> None:
        if self._fenced is not None:
            raise FencedError(self._fenced)

    # ---- where the attempt begins

    def _where_from(self, restored: Manifest | None) -> tuple[Predecessor, Manifest | None]:
        if restored is None:
            return Predecessor(None, 0), None
        line = self._log.view().line
        if line and line[-1].checkpoint == restored.checkpoint_id:
            return Predecessor(restored.checkpoint_id, restored.epoch), restored
        # From another folder nothing is shared: the first checkpoint is full (PROTOCOL R25).
        return Predecessor(None, restored.epoch), None


def _first_free_id(present: Iterable[str]) -> int:
    numbers = (checkpoint_of(path) for path in present)
    return max((number for number in numbers if number is not None), default=-1) + 1
