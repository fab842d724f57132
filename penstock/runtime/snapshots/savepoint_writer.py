"""A subtask's part of a savepoint: sealed at the barrier, written in the background (PROTOCOL R29).

Canonical: one Parquet file per state, or a few of a large one. Native: the files of a full checkpoint.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.checkpoint.snapshot.savepoint_paths import keyed_path, native_path, operator_path
from penstock.clock import Clock
from penstock.errors import CheckpointDeclinedError
from penstock.model.ids import Version
from penstock.model.snapshot import (
    OWN_TABLES,
    BarrierFigures,
    FileFormat,
    NativeName,
    SavepointAck,
    SavepointOrder,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
    TableFile,
)
from penstock.runtime.task import Subtask
from penstock.state.backend.sealed_state import SealedFiles, SealedTable, SealedTables
from penstock.state.format.keyed_parquet import encode_table
from penstock.state.format.operator_parquet import encode_operator_table
from penstock.state.format.snapshot_file import encode_files, pieces
from penstock.state.format.table_rows import Rows, empty_table, encode_rows
from penstock.state.operator.operator_file import SealedOperatorState, encode_operator_states
from penstock.storage.storage import Storage

Report = Callable[[float], None]
"""Called with the fraction that is written, from 0 to 1."""


@dataclass(frozen=True)
class SavepointJob:
    """The sealed state of a subtask for a savepoint. Later epochs do not change it."""

    order: SavepointOrder
    version: Version
    sealed: list[SealedTables | SealedFiles]
    operator_states: list[SealedOperatorState]
    watermark: int
    ttls: dict[tuple[str, str], int]
    """(operator uid, state) -> time to live in milliseconds."""
    sync_s: float = 0.0
    figures: BarrierFigures = BarrierFigures()

    @property
    def infos(self) -> list[StateTableInfo]:
        """Every keyed state of every operator."""
        return [info for operator in self.sealed for info in infos_of(operator)]


class SavepointWriter:
    """Seals in the epoch's thread, writes in another."""

    def __init__(self, subtask: Subtask, open_storage: Callable[[str], Storage], clock: Clock) -> None:
        self.subtask = subtask
        self._open_storage = open_storage
        self._clock = clock

    def seal(self, order: SavepointOrder, version: Version) -> SavepointJob:
        """Seal the present state. Only this part delays the epoch."""
        subtask = self.subtask
        if subtask.spool.rows:
            raise CheckpointDeclinedError(f"{subtask.spool.rows} rows are in flight; a savepoint is aligned")
        started = self._clock.monotonic_s()
        backends = subtask.backends
        is_native = order.format == "native"
        sealed = [
            backend.seal_native(order.number) if is_native else backend.seal_all(order.number)
            for backend in backends.values()
        ]
        ttls = {
            (uid, info.name): backends[uid].ttl.ttl_ms(info.name)
            for uid, operator in zip(backends, sealed, strict=True)
            for info in infos_of(operator)
        }
        states = [state for owned in subtask.operator_states.values() for state in owned.seal()]
        sync_s = self._clock.monotonic_s() - started
        return SavepointJob(order, version, sealed, states, subtask.watermark, ttls, sync_s, subtask.figures)

    def write(self, job: SavepointJob, report: Report) -> SavepointAck:
        """Write the sealed state to the savepoint's folder; returns the description of what was written."""
        started = self._clock.monotonic_s()
        place = self.subtask.place
        put = _Put(self.subtask, None if job.order.inline else self._open_storage(job.order.uri))
        is_native = job.order.format == "native"
        files = list(self._native_files(job, put) if is_native else self._tables(job, put, report))
        states = job.operator_states if is_native else self._own_share(job.operator_states)
        operator_file, operator_files = None, []
        if is_native and states:
            operator_file = put.file(native_path(place.id), encode_operator_states(states))
        elif not is_native:
            operator_files = [self._operator_file(state, put) for state in states]
        snapshot = SubtaskSnapshot(
            place.id,
            job.version,
            place.key_groups,
            files,
            job.infos,
            job.watermark,
            list(place.stage.uids),
            [state.info for state in states],
            operator_file,
            operator_files=operator_files,
        )
        async_s = self._clock.monotonic_s() - started
        return SavepointAck(job.order.number, snapshot, put.written, job.sync_s, async_s, job.figures)

    def _own_share(self, states: list[SealedOperatorState]) -> list[SealedOperatorState]:
        """The states that this subtask writes. Broadcast state is equal everywhere, so only one subtask writes it."""
        return [state for state in states if state.info.mode != "broadcast" or self.subtask.place.index == 0]

    def _tables(self, job: SavepointJob, put: "_Put", report: Report) -> Iterator[StateFile]:
        parts = [
            (operator, table)
            for operator in job.sealed
            if isinstance(operator, SealedTables)
            for table in operator.tables
        ]
        for number, (operator, table) in enumerate(parts):
            info = table.info
            ttl_ms = job.ttls.get((info.operator_uid, info.name), 0) if info.ttl else 0
            for rows, done in table_pieces(table, operator):
                data, count = encode_table(info, rows, operator.max_parallelism, ttl_ms)
                path = keyed_path(info.operator_uid, info.name, self.subtask.place.id)
                yield put.file(path, data, TableFile(info.operator_uid, info.name, "keyed", count, ttl_ms))
                report((number + done) / len(parts))

    def _operator_file(self, state: SealedOperatorState, put: "_Put") -> StateFile:
        info = state.info
        path = operator_path(info.operator_uid, info.mode, info.name, self.subtask.place.id)
        table = TableFile(info.operator_uid, info.name, info.mode, info.count)
        return put.file(path, encode_operator_table(state), table)

    def _native_files(self, job: SavepointJob, put: "_Put") -> Iterator[StateFile]:
        tables = [operator for operator in job.sealed if isinstance(operator, SealedTables)]
        if tables:
            for data in encode_files(tables, compression=self.subtask.place.backend.compression):
                yield put.file(native_path(self.subtask.place.id), data)
        for operator in job.sealed:
            if isinstance(operator, SealedFiles):
                yield from operator.store([], put.native)[0]


