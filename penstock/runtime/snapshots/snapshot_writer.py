"""A subtask's part of checkpoints: seal, write, and what it may build on (PROTOCOL R12, R17, R18).

A snapshot is a full file and a few deltas on top of it (`snapshot_chain.py`). A delta builds on files of the checkpoint
that the epoch's header names; when the deltas become larger than the state, the next file is a full one.
"""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from penstock.checkpoint.file_names import state_file_path
from penstock.checkpoint.stats.state_sizes import bounded
from penstock.clock import Clock
from penstock.codec.socket_frames import MAX_FRAME_BYTES
from penstock.errors import CheckpointDeclinedError
from penstock.model.ids import CheckpointId, SubtaskId, Version
from penstock.model.options.checkpointing_options import INLINE_THRESHOLD
from penstock.model.snapshot import (
    OWN_TABLES,
    BarrierFigures,
    CheckpointAck,
    FileFormat,
    InlineLimits,
    NativeName,
    OwnTables,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
    files_of_format,
)
from penstock.model.units import MIB
from penstock.runtime.snapshots.local_copies import LocalCopies
from penstock.runtime.snapshots.snapshot_chain import Chain, Layer
from penstock.runtime.snapshots.spool import SealedSpool
from penstock.runtime.task import Subtask
from penstock.state.backend.sealed_state import SealedFiles, SealedTables
from penstock.state.backend.table_sizes import TableSizes
from penstock.state.format.snapshot_file import encode_files, row_count
from penstock.state.operator.operator_file import SealedOperatorState, encode_operator_states
from penstock.storage.storage import Storage

INLINE_LIMIT_BYTES = INLINE_THRESHOLD.default
MAX_INLINE_BYTES = MAX_FRAME_BYTES - 4 * MIB
"""The state that fits into an ack: a frame minus the other fields."""


@dataclass(frozen=True)
class WriteJob:
    """A sealed state that is to be written. Later epochs do not change it."""

    checkpoint: int
    version: Version
    base: Chain | None
    """The chain that the sealed tables are a delta of; None if they are complete."""
    sealed: list[SealedTables | SealedFiles]
    operator_states: list[SealedOperatorState]
    watermark: int
    sync_s: float
    spool: SealedSpool = SealedSpool()
    known_segments: dict[str, StateFile] = field(default_factory=dict)
    """Segments of the spool that are in the base's files."""
    figures: BarrierFigures = BarrierFigures()
    level: int = 0
    """The level of the delta in its chain."""

    @property
    def tables(self) -> list[SealedTables]:
        """Operators whose state is written as tables."""
        return [operator for operator in self.sealed if isinstance(operator, SealedTables)]

    @property
    def native(self) -> list[SealedFiles]:
        """Operators whose state is written as native files."""
        return [operator for operator in self.sealed if isinstance(operator, SealedFiles)]

    def measured_by(self, sizes: TableSizes) -> "WriteJob":
        """The same job, whose tables are measured as they are written."""
        sealed = [sizes.measured(part) if isinstance(part, SealedTables) else part for part in self.sealed]
        return replace(self, sealed=sealed)

    @property
    def replaces_tables(self) -> bool:
        """Whether a table is sealed in full. It replaces what older files hold of it, even if it is empty."""
        return any(table.full for operator in self.tables for table in operator.tables)

    @property
    def infos(self) -> list[StateTableInfo]:
        """Every state of every operator."""
        infos = [table.info for operator in self.tables for table in operator.tables]
        return infos + [info for operator in self.native for info in operator.infos]


