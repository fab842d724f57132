"""The subtasks of one TaskManager: restored, run, sealed and written. Knows nothing of sockets and processes.

The TaskManager process calls it for connections, the test harness directly; both get the same protocol.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from penstock import failpoint
from penstock.clock import Clock
from penstock.errors import CheckpointDeclinedError, StateBackendError, StateLostError, UserFunctionError
from penstock.graph.job_graph import EdgePlan, StagePlan
from penstock.model.ids import SubtaskId, Version, new_nonce
from penstock.model.snapshot import (
    CheckpointAck,
    CheckpointDecline,
    InlineLimits,
    SavepointDecline,
    SavepointEvent,
    SavepointOrder,
    SavepointProgress,
)
from penstock.model.time import TimeDomain
from penstock.runtime.operator_chain import EdgeOutput
from penstock.runtime.operators.batch import EdgeBatch
from penstock.runtime.ownership import Kept, Ownership, Run
from penstock.runtime.process.messages import (
    Barrier,
    Deploy,
    Deployed,
    Heartbeat,
    LiveStates,
    ReadState,
    StateValues,
    SubtaskReport,
    TaskHeader,
)
from penstock.runtime.snapshots.local_copies import LocalCopies, RestoreFigures
from penstock.runtime.snapshots.savepoint_writer import SavepointJob, SavepointWriter
from penstock.runtime.snapshots.snapshot_loader import SnapshotLoader
from penstock.runtime.snapshots.snapshot_writer import SnapshotWriter, WriteJob
from penstock.runtime.snapshots.spool import MAX_SPOOL_BYTES
from penstock.runtime.subtask_place import SubtaskPlace
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_settings import BackendSettings
from penstock.storage.storage import Storage, open_storage

MAX_WAITING_WRITES = 4
"""Of one subtask; then it declines the next checkpoint (PROTOCOL R10)."""


class JobManagerGateway(Protocol):
    """What a TaskManager sends to the JobManager."""

    def report(self, report: SubtaskReport) -> None: ...
    def ack(self, ack: CheckpointAck) -> None: ...
    def decline(self, decline: CheckpointDecline) -> None: ...
    def savepoint_event(self, event: SavepointEvent) -> None: ...


@dataclass(frozen=True)
class HostPlace:
    """Which job and attempt this host serves, and what its subtasks share."""

    job_id: str
    attempt: int
    new_output: Callable[[EdgePlan], EdgeOutput]
    channels: dict[int, int]
    """Edge id -> number of upstream subtasks, for edges that start at a stage."""
    backend: BackendSettings = BackendSettings()
    folder: str = ""
    """Where this process keeps the files of backends."""
    limits: InlineLimits | None = None
    """Which states go into the manifest; None: the defaults."""
    max_spool_bytes: int = MAX_SPOOL_BYTES
    copies: LocalCopies | None = None
    """Local copies of keyed state on this machine."""
    open_storage: Callable[[str], Storage] = open_storage
    """Opens the folder of a savepoint by its address."""
    job_parameters: dict[str, str] = field(default_factory=dict)


@dataclass
class _Owned:
    subtask: Subtask
    ownership: Ownership
    writer: SnapshotWriter
    savepoints: SavepointWriter


class SubtaskHost:
    """Subtasks with their owners and their background writes. Thread safe per subtask."""

    def __init__(self, place: HostPlace, storage: Storage | None, jobmanager: JobManagerGateway, clock: Clock) -> None:
        self._place = place
        self._storage = storage
        self._jobmanager = jobmanager
        self._clock = clock
        self._owned: dict[SubtaskId, _Owned] = {}
        self._writes: deque[tuple[SnapshotWriter, WriteJob]] = deque()
        self._savepoints: deque[tuple[SavepointWriter, SavepointJob]] = deque()
        """Written by a thread of their own: a checkpoint does not wait for a savepoint, which may take long."""
        self._has_writes = threading.Condition()
        self._closed = False

    def deploy(self, stages: dict[str, StagePlan], deploy: Deploy) -> Deployed:
        """Restore and open the given subtasks. Afterwards each has its first version of this attempt."""
        versions = []
        restored = RestoreFigures()
        source = self._place.open_storage(deploy.origin) if deploy.origin else self._storage
        shares = deploy.operator_state or [[] for _ in deploy.subtasks]
        for subtask_id, snapshots, own_shares in zip(deploy.subtasks, deploy.restore, shares, strict=True):
            place = SubtaskPlace(
                self._place.job_id,
                self._place.attempt,
                stages[subtask_id.stage],
                subtask_id.index,
                self._place.channels,
                self._place.backend,
                self._place.folder,
                self._place.max_spool_bytes,
                self._place.job_parameters,
                self._storage,
            )
            subtask = Subtask(place, self._place.new_output, self._clock)
            writer = SnapshotWriter(subtask, self._storage, self._clock, self._place.limits, self._place.copies)
            copies = self._place.copies if not deploy.origin else None
            loader = SnapshotLoader(subtask, source, copies, writer.sizes, deploy.renamed)
            loader.load(snapshots, deploy.max_parallelism_restored)
            loader.load_operator_state(own_shares)
            is_shared = not deploy.origin and not deploy.renamed  # PROTOCOL R25: otherwise the first one is full
            if loader.own is not None and deploy.checkpoint is not None and is_shared:
                writer.continue_from(deploy.checkpoint, loader.own, loader.segments)
            restored += loader.figures
            # The checkpoint before the job's first epoch holds nothing; a savepoint that no job has taken has no epoch.
            if deploy.restored_epoch > 0 or deploy.origin:
                subtask.restored_checkpoint = deploy.checkpoint
            subtask.open()
            subtask.restored(deploy.restored_epoch)
            version = Version(self._place.attempt, deploy.restored_epoch, new_nonce())
            savepoints = SavepointWriter(subtask, self._place.open_storage, self._clock)
            self._owned[subtask_id] = _Owned(subtask, Ownership(subtask_id, version), writer, savepoints)
            versions.append((subtask_id, version))
        if deploy.checkpoint is not None:
            logging.getLogger("penstock.restore").info("checkpoint %s is restored: %s", deploy.checkpoint, restored)
        timers = [self._next_timers(subtask_id) for subtask_id, _ in versions]
        waiting = [self._get(subtask_id).subtask.spool.rows for subtask_id, _ in versions]
        return Deployed(versions, timers, waiting, restored)

    def _next_timers(self, subtask_id: SubtaskId) -> tuple[int | None, int | None]:
        subtask = self._get(subtask_id).subtask
        return subtask.next_timer(TimeDomain.EVENT_TIME), subtask.next_timer(TimeDomain.PROCESSING_TIME)

    def admit(self, header: TaskHeader) -> Run | Kept:
        """What the task does: run the epoch, or replay its output (PROTOCOL section 3)."""
        return self._get(header.subtask).ownership.admit(header)

    def execute(self, header: TaskHeader, run: Run, items: Iterable[EdgeBatch | Barrier]) -> Kept:
        """Run the epoch to its end and report it; after any error the state is as it was."""
        owned = self._get(header.subtask)
        subtask = owned.subtask
        try:
            result = subtask.run(header.epoch, items, run.cancelled.is_set)
            version = Version(self._place.attempt, header.epoch.epoch, new_nonce())
            failpoint.before("C9")
            kept = owned.ownership.finish(run, version, result.outputs)
        except Exception as error:
            self._undo(owned, run, error)
            raise
        try:
            subtask.finish_epoch()
        except Exception as error:
            owned.ownership.lose(f"{type(error).__name__}: {error}")  # the version has no state that matches it
            raise
        if header.epoch.completed is not None:
            owned.writer.confirm(header.epoch.completed)
        self._forget(owned, header.epoch.aborted)
        with subtask.times.measured("sealing"):
            if header.epoch.checkpoint is not None:
                self._seal(owned, header, version)
            if header.epoch.savepoint is not None:
                self._seal_savepoint(owned, header.epoch.savepoint, version)
        failpoint.after("C9")
        failpoint.before("C10")
        self._jobmanager.report(subtask.report(version, result))
        failpoint.after("C10")
        return kept

    def _forget(self, owned: _Owned, aborted: list[int]) -> None:
        """Drop waiting snapshots of aborted checkpoints: they would only delay the others."""
        if aborted:
            owned.writer.forget(aborted)
            with self._has_writes:
                self._writes = deque(
                    (writer, job)
                    for writer, job in self._writes
                    if writer is not owned.writer or job.checkpoint not in aborted
                )

    def _undo(self, owned: _Owned, run: Run, cause: Exception) -> None:
        """Undo the run. If that fails, the subtask does not run again in this attempt (PROTOCOL R11)."""
        try:
            owned.subtask.roll_back()
        except Exception as error:
            owned.ownership.lose(f"{type(error).__name__}: {error}")
            if isinstance(cause, UserFunctionError):
                return  # it ends the attempt anyway, and is the error that the user must see
            raise
        owned.ownership.drop(run)

    def _seal(self, owned: _Owned, header: TaskHeader, version: Version) -> None:
        """The synchronous part of a snapshot, which delays the epoch (PROTOCOL R12)."""
        checkpoint = header.epoch.checkpoint
        assert checkpoint is not None
        failpoint.before("C8")
        with self._has_writes:
            waiting = sum(writer is owned.writer for writer, _ in self._writes)
        if waiting >= MAX_WAITING_WRITES:
            reason = f"{waiting} snapshots of it are still being written"
            self._jobmanager.decline(CheckpointDecline(checkpoint, header.subtask, version, reason))
            return
        try:
            job = owned.writer.seal(checkpoint, header.epoch.base, version)
        except StateBackendError as error:  # the state is as it was: only the checkpoint fails
            self._jobmanager.decline(CheckpointDecline(checkpoint, header.subtask, version, str(error)))
            return
        failpoint.after("C8")
        with self._has_writes:
            self._writes.append((owned.writer, job))
            self._has_writes.notify_all()

    def _seal_savepoint(self, owned: _Owned, order: SavepointOrder, version: Version) -> None:
        try:
            job = owned.savepoints.seal(order, version)
        except (StateBackendError, CheckpointDeclinedError) as error:  # the state is as it was
            subtask_id = owned.subtask.place.id
            self._jobmanager.savepoint_event(SavepointDecline(order.number, subtask_id, version, str(error)))
            return
        with self._has_writes:
            self._savepoints.append((owned.savepoints, job))
            self._has_writes.notify_all()

    def write_next_savepoint(self, timeout_s: float = 0.0) -> bool:
        """Write one waiting part of a savepoint and ack it; False if there was none within the time."""
        with self._has_writes:
            if not self._has_writes.wait_for(lambda: self._savepoints or self._closed, timeout_s):
                return False
            if not self._savepoints:
                return False
            writer, job = self._savepoints.popleft()
        number, subtask_id = job.order.number, writer.subtask.place.id

        def report(done: float) -> None:
            self._jobmanager.savepoint_event(SavepointProgress(number, subtask_id, done))

        try:
            ack = writer.write(job, report)
        except Exception as error:  # only the savepoint fails; the job goes on
            reason = f"{type(error).__name__}: {error}"
            self._jobmanager.savepoint_event(SavepointDecline(number, subtask_id, job.version, reason))
            return True
        self._jobmanager.savepoint_event(ack)
        return True

    def write_next(self, timeout_s: float = 0.0) -> bool:
        """Write one waiting snapshot and ack it; False if there was none within the time."""
        with self._has_writes:
            if not self._has_writes.wait_for(lambda: self._writes or self._closed, timeout_s) or not self._writes:
                return False
            writer, job = self._writes.popleft()
        try:
            ack = writer.write(job)
        except Exception as error:  # a failed write declines the checkpoint; the job goes on
            reason = f"{type(error).__name__}: {error}"
            decline = CheckpointDecline(job.checkpoint, writer.subtask_id, job.version, reason, asynchronous=True)
            self._jobmanager.decline(decline)
            return True
        failpoint.before("C16")
        self._jobmanager.ack(ack)
        failpoint.after("C16")
        return True

    def notify(self, completed: int | None, aborted: list[int]) -> None:
        """Notify every function of ended checkpoints when no epoch follows whose header could do so."""
        for owned in self._owned.values():
            owned.subtask.notify(completed, aborted)

    def heartbeat(self, taskmanager: str) -> Heartbeat:
        """A sign of life of this TaskManager, with how far its subtasks have come. From any thread."""
        owned = list(self._owned.values())
        return Heartbeat(taskmanager, len(owned), [one.subtask.rows_so_far() for one in owned])

    def states(self) -> LiveStates:
        """The keyed states of all subtasks. From any thread."""
        found = {
            (state.info.operator_uid, state.info.name): state
            for owned in list(self._owned.values())
            for state in owned.subtask.states()
        }
        return LiveStates([*found.values()])

    def read(self, request: ReadState) -> StateValues:
        """The answer to a query of live state. From any thread; several at a time."""
        return self._get(request.subtask).subtask.read(request)

    def subtask(self, subtask_id: SubtaskId) -> Subtask:
        """The subtask, for tests."""
        return self._get(subtask_id).subtask

    def subtasks(self) -> list[Subtask]:
        """All of them."""
        return [owned.subtask for owned in self._owned.values()]

    def close(self) -> None:
        """Close every subtask's functions and sinks."""
        with self._has_writes:
            self._closed = True
            self._has_writes.notify_all()
        for owned in self._owned.values():
            owned.subtask.close()

    def _get(self, subtask_id: SubtaskId) -> _Owned:
        if subtask_id not in self._owned:
            raise StateLostError(f"subtask {subtask_id} is not owned by this TaskManager")
        return self._owned[subtask_id]
