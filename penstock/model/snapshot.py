"""What a checkpoint or a savepoint is made of, as plain data: the manifest and its parts (docs/internals/formats.md).

All structs are msgspec structs, so that the manifest is JSON and unknown or mistyped fields are errors. Paths are
relative to the job's checkpoint folder, or to the savepoint's own, with `/`, never absolute and never with `..`.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

import msgspec

from penstock.model.ids import SubtaskId, Version

FIRST_NATIVE_BACKEND = "rocksdb"
"""The backend of native files that name none: it was the first to have any."""


class OwnTables(msgspec.Struct, frozen=True):
    """The format of a file that holds tables of all operators of a subtask: `state/format/snapshot_file.py`."""


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
    """What lies between the last access to an entry and its `expires_at`; 0 where that is not known."""

    @property
    def state(self) -> tuple[str, str, str]:
        """Operator uid, mode and name: which state it is."""
        return self.operator_uid, self.mode, self.name


FileFormat: TypeAlias = OwnTables | NativeName | TableFile
OWN_TABLES = OwnTables()
_Format = TypeVar("_Format", OwnTables, NativeName, TableFile)


class StateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable file of a checkpoint. Small ones are carried in `inline` and have no file."""

    path: str
    size: int
    sha256: str
    inline: bytes | None = None
    native: NativeName | None = None
    """How the manifest writes `format` down; everybody else asks for that."""
    table: TableFile | None = None
    """The same. A file of `OwnTables` has neither."""

    @property
    def format(self) -> FileFormat:
        """What kind of file this is, with what is particular to that kind."""
        return self.native or self.table or OWN_TABLES

    def with_format(self, file_format: FileFormat) -> "StateFile":
        """The same file, described by another format."""
        return msgspec.structs.replace(
            self,
            native=file_format if isinstance(file_format, NativeName) else None,
            table=file_format if isinstance(file_format, TableFile) else None,
        )


def files_of_format(files: Iterable[StateFile], kind: type[_Format]) -> list[tuple[StateFile, _Format]]:
    """The files of one format, each with its format."""
    return [(file, found) for file in files if isinstance(found := file.format, kind)]


class InlineLimits(msgspec.Struct, frozen=True):
    """Which states travel inside the manifest, and how large one may be there."""

    inline_bytes: int | None = None
    """A state of at most so many bytes has no file of its own; None: the default."""
    max_state_bytes: int | None = None
    """Every state travels inside the manifest, and an operator's may have at most so many bytes; None: no such rule."""


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
    """Left out of the manifest where the state has no namespaces."""

    @property
    def namespace(self) -> str | None:
        """The type of its namespaces: entries are addressed by key and namespace. None: by the key alone."""
        return None if self.namespace_type is msgspec.UNSET else self.namespace_type


class OperatorStateInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operator state of one operator in one subtask, as the snapshot stores it."""

    operator_uid: str
    name: str
    """Empty for raw state."""
    mode: str
    """split, union, broadcast, raw or raw_keyed: how a restore hands it out."""
    value_type: str
    map_key_type: str | None
    """Only of broadcast state."""
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
    """First and last key group, both included."""
    files: list[StateFile]
    tables: list[StateTableInfo]
    watermark: int
    operator_uids: list[str] = []
    operator_states: list[OperatorStateInfo] = []
    operator_file: StateFile | None = None
    """Holds all of `operator_states`; None where there are none, and in a canonical savepoint."""
    spool: list[StateFile] = []
    """Rows in flight at the barrier of an unaligned checkpoint, in order."""
    spool_skip: int = 0
    """Rows of the first file that were worked on before the barrier."""
    operator_files: list[StateFile] = []
    """Of a canonical savepoint: one for each of `operator_states` that this subtask has written."""


def snapshot_files(snapshot: SubtaskSnapshot) -> Iterator[StateFile]:
    """Every file entry of one subtask."""
    yield from snapshot.files
    yield from snapshot.spool
    if snapshot.operator_file is not None:
        yield snapshot.operator_file
    yield from snapshot.operator_files


class Committable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pre-committed sink transaction. `data` is the sink's own plain description of it."""

    sink_uid: str
    subtask: SubtaskId
    epoch: int
    transaction: str
    data: dict[str, str | int]


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the sources stood at the barrier: one file with the offset log cut to this point (PROTOCOL R19)."""

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
    """How large one keyed state of one operator is: in one subtask, or in all of them together.

    For people to look at: it travels in acks and in the registry, never in the manifest.
    """

    operator_uid: str
    name: str
    entries: int
    size_bytes: int
    entries_exact: bool
    """Whether `entries` was counted; otherwise it is an estimate."""
    bytes_exact: bool
    """Whether `size_bytes` and the figures of key groups were counted."""
    first_key_group: int = 0
    """The key group that the first figures of both lists are of."""
    group_entries: list[int] = []
    """Entries per key group; empty where the lists were left out to keep the whole small."""
    group_bytes: list[int] = []
    largest: list[tuple[str, int]] = []
    """The largest keys as text, cut to 80 characters, and their bytes; largest first, ten at most."""


class BarrierFigures(msgspec.Struct, frozen=True):
    """How a checkpoint's barrier passed through one subtask. For people to look at, like sizes."""

    start_delay_ms: int = 0
    """From the start of the epoch in the JobManager to its start in the subtask."""
    alignment_ms: int = 0
    """From there until the barrier of every channel was there, rows before it included."""
    processed_bytes: int = 0
    """Of rows that were worked on meanwhile."""
    persisted_bytes: int = 0
    """Of rows in flight that the checkpoint holds."""
    in_flight_rows: int = 0


class CheckpointAck(msgspec.Struct, frozen=True):
    """A subtask's writer has put its files (PROTOCOL R17)."""

    checkpoint_id: int
    snapshot: SubtaskSnapshot
    sync_s: float
    async_s: float
    written_bytes: int
    sizes: list[StateSize] = []
    figures: BarrierFigures = BarrierFigures()


class CheckpointDecline(msgspec.Struct, frozen=True):
    """A subtask could not write its part."""

    checkpoint_id: int
    subtask: SubtaskId
    version: Version
    reason: str
    asynchronous: bool = False
    """It was sealed, and could not be written."""


class SavepointOrder(msgspec.Struct, frozen=True):
    """What an epoch's header says of a savepoint: its subtasks write their part of it at the barrier."""

    number: int
    """Of the checkpoint at whose barrier it is taken."""
    uri: str
    """The savepoint's own folder."""
    format: str
    """canonical or native."""
    inline: bool = False
    """Everything goes into `_metadata`: the job keeps its checkpoints in the JobManager."""


class SavepointAck(msgspec.Struct, frozen=True, tag="savepoint_ack"):
    """A subtask has written its part of a savepoint."""

    number: int
    snapshot: SubtaskSnapshot
    written_bytes: int


class SavepointDecline(msgspec.Struct, frozen=True, tag="savepoint_decline"):
    """A subtask could not write its part of a savepoint."""

    number: int
    subtask: SubtaskId
    version: Version
    reason: str


class SavepointProgress(msgspec.Struct, frozen=True, tag="savepoint_progress"):
    """How much of its part a subtask has written, from 0 to 1."""

    number: int
    subtask: SubtaskId
    done: float


SavepointEvent: TypeAlias = SavepointAck | SavepointDecline | SavepointProgress
"""What a subtask tells of its part of a savepoint."""