class _Put:
    """Writes files of a subtask into the savepoint's folder, or into the manifest if there is no folder."""

    def __init__(self, subtask: Subtask, storage: Storage | None) -> None:
        self._subtask = subtask
        self._storage = storage
        self.written = 0

    def file(self, path: str, data: bytes, file_format: FileFormat = OWN_TABLES) -> StateFile:
        """One file."""
        sha256 = hashlib.sha256(data).hexdigest()
        self.written += len(data)
        if self._storage is None:
            return StateFile("", len(data), sha256, data).with_format(file_format)
        self._storage.put_new(path, data)
        return StateFile(path, len(data), sha256).with_format(file_format)

    def native(self, data: bytes, name: NativeName) -> StateFile:
        """One of the backend's own files."""
        return self.file(native_path(self._subtask.place.id), data, name)


def infos_of(operator: SealedTables | SealedFiles) -> list[StateTableInfo]:
    """The keyed states of one operator."""
    return [t.info for t in operator.tables] if isinstance(operator, SealedTables) else list(operator.infos)


def table_pieces(table: SealedTable, operator: SealedTables) -> Iterator[tuple[pa.Table, float]]:
    """The rows of a table in parts of limited size, at least one, each with the fraction that is done after it.

    Rows of a state that no function has declared may contain an entry twice, so they are a single part.
    """
    rows = table.rows()
    if isinstance(rows, pa.Table):
        yield rows, 1.0
        return
    total = len(rows.keys) if isinstance(rows, Rows) else None
    batches = encode_rows(rows, table.info, operator.key_codec) if isinstance(rows, Rows) else rows
    given = 0
    for piece in pieces(batches):
        given += len(piece)
        yield piece, given / total if total else 0.5
    if not given:
        yield empty_table(table.info), 1.0
