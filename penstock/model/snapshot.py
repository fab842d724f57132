"""The contents of a checkpoint or savepoint as plain data: the manifest and its parts (docs/internals/formats.md).

All structs are msgspec structs, so that the manifest is JSON and unknown or mistyped fields are errors. Paths are
relative to the folder of the job's checkpoints or of the savepoint, with `/`, never absolute and never with `..`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from penstock.model.ids import SubtaskId, Version

FIRST_NATIVE_BACKEND = "rocksdb"
"""The backend of native files that do not name one. It was the first that had native files."""


class OwnTables(msgspec.Struct, frozen=True):
    """The format of a file with tables of all operators of a subtask: `state/format/snapshot_file.py`."""


class NativeName(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The format of a file that only a backend can read, and what the backend calls the file."""

    operator_uid: str
    name: str
    backend: str = FIRST_NATIVE_BACKEND


class TableFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The format of a Parquet file of a canonical savepoint, which holds rows of one state."""

    operator_uid: str
    name: str
    mode: str
    """keyed, or the mode of an operator state."""
    rows: int
    ttl_ms: int = 0
    """The time between the last access to an entry and its `expires_at`; 0 if it is unknown."""

    @property
    def state(self) -> tuple[str, str, str]:
        """Operator uid, mode and name, which identify the state."""
        return self.operator_uid, self.mode, self.name


FileFormat: TypeAlias = OwnTables | NativeName | TableFile
OWN_TABLES = OwnTables()
_Format = TypeVar("_Format", OwnTables, NativeName, TableFile)


class StateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable file of a checkpoint. Small ones are in `inline` and have no path."""

    path: str
    size: int
    sha256: str
    inline: bytes | None = None
    native: NativeName | None = None
    """Represents `format` in the manifest. Use `format` instead."""
    table: TableFile | None = None
    """The same. Both are None for `OwnTables`."""

    @property
    def format(self) -> FileFormat:
        """The format of the file, with the details of that format."""
        return self.native or self.table or OWN_TABLES

    def with_format(self, file_format: FileFormat) -> "StateFile":
        """The same file with another format."""
        return msgspec.structs.replace(
            self,
            native=file_format if isinstance(file_format, NativeName) else None,
            table=file_format if isinstance(file_format, TableFile) else None,
        )


def files_of_format(files: Iterable[StateFile], kind: type[_Format]) -> list[tuple[StateFile, _Format]]:
    """The files of one format, each with its format."""
    return [(file, found) for file in files if isinstance(found := file.format, kind)]


class InlineLimits(msgspec.Struct, frozen=True):
    """Which states are inside the manifest, and how large they may be."""

    inline_bytes: int | None = None
    """States up to this size are inside the manifest; None: the default."""
    max_state_bytes: int | None = None
    """If set, all states are inside the manifest, and the state of an operator has at most this size."""


class StateTableInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One keyed state of one operator, as the snapshot stores it."""

    operator_uid: str
    name: str
    kind: str
    """value, list, map, reducing, aggregating or timer."""
    key_types: list[str]
    value_type: str
    map_key_type: str | None = None
    ttl: bool = False
    """Entries are stored with a stamp: `value_type` is a pair of stamp and value, for a list a list of such pairs."""
    namespace_type: str | msgspec.UnsetType = msgspec.UNSET
    """Not in the manifest if the state has no namespaces."""

    @property
    def namespace(self) -> str | None:
        """The type of its namespaces; None if entries are addressed by the key alone."""
        return None if self.namespace_type is msgspec.UNSET else self.namespace_type


class OperatorStateInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operator state of one operator in one subtask, as the snapshot stores it."""

    operator_uid: str
    name: str
    """Empty for raw state."""
    mode: str
    """split, union, broadcast, raw or raw_keyed: how a restore distributes it."""
    value_type: str
    map_key_type: str | None
    """Only for broadcast state."""
    count: int
    """Elements, entries, partitions or key groups."""


class OperatorStateShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of elements in an old subtask's file that a new subtask gets."""

    info: OperatorStateInfo
    file: StateFile
    start: int
    stop: int


class SubtaskSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sealed state of one subtask: a full file and the deltas on top of it, oldest first."""

    subtask: SubtaskId
    version: Version
    key_groups: tuple[int, int]
    """First and last key group, inclusive."""
    files: list[StateFile]
    tables: list[StateTableInfo]
    watermark: int
    operator_uids: list[str] = []
    operator_states: list[OperatorStateInfo] = []
    operator_file: StateFile | None = None
    """Contains all of `operator_states`; None if there are none, and in a canonical savepoint."""
    spool: list[StateFile] = []
    """Rows in flight at the barrier of an unaligned checkpoint, in order."""
    spool_skip: int = 0
    """Rows of the first file that were processed before the barrier."""
    operator_files: list[StateFile] = []
    """Only in a canonical savepoint: one file for each of `operator_states` that this subtask wrote."""


def snapshot_files(snapshot: SubtaskSnapshot) -> Iterator[StateFile]:
    """Every file entry of one subtask."""
    yield from snapshot.files
    yield from snapshot.spool
    if snapshot.operator_file is not None:
        yield snapshot.operator_file
    yield from snapshot.operator_files


class Committable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pre-committed sink transaction. `data` is the sink's description of it, as plain values."""

    sink_uid: str
    subtask: SubtaskId
    epoch: int
    transaction: str
    data: dict[str, str | int]


