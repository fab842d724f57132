"""The savepoints of one attempt: one at a time, from the wish to `_metadata` (PROTOCOL R29, R30).

A savepoint is taken at the barrier of a checkpoint N; its subtasks write it beside N, and it is published once N, or a
newer checkpoint of the line, is complete and committed: so it lists no transaction. A job without checkpoints commits
each epoch by itself, and there is nothing to wait for.

Three kinds of threads call it, as with the coordinator: the epoch's (`due`, `begin`, `epoch_committed`), RPC threads
(`receive`) and the completing one (`advance`), the only one that writes.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from penstock import failpoint
from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.log.entries import Resumed, SavepointEntry, Stopping
from penstock.checkpoint.no_checkpoints import AttemptLog, Coordinator
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.snapshot.manifest import FORMAT_VERSION, MAGIC, digest, encode_manifest, verify_file
from penstock.checkpoint.snapshot.savepoint_paths import METADATA, clear_folder, savepoint_folder, source_path
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.clock import Clock
from penstock.errors import (
    CheckpointError,
    CheckpointFailedError,
    FencedError,
    JobConflictError,
    LogCorruptError,
    StorageError,
)
from penstock.model.ids import SubtaskId, Version
from penstock.model.options.checkpointing_options import TIMEOUT
from penstock.model.snapshot import (
    Manifest,
    SavepointAck,
    SavepointDecline,
    SavepointEvent,
    SavepointOrder,
    SourcePosition,
    StateFile,
)
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK
from penstock.storage.address import join_address
from penstock.storage.certain_put import put_certain
from penstock.storage.storage import Storage, open_storage

DEFAULT_TIMEOUT_MS = 600_000
CLOSED = "the attempt of the job has ended; trigger the savepoint again"


@dataclass(frozen=True)
class _Wanted:
    request: SavepointRequest
    uri: str
    storage: Storage


@dataclass
class _Pending:
    request: SavepointRequest
    order: SavepointOrder
    epoch: int
    subtasks: frozenset[SubtaskId]
    started_ms: int
    deadline_s: float
    storage: Storage
    record: EpochRecord | None = None
    source: SourcePosition | None = None
    failure: str | None = None
    acks: dict[tuple[SubtaskId, Version], SavepointAck] = field(default_factory=dict)
    declines: dict[tuple[SubtaskId, Version], SavepointDecline] = field(default_factory=dict)
    done: dict[SubtaskId, float] = field(default_factory=dict)

    def counted(self) -> list[SavepointAck] | None:
        """The acks of the committed versions, in the order of the subtasks; None while one is missing (R17)."""
        if self.record is None:
            return None
        ordered = sorted(self.subtasks, key=lambda subtask: (subtask.stage, subtask.index))
        found = [self.acks.get((subtask, self.record.versions[subtask])) for subtask in ordered]
        acks = [ack for ack in found if ack is not None]
        return acks if len(acks) == len(ordered) else None

    def declined(self) -> str | None:
        """Why a subtask cannot take part."""
        versions = self.record.versions if self.record is not None else {}
        for subtask, version in versions.items():
            decline = self.declines.get((subtask, version))
            if decline is not None:
                return f"subtask {subtask}: {decline.reason}"
        return None

    def advance(self, subtask: SubtaskId, done: float) -> None:
        """So much of a subtask's part is there."""
        self.done[subtask] = max(done, self.done.get(subtask, 0.0))
        self.request.advance(sum(self.done.values()) / len(self.subtasks))

    def stats(self, acks: Sequence[SavepointAck], now_ms: int, failure: str | None = None) -> CheckpointStats:
        """Its figures at its end."""
        written = sum(ack.written_bytes for ack in acks)
        return CheckpointStats(
            checkpoint_id=self.order.number,
            status="completed" if failure is None else "failed",
            trigger_ms=self.started_ms,
            checkpoint_type="SYNC_SAVEPOINT" if self.is_stop else "SAVEPOINT",
            written_bytes=written,
            full_bytes=written,
            failure=failure,
            manual=True,
            subtasks=len(self.subtasks),
            acknowledged=len(acks),
            parts=tuple(SubtaskStats.of_savepoint(ack) for ack in acks),
            savepoint=self.order.format,
            path=self.order.uri if failure is None else None,
        ).ended(now_ms)

    @property
    def is_stop(self) -> bool:
        """The job ends with it."""
        return self.request.is_stop


