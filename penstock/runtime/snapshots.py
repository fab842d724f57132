"""A subtask's part of checkpoints: seal, write, and what it may build on (PROTOCOL R12, R17, R18).

A snapshot is a full file and a few deltas on top of it. The delta holds every key that changed since the checkpoint
the epoch's header names; when the deltas would outweigh the state, or there are many, a full file starts anew.
"""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from penstock import failpoint
from penstock.checkpoint.manifest import verify_file
from penstock.checkpoint.names import state_file_path
from penstock.clock import Clock
from penstock.errors import CheckpointDeclinedError
from penstock.model.ids import CheckpointId, SubtaskId, Version
from penstock.model.snapshot import CheckpointAck, StateFile, SubtaskSnapshot
from penstock.runtime.task import Subtask
from penstock.state.sealed import SealedTables
from penstock.state.snapshot_file import apply_rows, encode_snapshot, read_chain, row_count
from penstock.storage.blobs import Storage

MAX_DELTAS = 8
INLINE_LIMIT_BYTES = 20 * 1024


@dataclass(frozen=True)
class Chain:
    """The files of one checkpoint: the first holds everything, the others what changed since."""

    files: list[StateFile]

    @property
    def is_long(self) -> bool:
        """Deltas outweigh the state they build on, or there are many: time for a full file."""
        deltas = self.files[1:]
        return len(deltas) >= MAX_DELTAS or sum(file.size for file in deltas) > self.files[0].size


@dataclass(frozen=True)
class WriteJob:
    """A sealed state on its way to storage; later epochs do not change it."""

    checkpoint: int
    version: Version
    base: Chain | None
    """What the sealed tables are a delta of; None: they are everything."""
    tables: list[SealedTables]
    watermark: int
    sync_s: float

    @property
    def replaces_tables(self) -> bool:
        """A table is sealed whole. It may be empty, and says then that what older files hold of it is gone."""
        return any(table.full for operator in self.tables for table in operator.tables)


class SnapshotWriter:
    """Seals and writes the state of one subtask. `seal` in the epoch's thread, `write` in the background."""

    def __init__(self, subtask: Subtask, storage: Storage | None, clock: Clock) -> None:
        self._subtask = subtask
        self._storage = storage
        self._clock = clock
        self._chains: dict[int, Chain] = {}
        self._lock = threading.Lock()
        """Around `_chains`: a slow write may end while a later checkpoint is sealed."""

    @property
    def subtask_id(self) -> SubtaskId:
        return self._subtask.place.id

    def restore(self, snapshots: Sequence[SubtaskSnapshot], checkpoint: int | None, max_parallelism: int) -> None:
        """Load this subtask's key groups from snapshots of whatever parallelism."""
        subtask = self._subtask
        for snapshot in snapshots:
            failpoint.before("C25")
            self._load(snapshot)
            failpoint.after("C25")
        # PROTOCOL I-6: with whatever parallelism, event time goes on from where all parts of the old state were.
        subtask.watermark = min((snapshot.watermark for snapshot in snapshots), default=subtask.watermark)
        same = [snapshot for snapshot in snapshots if self._is_own(snapshot)]
        if checkpoint is not None and same == list(snapshots) and len(same) == 1:
            if max_parallelism == subtask.stage.max_parallelism and same[0].files:
                self._chains[checkpoint] = Chain(list(same[0].files))
                for backend in subtask.backends.values():
                    backend.start_from(CheckpointId(checkpoint))

    def _is_own(self, snapshot: SubtaskSnapshot) -> bool:
        """The snapshot is of this very subtask: same range, same operators."""
        place = self._subtask.place
        return snapshot.key_groups == place.key_groups and list(place.stage.uids) == snapshot.operator_uids

    def _load(self, snapshot: SubtaskSnapshot) -> None:
        if not snapshot.files:
            return
        assert self._storage is not None
        place = self._subtask.place
        files = [verify_file(self._storage, file) for file in snapshot.files]
        names = [file.path or "inline state" for file in snapshot.files]
        for info, rows in read_chain(files, place.key_groups, place.stage.max_parallelism, paths=names):
            backend = self._subtask.backends.get(info.operator_uid)
            if backend is not None:
                apply_rows(backend, info, rows)

    def seal(self, checkpoint: int, base: int | None, version: Version) -> WriteJob:
        """Freeze the state as it is now. The only part that holds up the epoch."""
        started = self._clock.monotonic_s()
        with self._lock:
            chain = self._chains.get(base) if base is not None else None
            self._chains = {number: kept for number, kept in self._chains.items() if base is None or number >= base}
        full = chain is None or chain.is_long
        known = CheckpointId(base) if chain is not None and base is not None else None
        backends = self._subtask.backends.values()
        tables = [backend.seal(CheckpointId(checkpoint), known, full=full) for backend in backends]
        if all(table.base is None for table in tables):
            chain = None
        return WriteJob(
            checkpoint, version, chain, tables, self._subtask.watermark, self._clock.monotonic_s() - started
        )

    def write(self, job: WriteJob) -> CheckpointAck:
        """Put the sealed state into storage under a name of its own, and say what there is now."""
        if self._storage is None:
            raise CheckpointDeclinedError("this job has no checkpoint storage")
        started = self._clock.monotonic_s()
        files, written = list(job.base.files) if job.base is not None else [], 0
        if job.tables:
            data = encode_snapshot(job.tables)
            if job.base is None or job.replaces_tables or row_count(data):
                file = self._put(job, data)
                files.append(file)
                written = file.size
            with self._lock:
                self._chains[job.checkpoint] = Chain(files)
        place = self._subtask.place
        infos = [table.info for operator in job.tables for table in operator.tables]
        snapshot = SubtaskSnapshot(
            place.id, job.version, place.key_groups, files, infos, job.watermark, list(place.stage.uids)
        )
        return CheckpointAck(job.checkpoint, snapshot, job.sync_s, self._clock.monotonic_s() - started, written)

    def _put(self, job: WriteJob, data: bytes) -> StateFile:
        assert self._storage is not None
        digest = hashlib.sha256(data).hexdigest()
        place = self._subtask.place
        if len(data) <= INLINE_LIMIT_BYTES:
            return StateFile("", len(data), digest, data)
        path = state_file_path(place.attempt, job.checkpoint, place.id)
        self._storage.put_new(path, data)
        return StateFile(path, len(data), digest)