TOGETHER = "together"
"""In a committable's data: all of its sink's transactions in a checkpoint are committed in one call."""


def commit_groups(committables: Sequence[Committable]) -> list[list[Committable]]:
    """The committables in the portions in which they are committed: in order, one by one or all of a sink together."""
    groups: dict[tuple[str, str], list[Committable]] = {}
    for committable in committables:
        name = "" if committable.data.get(TOGETHER) else committable.transaction
        groups.setdefault((committable.sink_uid, name), []).append(committable)
    return list(groups.values())


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source positions at the barrier: one file with the offset log up to this point (PROTOCOL R19)."""

    batch_id: int
    """The Spark batch of the last committed `run_epoch`; -1 before the first."""
    file: StateFile | None
    source_uids: list[str] = []
    """In the order of the offset lines."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`chk-N/_metadata`, `savepoint-…/_metadata`: everything a restore needs."""

    magic: str
    format_version: int
    job_id: str
    checkpoint_id: int
    attempt: int
    writer: str
    """Hash of the attempt's token."""
    epoch: int
    now_ms: int
    parent: int | None
    max_parallelism: int
    watermarks: dict[str, int]
    """Watermark generator uid -> its watermark; never goes back."""
    max_timestamps: dict[str, int]
    """Watermark generator uid -> the greatest timestamp it has seen."""
    subtasks: list[SubtaskSnapshot]
    sources: SourcePosition
    committables: list[Committable]
    final: bool = False
    savepoint: str = ""
    """canonical or native; empty for a checkpoint."""


class StateSize(msgspec.Struct, frozen=True):
    """The size of one keyed state of one operator, in one subtask or in all of them.

    For display only: it is sent in acks and stored in the registry, never in the manifest.
    """

    operator_uid: str
    name: str
    entries: int
    size_bytes: int
    entries_exact: bool
    """Whether `entries` was counted, not estimated."""
    bytes_exact: bool
    """Whether `size_bytes` and the figures of key groups were counted, not estimated."""
    first_key_group: int = 0
    """The key group of the first figures in both lists."""
    group_entries: list[int] = []
    """Entries per key group; empty if the lists were left out to limit the size."""
    group_bytes: list[int] = []
    largest: list[tuple[str, int]] = []
    """The largest keys as text of at most 80 characters, and their bytes; largest first, at most ten."""
    on_disk: bool = False
    """Whether `size_bytes` and `group_bytes` are those of compressed files; those of `largest` never are."""


class BarrierFigures(msgspec.Struct, frozen=True):
    """How a checkpoint's barrier passed through one subtask. For display only."""

    start_delay_ms: int = 0
    """From the start of the epoch in the JobManager to its start in the subtask."""
    alignment_ms: int = 0
    """From there until the barriers of all channels had arrived, including the rows before them."""
    processed_bytes: int = 0
    """Bytes of rows that were processed in this time."""
    persisted_bytes: int = 0
    """Bytes of rows in flight that the checkpoint contains."""
    in_flight_rows: int = 0


class CheckpointAck(msgspec.Struct, frozen=True):
    """A subtask has written its part of a checkpoint (PROTOCOL R17)."""

    checkpoint_id: int
    snapshot: SubtaskSnapshot
    sync_s: float
    async_s: float
    written_bytes: int
    sizes: list[StateSize] = []
    figures: BarrierFigures = BarrierFigures()


class CheckpointDecline(msgspec.Struct, frozen=True):
    """A subtask could not write its part of a checkpoint."""

    checkpoint_id: int
    subtask: SubtaskId
    version: Version
    reason: str
    asynchronous: bool = False
    """Whether it was sealed and could not be written."""


class SavepointOrder(msgspec.Struct, frozen=True):
    """The savepoint that an epoch's header requests. Its subtasks write their parts at the barrier."""

    number: int
    """The number of the checkpoint at whose barrier it is taken."""
    uri: str
    """The savepoint's own folder."""
    format: str
    """canonical or native."""
    inline: bool = False
    """Whether everything is stored in `_metadata`, because the job keeps its checkpoints in the JobManager."""


class SavepointAck(msgspec.Struct, frozen=True, tag="savepoint_ack"):
    """A subtask has written its part of a savepoint."""

    number: int
    snapshot: SubtaskSnapshot
    written_bytes: int
    sync_s: float = 0.0
    async_s: float = 0.0
    figures: BarrierFigures = BarrierFigures()


class SavepointDecline(msgspec.Struct, frozen=True, tag="savepoint_decline"):
    """A subtask could not write its part of a savepoint."""

    number: int
    subtask: SubtaskId
    version: Version
    reason: str


class SavepointProgress(msgspec.Struct, frozen=True, tag="savepoint_progress"):
    """The fraction of its part that a subtask has written, from 0 to 1."""

    number: int
    subtask: SubtaskId
    done: float


SavepointEvent: TypeAlias = SavepointAck | SavepointDecline | SavepointProgress
"""What a subtask reports about its part of a savepoint."""