@dataclass(frozen=True)
class SavepointPlace:
    """Of which attempt the savepoints are, and how they are written."""

    identity: WriterIdentity
    inline: bool = False
    """The job keeps its checkpoints in the JobManager: everything goes into `_metadata`."""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    open_storage: Callable[[str], Storage] = open_storage


class Savepoints:
    """At most one savepoint at a time. After the barrier of one that stops the job, no epoch starts (R30)."""

    def __init__(self, place: SavepointPlace, clock: Clock, log: AttemptLog, coordinator: Coordinator) -> None:
        self._place = place
        self._clock = clock
        self._log = log
        self._coordinator = coordinator
        self._lock = threading.Condition()
        self._wanted: _Wanted | None = None
        self._pending: _Pending | None = None
        self._announced = False
        """The log may tell of a stop that has no barrier yet."""
        self._next_number = 1
        self._stopped: SavepointRequest | None = None
        self._closed: str | None = None

    # ---- any thread

    def request(self, request: SavepointRequest) -> None:
        """Ask for a savepoint at the next barrier; raises JobConflictError while another one is not done.

        Raises ConfigurationError or StorageError if its folder is in no storage that there is.
        """
        if not self._is_free_for(request):
            return
        uri = join_address(request.target, savepoint_folder(self._place.identity.job_id))
        storage = self._place.open_storage(uri)  # without the lock: epochs do not wait for it
        with self._lock:
            if self._is_free_for(request):
                self._wanted = _Wanted(request, uri, storage)

    def _is_free_for(self, request: SavepointRequest) -> bool:
        """Whether a savepoint can be asked for. After the end of the attempt none can, and the request says so."""
        with self._lock:
            if self._closed is not None:
                request.fail(self._closed)
                return False
            busy = self._busy()
            if busy is not None:
                raise JobConflictError(
                    f"a savepoint of this job is being taken already, with triggerId {busy.trigger_id}; wait for it"
                )
            return True

    @property
    def stopped(self) -> SavepointRequest | None:
        """The savepoint that has ended the job's work; None while it goes on."""
        return self._stopped

    @property
    def is_stopping(self) -> bool:
        """The barrier of a savepoint that stops the job has been sent: no epoch may start now (PROTOCOL R30)."""
        with self._lock:
            return self._is_stopping()

    def wait_for_permission(self, timeout_s: float) -> bool:
        """Whether an epoch may start; waits for that while a stop is under way."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._is_stopping() or self._closed is not None, timeout_s)

    def close(self) -> SavepointRequest | None:
        """The attempt is over. A stop that the log may tell of is not: the next attempt completes it, and gets this."""
        with self._lock:
            self._closed = CLOSED
            busy, is_stop = self._busy(), (self._is_stopping() or self._announced) and self._coordinator.can_recover
            self._wanted = self._pending = None
            self._lock.notify_all()
        if busy is None or (is_stop and self._stopped is None):
            return busy
        busy.fail(CLOSED)
        return None

    # ---- the epoch's thread

    def due(self) -> SavepointRequest | None:
        """The savepoint that is requested and has no barrier yet."""
        with self._lock:
            return self._wanted.request if self._wanted is not None else None

    def begin(self, epoch: int, subtasks: Sequence[SubtaskId], checkpoint: int | None) -> SavepointOrder:
        """The epoch's barrier carries the savepoint. One that stops the job is in the log before it (PROTOCOL R30)."""
        with self._lock:
            wanted = self._wanted
            assert wanted is not None, "only what is due begins"
            number = checkpoint if checkpoint is not None else self._next_number
            self._next_number = number + 1
        request = wanted.request
        if request.then != "go_on":
            self._announced = True  # before it is: whether an append was made may stay unknown (PROTOCOL R5)
            stopping = Stopping(number, request.target, request.format, request.then, request.drain, request.trigger_id)
            self._log.append(stopping)
        order = SavepointOrder(number, wanted.uri, request.format, self._place.inline)
        with self._lock:
            deadline_s = self._clock.monotonic_s() + self._place.timeout_ms / 1000
            self._pending = _Pending(
                wanted.request, order, epoch, frozenset(subtasks), self._clock.now_ms(), deadline_s, wanted.storage
            )
            self._wanted, self._announced = None, False
        if request.drain:
            self._coordinator.hold(number, held=True)
        return order

    def epoch_committed(self, record: EpochRecord) -> None:
        """The epoch of the barrier has happened. Where the sources stood is copied now: N may go before this ends."""
        pending = self._pending
        if pending is None or pending.epoch != record.epoch:
            return
        source: SourcePosition | None = None
        failure: str | None = None
        try:
            source = self._own_source(pending, record.source)
        except (StorageError, CheckpointError) as error:
            failure = f"the position of the sources could not be written: {error}"
        with self._lock:
            pending.record, pending.source, pending.failure = record, source, failure

    def _own_source(self, pending: _Pending, source: SourcePosition | None) -> SourcePosition:
        if source is None:
            raise CheckpointError("it is not known")
        if source.file is None or source.file.inline is not None:
            return source
        data = verify_file(self._log.storage, source.file)
        if pending.order.inline:
            file = StateFile("", len(data), digest(data), data)
        else:
            file = StateFile(source_path(), len(data), digest(data))
            pending.storage.put_new(file.path, data)
        return SourcePosition(source.batch_id, file, source.source_uids)

    # ---- RPC threads

    def receive(self, event: SavepointEvent) -> None:
        """Take a subtask's part, or note that it cannot take part, or how far it has come.

        What comes late, or for a dropped run of the epoch, changes nothing.
        """
        subtask = event.snapshot.subtask if isinstance(event, SavepointAck) else event.subtask
        with self._lock:
            pending = self._pending
            if pending is None or pending.order.number != event.number or subtask not in pending.subtasks:
                return
            if isinstance(event, SavepointAck):
                pending.acks.setdefault((subtask, event.snapshot.version), event)
                pending.advance(subtask, 1.0)
            elif isinstance(event, SavepointDecline):
                pending.declines.setdefault((subtask, event.version), event)
            else:
                pending.advance(subtask, event.done)

    # ---- the completing thread

    def advance(self) -> None:
        """Publish the savepoint if it can be, or give it up if it cannot.

        Raises FencedError if a newer attempt owns the job, UnknownOutcomeError if the log does not answer, and
        CheckpointError if a drain failed: the attempt must end, because its event time has. It is a
        CheckpointFailedError, after which recovery helps, unless its checkpoint is complete.
        """
        with self._lock:
            pending = self._pending
            reason = self._hopeless(pending) if pending is not None else None
            acks = pending.counted() if pending is not None else None
        if pending is None:
            return
        if acks is not None:
            self._coordinator.hold(pending.order.number, held=False)
        if reason is not None:
            self._give_up(pending, reason)
        elif acks is not None and self._is_covered(pending):
            try:
                self._publish(pending, acks)
            except (FencedError, LogCorruptError):
                raise
            except (StorageError, CheckpointError) as error:
                if self._log.in_doubt:
                    raise
                self._give_up(pending, str(error))

    def _is_covered(self, pending: _Pending) -> bool:
        """PROTOCOL R29: what the savepoint's epochs wrote to sinks is committed, so that it need not list it."""
        return self._coordinator.covers(pending.epoch)

    def _hopeless(self, pending: _Pending) -> str | None:
        """Why the savepoint cannot come about; None if it can."""
        reason = pending.failure or pending.declined()
        if reason is not None:
            return reason
        if pending.counted() is not None and self._is_covered(pending):
            return None
        if self._clock.monotonic_s() >= pending.deadline_s:
            return f"it was not written within {self._place.timeout_ms / 1000:g} s ({TIMEOUT.key})"
        failure = self._coordinator.failure_of(pending.order.number, pending.epoch)
        return f"the checkpoint at whose barrier it was taken failed: {failure}" if failure is not None else None

    def _publish(self, pending: _Pending, acks: Sequence[SavepointAck]) -> None:
        """PROTOCOL R29: the entry first, `_metadata` after it."""
        data = encode_manifest(self._manifest(pending, acks))
        order = pending.order
        failpoint.before("C28")
        self._log.append(SavepointEntry(order.number, order.uri, digest(data)))
        failpoint.after("C28")
        put_certain(pending.storage, METADATA, data, self._log.wait)
        self._coordinator.savepoint_taken(order, stops=pending.is_stop)
        with self._lock:
            self._pending = None
            if pending.is_stop:
                self._stopped = pending.request
            self._lock.notify_all()
        pending.request.stats = pending.stats(acks, self._clock.now_ms())
        pending.request.complete(order.uri)

    def _manifest(self, pending: _Pending, acks: Sequence[SavepointAck]) -> Manifest:
        record, identity = pending.record, self._place.identity
        assert record is not None and pending.source is not None
        return Manifest(
            magic=MAGIC,
            format_version=FORMAT_VERSION,
            job_id=identity.job_id,
            checkpoint_id=pending.order.number,
            attempt=identity.attempt,
            writer=identity.writer,
            epoch=record.epoch,
            now_ms=record.now_ms,
            parent=None,
            max_parallelism=record.max_parallelism,
            watermarks=dict(record.watermarks),
            max_timestamps=dict(record.max_timestamps),
            subtasks=[ack.snapshot for ack in acks],
            sources=pending.source,
            committables=[],
            savepoint=pending.order.format,
        )

    def _give_up(self, pending: _Pending, reason: str) -> None:
        """The job goes on; if it was to stop, the log says first that it does not (PROTOCOL R30)."""
        is_drained = pending.request.drain
        if is_drained and not self._coordinator.can_recover:  # with the attempt its state would end
            reason += "; the job goes on, but its event time has ended and all rows are late: take another savepoint"
        if pending.is_stop:
            self._log.append(Resumed(reason))
        with self._lock:
            self._pending = None
            self._lock.notify_all()
        clear_folder(pending.storage)
        pending.request.stats = pending.stats((), self._clock.now_ms(), reason)
        pending.request.fail(reason)
        if is_drained and self._coordinator.can_recover:  # recovery goes back behind the end of event time, if it can
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

    def _busy(self) -> SavepointRequest | None:
        busy = self._pending or self._wanted
        return busy.request if busy is not None else None

    def _is_stopping(self) -> bool:
        return self._stopped is not None or (self._pending is not None and self._pending.is_stop)


def has_ended(manifest: Manifest) -> bool:
    """Event time had come to its end at this checkpoint."""
    return bool(manifest.subtasks) and all(part.watermark >= MAX_WATERMARK for part in manifest.subtasks)


def begin_time_anew(manifest: Manifest) -> Manifest:
    """For another job that goes on behind the end of event time: otherwise every row it reads would be late.

    What generators have seen stays, so event time goes on from the rows that were read.
    """
    return msgspec.structs.replace(
        manifest,
        subtasks=[msgspec.structs.replace(part, watermark=MIN_WATERMARK) for part in manifest.subtasks],
        watermarks={uid: mark for uid, mark in manifest.watermarks.items() if mark < MAX_WATERMARK},
        final=False,
    )