class SnapshotWriter:
    """Seals and writes the state of one subtask. `seal` in the epoch's thread, `write` in the background."""

    def __init__(
        self,
        subtask: Subtask,
        storage: Storage | None,
        clock: Clock,
        limits: InlineLimits | None = None,
        copies: LocalCopies | None = None,
    ) -> None:
        self._subtask = subtask
        self._storage = storage
        self._clock = clock
        self._limits = limits or InlineLimits()
        self._copies = copies
        self._chains: dict[int, Chain] = {}
        self._segments: dict[int, dict[str, StateFile]] = {}
        """Checkpoint -> spool segment -> its file."""
        self._sealed: set[int] = set()
        """Checkpoints that a later header may name."""
        self.sizes = TableSizes(subtask.place.key_groups, subtask.stage.max_parallelism)
        self._lock = threading.Lock()
        """Guards `_chains`, `_segments` and `_sealed`: a slow write may end while a later checkpoint is sealed."""

    @property
    def _compression(self) -> bool | None:
        return self._subtask.place.backend.compression

    @property
    def subtask_id(self) -> SubtaskId:
        return self._subtask.place.id

    def continue_from(self, checkpoint: int, own: SubtaskSnapshot, segments: Mapping[str, StateFile]) -> None:
        """Build the next checkpoint on the restored one, which this subtask wrote for this job.

        `segments`: its files of rows in flight.
        """
        if segments:
            self._segments[checkpoint] = dict(segments)
        if own.files and self._is_own_format(own.files):
            self._chains[checkpoint] = Chain((Layer(tuple(own.files), checkpoint),))
            self._sealed.add(checkpoint)
            for backend in self._subtask.backends.values():
                backend.start_from(CheckpointId(checkpoint))

    def _is_own_format(self, files: Sequence[StateFile]) -> bool:
        """Whether the files have the format that this subtask writes. Otherwise nothing can build on them."""
        own = {backend.native_name for backend in self._subtask.backends.values()}
        return {_backend_of(file.format) for file in files} == own

    def confirm(self, checkpoint: int) -> None:
        """Remove local copies that this completed checkpoint does not need."""
        if self._copies is not None:
            with self._lock:
                chain = self._chains.get(checkpoint)
                files = [file for number, kept in self._chains.items() if number > checkpoint for file in kept.files]
            files += chain.files if chain is not None else []
            place = self._subtask.place
            newer = (place.attempt, checkpoint)
            self._copies.confirm(place.id, place.stage.parallelism, newer, {file.path for file in files})

    def forget(self, aborted: Sequence[int]) -> None:
        """Drop what is kept for these checkpoints, which no header will name as base."""
        with self._lock:
            for number in aborted:
                self._chains.pop(number, None)
                self._segments.pop(number, None)
                self._sealed.discard(number)

    def seal(self, checkpoint: int, base: int | None, version: Version) -> WriteJob:
        """Seal the present state. Only this part delays the epoch."""
        started = self._clock.monotonic_s()
        chain, known = self._forget_before(base)
        full = chain is None or chain.is_long or not self._subtask.place.backend.incremental
        below, level = chain.below() if chain is not None else (None, 0)
        parent = CheckpointId(below.checkpoint) if below is not None else None
        backends = self._subtask.backends.values()
        sealed = [backend.seal(CheckpointId(checkpoint), parent, full=full) for backend in backends]
        if all(operator.base is None for operator in sealed):
            below, level = None, 0
        with self._lock:
            self._sealed.add(checkpoint)
        states = [state for owned in self._subtask.operator_states.values() for state in owned.seal()]
        sync_s = self._clock.monotonic_s() - started
        spool, figures = self._subtask.spool.seal(), self._subtask.figures
        figures = msgspec.structs.replace(figures, persisted_bytes=spool.size_bytes, in_flight_rows=spool.rows)
        return WriteJob(
            checkpoint, version, below, sealed, states, self._subtask.watermark, sync_s, spool, known, figures, level
        )

    def _forget_before(self, base: int | None) -> tuple[Chain | None, dict[str, StateFile]]:
        """The base's files of state and of the spool. Older checkpoints will not be named as base again."""
        with self._lock:
            chain = self._chains.get(base) if base is not None and self._limits.max_state_bytes is None else None
            segments = self._segments.get(base, {}) if base is not None else {}
            if base is not None:
                self._chains = {number: kept for number, kept in self._chains.items() if number >= base}
                self._segments = {number: kept for number, kept in self._segments.items() if number >= base}
                self._sealed = {number for number in self._sealed if number >= base}
            needed = {layer.checkpoint for kept in self._chains.values() for layer in kept.layers}
        if base is not None:
            for backend in self._subtask.backends.values():
                backend.retain({CheckpointId(number) for number in needed | self._sealed})
        return chain, segments

    def write(self, job: WriteJob) -> CheckpointAck:
        """Write the sealed state to storage under unique names; returns the description of the snapshot."""
        if self._storage is None and self._limits.max_state_bytes is None:
            raise CheckpointDeclinedError("this job has no checkpoint storage")
        started = self._clock.monotonic_s()
        files, written = self._store(job.measured_by(self.sizes))
        if job.sealed and files:
            with self._lock:
                if job.checkpoint in self._sealed:
                    self._chains[job.checkpoint] = _chain(job, files)
        operator_file = None
        if job.operator_states:
            operator_file = self._put(
                job, encode_operator_states(job.operator_states, compression=bool(self._compression))
            )
            self._require_small(operator_file.size)
            written += operator_file.size
        spool, spooled = self._store_spool(job)
        self._require_message(written + sum(file.size for file in spool))  # those of the base are sent again
        written += spooled
        place = self._subtask.place
        snapshot = SubtaskSnapshot(
            place.id,
            job.version,
            place.key_groups,
            files,
            job.infos,
            job.watermark,
            list(place.stage.uids),
            [state.info for state in job.operator_states],
            operator_file,
            spool,
            job.spool.skip,
        )
        sizes = self.sizes.sizes(job.tables) + [size for operator in job.native for size in operator.sizes()]
        async_s = self._clock.monotonic_s() - started
        return CheckpointAck(job.checkpoint, snapshot, job.sync_s, async_s, written, bounded(sizes), job.figures)

    def _store_spool(self, job: WriteJob) -> tuple[list[StateFile], int]:
        """The files of rows in flight, and the number of new bytes."""
        files, written = {}, 0
        for segment in job.spool.segments:
            known = job.known_segments.get(segment.id)
            if known is None:
                known = self._put(job, segment.read())
                written += known.size
            files[segment.id] = known
        self._require_small(sum(file.size for file in files.values()))
        if files:
            with self._lock:
                if job.checkpoint in self._sealed:
                    self._segments[job.checkpoint] = files
        return list(files.values()), written

    def _store(self, job: WriteJob) -> tuple[list[StateFile], int]:
        """All files of the snapshot, and the number of new bytes."""
        base = job.base.files if job.base is not None else []
        files = [file for file, _ in files_of_format(base, OwnTables)] if job.tables else []
        written = 0
        for tables in self._share_files(job.tables):
            before = written
            for data in encode_files(tables, compression=self._compression):
                if not files or job.replaces_tables or row_count(data):
                    files.append(self._put_keyed(job, data))
                    written += files[-1].size
            self._require_small(written - before)
        for operator in job.native:
            stored, size = operator.store(base, partial(self._put_keyed, job))
            self._require_small(size)
            files += stored
            written += size
        return files, written

    def _share_files(self, tables: list[SealedTables]) -> list[list[SealedTables]]:
        """The operators that share files: all, unless the state of each operator has a size limit."""
        if self._limits.max_state_bytes is not None:
            return [[operator] for operator in tables]
        return [tables] if tables else []

    def _require_small(self, size: int) -> None:
        """Raise CheckpointDeclinedError if an operator's state is too large for the JobManager."""
        limit = self._limits.max_state_bytes
        if limit is not None and size > limit:
            raise CheckpointDeclinedError(
                f"Size of the state is larger than the maximum permitted memory-backed state. Size={size}, "
                f"maxSize={limit}. Consider using a different checkpoint storage, like the FileSystemCheckpointStorage."
            )

    def _require_message(self, written: int) -> None:
        """Raise CheckpointDeclinedError if the state does not fit into a message to the JobManager."""
        if self._limits.max_state_bytes is not None and written > MAX_INLINE_BYTES:
            raise CheckpointDeclinedError(
                f"the state of subtask {self.subtask_id} has {written} bytes, and a message to the JobManager can have "
                f"{MAX_INLINE_BYTES}; use FileSystemCheckpointStorage"
            )

    def _put_keyed(self, job: WriteJob, data: bytes, file_format: FileFormat = OWN_TABLES) -> StateFile:
        """Store a file of keyed state; a local copy is made once it is in the checkpoint storage."""
        file = self._put(job, data).with_format(file_format)
        if self._copies is not None and file.inline is None:
            self._copies.keep(file.path, data)
        return file

    def _put(self, job: WriteJob, data: bytes) -> StateFile:
        digest = hashlib.sha256(data).hexdigest()
        place = self._subtask.place
        inline_bytes = self._limits.inline_bytes
        limit = INLINE_LIMIT_BYTES if inline_bytes is None else inline_bytes
        if self._limits.max_state_bytes is not None or len(data) <= limit:
            return StateFile("", len(data), digest, data)
        assert self._storage is not None
        path = state_file_path(place.attempt, job.checkpoint, place.id)
        self._storage.put_new(path, data)
        return StateFile(path, len(data), digest)


def _backend_of(file_format: FileFormat) -> str | None:
    """The `KeyedBackend.native_name` of a file; None for a format that checkpoints do not have."""
    if isinstance(file_format, NativeName):
        return file_format.backend
    return "" if isinstance(file_format, OwnTables) else None


def _chain(job: WriteJob, files: Sequence[StateFile]) -> Chain:
    """The chain of a checkpoint, for the next one to build on."""
    if job.base is None or job.native:
        return Chain((Layer(tuple(files), job.checkpoint),))
    layers, new = job.base.layers, tuple(files[len(job.base.files) :])
    if not new:  # nothing has changed: the last layer completes this checkpoint too
        return Chain((*layers[:-1], replace(layers[-1], checkpoint=job.checkpoint)))
    return Chain((*layers, Layer(new, job.checkpoint, job.level)))
