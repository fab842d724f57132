"""What a subtask restores: its key groups of old snapshots, its shares in old operator state (PROTOCOL section 5, 5).

Old snapshots may have any parallelism, max parallelism and backend, and may be checkpoints or savepoints.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from penstock import failpoint
from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.errors import CheckpointCorruptError
from penstock.model.ids import new_nonce
from penstock.model.snapshot import (
    NativeName,
    OperatorStateShare,
    OwnTables,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
    TableFile,
    files_of_format,
)
from penstock.model.units import MIB
from penstock.runtime.snapshots.local_copies import LocalCopies, RestoreFigures
from penstock.runtime.task import Subtask
from penstock.state.backend.backend_registry import reader_of
from penstock.state.backend.backend_spec import AdoptsFiles, ReadsFiles, StoredFiles
from penstock.state.backend.table_sizes import TableSizes
from penstock.state.format.keyed_parquet import decode_table
from penstock.state.format.operator_parquet import decode_operator_table
from penstock.state.format.snapshot_file import FileData, read_chain
from penstock.state.format.table_rows import in_key_groups
from penstock.state.operator.operator_file import read_operator_states
from penstock.storage.memory import MemoryStorage
from penstock.storage.storage import Storage

HELD_BYTES = 256 * MIB
"""A chain of files up to this size is kept in memory while it is restored; of a larger one, one file at a time."""


class SnapshotLoader:
    """Loads one subtask, before its first epoch."""

    def __init__(
        self,
        subtask: Subtask,
        storage: Storage | None,
        copies: LocalCopies | None = None,
        sizes: TableSizes | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        """`storage`: where the snapshots' files are; None if all are inside the manifest.

        `renamed`: uids in the files -> uids of the program, which the snapshots already have.
        """
        self._renamed = renamed or {}
        self._subtask = subtask
        self._storage = storage or MemoryStorage()
        self._copies = copies
        self._sizes = sizes
        self._lock = threading.Lock()
        self.figures = RestoreFigures()
        """Where the files of keyed state were read from."""
        self.own: SubtaskSnapshot | None = None
        """The snapshot, if it is the only one and belongs to this subtask."""
        self.segments: dict[str, StateFile] = {}
        """Of the rows in flight of `own`: segment of the spool -> its file."""

    def load(self, snapshots: Sequence[SubtaskSnapshot], max_parallelism: int) -> None:
        """Restore this subtask's key groups. `max_parallelism` is that of the snapshots."""
        subtask = self._subtask
        same = [snapshot for snapshot in snapshots if self._is_same(snapshot)]
        if len(snapshots) == len(same) == 1 and max_parallelism == subtask.stage.max_parallelism:
            self.own = same[0]
        for snapshot in snapshots:
            failpoint.before("C25")
            self._load_tables(snapshot)
            self._load_parquet(snapshot)
            self._load_native(snapshot, max_parallelism)
            self._load_spool(snapshot)
            failpoint.after("C25")
        # PROTOCOL I-6: at any parallelism, event time continues where all parts of the old state were.
        subtask.watermark = min((snapshot.watermark for snapshot in snapshots), default=subtask.watermark)

    def load_operator_state(self, shares: Sequence[OperatorStateShare]) -> None:
        """Restore this subtask's shares of old operator state, in order."""
        tables: dict[str, dict[tuple[str, str, str], pa.Table]] = {}
        for share in shares:
            file, info = share.file, share.info
            if isinstance(file.format, TableFile):
                rows = decode_operator_table(self._read(file), file.format, info)
            else:
                if file.sha256 not in tables:
                    path = file.path or "inline operator state"
                    found = read_operator_states(self._read(file), path=path)
                    tables[file.sha256] = {(self._uid(uid), mode, name): t for (uid, mode, name), t in found.items()}
                if (info.operator_uid, info.mode, info.name) not in tables[file.sha256]:
                    raise CheckpointCorruptError(file.path, f"{info.mode} state {info.name!r}", "none of that name")
                rows = tables[file.sha256][info.operator_uid, info.mode, info.name]
            states = self._subtask.operator_states[info.operator_uid]
            states.restore(info, rows.slice(share.start, share.stop - share.start))

    def _uid(self, old: str) -> str:
        return self._renamed.get(old, old)

    def _is_same(self, snapshot: SubtaskSnapshot) -> bool:
        """Whether the snapshot has the key groups and operators of this subtask."""
        place = self._subtask.place
        return snapshot.key_groups == place.key_groups and list(place.stage.uids) == snapshot.operator_uids

    def _load_tables(self, snapshot: SubtaskSnapshot) -> None:
        """Tables in our own format: the full state and deltas on top of it."""
        entries = [file for file, _ in files_of_format(snapshot.files, OwnTables)]
        place = self._subtask.place
        files: list[FileData] = [partial(self._read_keyed, file) for file in entries]
        if sum(file.size for file in entries) <= HELD_BYTES:
            files = [self._read_keyed(file) for file in entries]
        names = [file.path or "inline state" for file in entries]
        for info, rows in read_chain(files, place.key_groups, place.stage.max_parallelism, paths=names):
            self._restore(msgspec.structs.replace(info, operator_uid=self._uid(info.operator_uid)), rows)

    def _load_parquet(self, snapshot: SubtaskSnapshot) -> None:
        """Tables of a canonical savepoint."""
        infos = {(info.operator_uid, info.name): info for info in snapshot.tables}
        place = self._subtask.place
        for file, table in files_of_format(snapshot.files, TableFile):
            if table.operator_uid in self._subtask.backends:
                info = infos[table.operator_uid, table.name]
                data = self._read_keyed(file)
                self._restore(info, decode_table(data, table, info, place.key_groups, place.stage.max_parallelism))

    def _restore(self, info: StateTableInfo, rows: pa.Table) -> None:
        backend = self._subtask.backends.get(info.operator_uid)
        if backend is not None:
            backend.restore(info, rows)
            if self._sizes is not None:
                self._sizes.restored(info, rows)

    def _load_native(self, snapshot: SubtaskSnapshot, max_parallelism: int) -> None:
        """Native files: adopted by the subtask that wrote them, read row by row by any other."""
        operators: dict[tuple[str, str], list[StateFile]] = {}
        for file, name in files_of_format(snapshot.files, NativeName):
            operators.setdefault((name.operator_uid, name.backend), []).append(file)
        place = self._subtask.place
        for (uid, native_name), files in operators.items():
            backend = self._subtask.backends.get(uid)
            if backend is None:
                continue
            infos = [info for info in snapshot.tables if info.operator_uid == uid]
            folder = Path(place.folder) / f"restored-{new_nonce()}"
            stored = StoredFiles(files, infos, self._read_keyed, folder)
            if self.own is not None and backend.native_name == native_name and isinstance(backend, AdoptsFiles):
                backend.adopt(stored)
                continue
            groups = place.key_groups if max_parallelism == place.stage.max_parallelism else None
            for info, rows in self._reader(native_name).read_files(stored, max_parallelism, groups):
                backend.restore(info, in_key_groups(rows, place.key_groups, place.stage.max_parallelism))

    def _reader(self, native_name: str) -> ReadsFiles:
        """The reader of these files: the job's own backend with its settings, if they are its files."""
        spec = self._subtask.place.backend.spec
        return spec if spec.name == native_name and isinstance(spec, ReadsFiles) else reader_of(native_name)

    def _load_spool(self, snapshot: SubtaskSnapshot) -> None:
        """Rows in flight: all of them for the subtask that spooled them, otherwise those of its key groups."""
        spool, skip = self._subtask.spool, snapshot.spool_skip
        for file in snapshot.spool:
            data, path = self._read(file), file.path or "inline rows in flight"
            if self.own is not None:
                self.segments[spool.restore(data, skip, path).id] = file
            else:
                spool.restore_some(data, skip, self._subtask.place.key_groups, path)
            skip = 0

    def _read_keyed(self, file: StateFile) -> bytes:
        """The bytes of a file of keyed state, from its local copy if there is an identical one."""
        data = self._copies.read(file) if self._copies is not None and file.inline is None else None
        if data is not None:
            figures = RestoreFigures(local_files=1, local_bytes=len(data))
        else:
            data = self._read(file)
            figures = RestoreFigures() if file.inline is not None else RestoreFigures(0, 0, 1, len(data))
        with self._lock:  # a backend may fetch its files with several threads
            self.figures += figures
        return data

    def _read(self, file: StateFile) -> bytes:
        return verify_file(self._storage, file)
