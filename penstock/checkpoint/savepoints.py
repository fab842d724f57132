"""The savepoints of one attempt: one at a time, from the request to `_metadata` (PROTOCOL R29, R30).

A savepoint is taken at the barrier of a checkpoint N. Its subtasks write it beside N, and it is published once N, or a
newer checkpoint of the lineage, is complete and committed: so it lists no transaction. In a job without checkpoints
each epoch commits its own output, and there is nothing to wait for.

Three kinds of threads call it, as with the coordinator: the epoch's (`due`, `begin`, `epoch_committed`), RPC threads
(`receive`) and the completing one (`advance`), the only one that writes.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.failures import FailureReason
from penstock.checkpoint.log.entries import Resumed, SavepointEntry, Stopping
from penstock.checkpoint.no_checkpoints import AttemptLog, Coordinator
from penstock.checkpoint.pending_checkpoint import EpochRecord, PendingCheckpoint, PendingSavepoint
from penstock.checkpoint.savepoint_folder import SavepointFolder
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.snapshot.event_time import has_ended
from penstock.checkpoint.snapshot.manifest import digest, encode_manifest
from penstock.checkpoint.snapshot.savepoint_paths import savepoint_folder
from penstock.checkpoint.stats.savepoint_stats import savepoint_stats
from penstock.clock import Clock
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    FencedError,
    JobConflictError,
    LogCorruptError,
    StorageError,
)
from penstock.model.ids import SubtaskId
from penstock.model.options.checkpointing_options import TIMEOUT
from penstock.model.snapshot import (
    SavepointAck,
    SavepointDecline,
    SavepointEvent,
    SavepointOrder,
)
from penstock.storage.address import join_address
from penstock.storage.storage import Storage, open_storage

CLOSED = "the attempt of the job has ended; trigger the savepoint again"


@dataclass(frozen=True)
class SavepointPlace:
    """Which attempt takes the savepoints, and how they are written."""

    identity: WriterIdentity
    inline: bool = False
    """The job keeps its checkpoints in the JobManager: everything goes into `_metadata`."""
    timeout_ms: int = TIMEOUT.default
    open_storage: Callable[[str], Storage] = open_storage


class Savepoints:
    """At most one savepoint at a time. After the barrier of one that stops the job, no epoch starts (PROTOCOL R30)."""

    def __init__(self, place: SavepointPlace, clock: Clock, log: AttemptLog, coordinator: Coordinator) -> None:
        self._place = place
        self._clock = clock
        self._log = log
        self._coordinator = coordinator
        self._lock = threading.Condition()
        self._request: SavepointRequest | None = None
        """The savepoint that has not ended."""
        self._folder: SavepointFolder | None = None
        """Its folder."""
        self._pending: PendingSavepoint | None = None
        """Its parts, once its barrier was sent."""
        self._is_stop_logged = False
        """`stopping` may be in the log, and its barrier was not sent."""
        self._next_number = 1
        self._stopped: SavepointRequest | None = None
        self._closed: str | None = None

    # ---- any thread

    def request(self, request: SavepointRequest) -> None:
        """Take a savepoint at the next barrier; raises JobConflictError while another one has not ended.

        Raises ConfigurationError or StorageError if its folder cannot be opened.
        """
        if not self._is_free_for(request):
            return
        uri = join_address(request.target, savepoint_folder(self._place.identity.job_id))
        folder = SavepointFolder(uri, self._place.open_storage(uri))  # without the lock: epochs do not wait for it
        with self._lock:
            if self._is_free_for(request):
                self._request, self._folder = request, folder

    def _is_free_for(self, request: SavepointRequest) -> bool:
        """Whether a savepoint may be requested. After the end of the attempt it may not, and the request fails."""
        with self._lock:
            if self._closed is not None:
                request.fail(self._closed)
                return False
            if self._request is not None:
                raise JobConflictError(
                    f"a savepoint of this job is being taken already, with triggerId {self._request.trigger_id}; "
                    f"wait for it"
                )
            return True

    @property
    def stopped(self) -> SavepointRequest | None:
        """The savepoint with which the job has stopped; None while the job goes on."""
        return self._stopped

    @property
    def is_requested(self) -> bool:
        """A savepoint was requested and has not ended."""
        with self._lock:
            return self._request is not None

    @property
    def is_stopping(self) -> bool:
        """The barrier of a savepoint that stops the job was sent: no epoch may start now (PROTOCOL R30)."""
        with self._lock:
            return self._is_stopping()

    def wait_for_permission(self, timeout_s: float) -> bool:
        """Whether an epoch may start; waits while a stop is in progress."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._is_stopping() or self._closed is not None, timeout_s)

    def close(self) -> SavepointRequest | None:
        """The attempt is over. Returns the request of a stop that may be in the log: the next attempt completes it."""
        with self._lock:
            self._closed = CLOSED
            request = self._request
            is_logged = (self._is_stopping() or self._is_stop_logged) and self._stopped is None
            self._clear()
        if request is None or (is_logged and self._coordinator.can_recover):
            return request
        request.fail(CLOSED)
        return None

    # ---- the epoch's thread

    def due(self) -> SavepointRequest | None:
        """The savepoint that is requested and has no barrier yet."""
        with self._lock:
            return self._request if self._pending is None else None

    def begin(self, epoch: int, subtasks: Sequence[SubtaskId], checkpoint: int | None) -> SavepointOrder:
        """The epoch's barrier carries the savepoint. A stop is in the log before its barrier is sent (PROTOCOL R30)."""
        with self._lock:
            request, folder = self._request, self._folder
            assert request is not None and folder is not None, "only what is due begins"
            number = checkpoint if checkpoint is not None else self._next_number
            self._next_number = number + 1
        if request.then != "go_on":
            self._is_stop_logged = True  # before the append, whose outcome may stay unknown (PROTOCOL R5)
            entry = Stopping(number, request.target, request.format, request.then, request.drain, request.trigger_id)
            self._log.append(entry)
        with self._lock:
            now_ms = self._clock.now_ms()
            deadline_s = self._clock.monotonic_s() + self._place.timeout_ms / 1000
            self._pending = PendingCheckpoint(number, epoch, frozenset(subtasks), request, now_ms, deadline_s)
            self._is_stop_logged = False
        if request.drain:
            self._coordinator.hold(number)
        return SavepointOrder(number, folder.uri, request.format, self._place.inline)

    def epoch_committed(self, record: EpochRecord) -> None:
        """Note the epoch of the barrier, and copy the source position: checkpoint N may be deleted before this ends."""
        pending, folder = self._pending, self._folder
        if pending is None or folder is None or pending.epoch != record.epoch:
            return
        failure: tuple[FailureReason, str] | None = None
        try:
            source = folder.copy_source(record.source, self._log.storage, inline=self._place.inline)
            record = replace(record, source=source)
        except (StorageError, CheckpointError) as error:
            failure = FailureReason.IO, f"the position of the sources could not be written: {error}"
        with self._lock:
            pending.record, pending.failure = record, failure

    # ---- RPC threads

    def receive(self, event: SavepointEvent) -> None:
        """Keep a subtask's part, or that it cannot write one, or how much it has written.

        An event that comes late, or from a dropped run of the epoch, changes nothing.
        """
        with self._lock:
            pending = self._pending
            if pending is None or pending.checkpoint_id != event.number:
                return
            if isinstance(event, SavepointAck):
                pending.acknowledge(event)
            elif isinstance(event, SavepointDecline):
                pending.decline(event.subtask, event.version, FailureReason.DECLINED, event.reason)
            else:
                pending.advance(event.subtask, event.done)
            pending.request.advance(pending.progress)

    # ---- the completing thread

    def advance(self) -> None:
        """Publish the savepoint if everything is there, or give it up if it cannot be completed.

        Raises FencedError if a newer attempt owns the job, UnknownOutcomeError if the log does not answer, and
        CheckpointError if a drain failed: the attempt must end, because its event time has ended. It is a
        CheckpointFailedError, after which recovery helps, unless the drain's checkpoint is complete.
        """
        with self._lock:
            pending, folder = self._pending, self._folder
            if pending is None or folder is None:
                return
            failure = self._why_failed(pending)
            acks = pending.counted()
        if acks is not None:
            self._coordinator.release(pending.checkpoint_id)
        if failure is not None:
            self._give_up(pending, folder, failure)
        elif acks is not None and self._is_covered(pending):
            try:
                self._publish(pending, folder)
            except (FencedError, LogCorruptError):
                raise
            except (StorageError, CheckpointError) as error:
                if self._log.in_doubt:
                    raise
                self._give_up(pending, folder, str(error))

    def _is_covered(self, pending: PendingSavepoint) -> bool:
        """PROTOCOL R29: the output of the savepoint's epochs is committed, so that it need not list it."""
        return self._coordinator.covers(pending.epoch)

    def _why_failed(self, pending: PendingSavepoint) -> str | None:
        """Why the savepoint cannot be completed; None if it can."""
        failure = pending.why_failed()
        if failure is not None:
            return failure[1]
        if pending.counted() is not None and self._is_covered(pending):
            return None
        if self._clock.monotonic_s() >= pending.deadline_s:
            return f"it was not written within {self._place.timeout_ms / 1000:g} s ({TIMEOUT.key})"
        of_checkpoint = self._coordinator.failure_of(pending.checkpoint_id, pending.epoch)
        if of_checkpoint is not None:
            return f"the checkpoint at whose barrier it was taken failed: {of_checkpoint}"
        return None

    def _publish(self, pending: PendingSavepoint, folder: SavepointFolder) -> None:
        """PROTOCOL R29: the entry first, `_metadata` after it."""
        request, number = pending.request, pending.checkpoint_id
        data = encode_manifest(pending.build_manifest(self._place.identity, savepoint=request.format))
        failpoint.before("C28")
        self._log.append(SavepointEntry(number, folder.uri, digest(data)))
        failpoint.after("C28")
        folder.put_metadata(data, self._log.wait)
        self._coordinator.savepoint_taken(number, request, folder.uri)
        with self._lock:
            if request.is_stop:
                self._stopped = request
            self._clear()
        request.stats = savepoint_stats(pending, self._clock.now_ms(), path=folder.uri)
        request.complete(folder.uri)

    def _give_up(self, pending: PendingSavepoint, folder: SavepointFolder, reason: str) -> None:
        """The job goes on. If it was to stop, the log says first that it does not (PROTOCOL R30)."""
        request = pending.request
        if request.drain and not self._coordinator.can_recover:  # the state would end with the attempt
            reason += "; the job goes on, but its event time has ended and all rows are late: take another savepoint"
        if request.is_stop:
            self._log.append(Resumed(reason))
        with self._lock:
            self._clear()
        folder.clear()
        request.stats = savepoint_stats(pending, self._clock.now_ms(), failure=reason)
        request.fail(reason)
        if request.drain and self._coordinator.can_recover:  # recovery goes back before the end of event time
            failure = f"the savepoint that was to drain the job failed: {reason}"
            self.require_time(failure)
            raise CheckpointFailedError(failure)

    def require_time(self, reason: str) -> None:
        """Raise CheckpointError if event time has ended for good: every row that came now would be late."""
        newest = self._coordinator.newest_completed
        if newest is not None and has_ended(newest):
            raise CheckpointError(
                f"{reason}. All its timers have fired and its output is committed, so that it cannot go on; checkpoint "
                f"{newest.checkpoint_id} holds its state, and `penstock restore --check` shows it"
            )

    def _clear(self) -> None:
        """The savepoint has ended, and epochs may start again. With the lock."""
        self._request = self._folder = self._pending = None
        self._lock.notify_all()

    def _is_stopping(self) -> bool:
        return self._stopped is not None or (self._pending is not None and self._pending.request.is_stop)
