"""A savepoint or checkpoint at a path, as a set of named states that can be read."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce

import pyarrow as pa

from penstock.checkpoint.snapshot.manifest import verify_file, verify_sizes
from penstock.checkpoint.snapshot.snapshot_location import locate
from penstock.checkpoint.snapshot.table_reader import KeyedRows, OperatorRows, operator_schema
from penstock.errors import UsageError
from penstock.model.snapshot import (
    Manifest,
    NativeName,
    OperatorStateInfo,
    StateFile,
    StateTableInfo,
    SubtaskSnapshot,
    TableFile,
)
from penstock.state.format.keyed_parquet import parquet_schema
from penstock.state.format.schema_evolution import common_info, common_operator_info
from penstock.state.format.snapshot_file import table_sizes
from penstock.state.operator.operator_file import read_operator_states
from penstock.storage.address import parse_address
from penstock.storage.storage import Storage

MODE_KINDS = {"split": "list", "union": "union", "broadcast": "broadcast", "raw": "raw", "raw_keyed": "raw_keyed"}
"""What an operator state of each mode is called."""


@dataclass(frozen=True)
class KeyedState:
    """A keyed state of one operator in all old subtasks."""

    info: StateTableInfo
    parts: tuple[KeyedRows, ...]

    @property
    def uid(self) -> str:
        return self.info.operator_uid

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def kind(self) -> str:
        return self.info.kind

    @property
    def mode(self) -> str:
        return "keyed"

    @property
    def schema(self) -> pa.Schema:
        """The stored columns."""
        return parquet_schema(self.info)

    @property
    def is_uniform(self) -> bool:
        """Every subtask has stored it in the same way, so its files can be used as they are."""
        return all(part.saved == self.info for part in self.parts)

    @property
    def ttl_ms(self) -> int:
        """0 if the state has no time to live, or if the snapshot does not say how long it is."""
        return max((part.ttl_ms for part in self.parts), default=0)

    def read(self, storage: Storage, key_groups: tuple[int, int] | None = None) -> Iterator[pa.Table]:
        """Its rows, subtask by subtask."""
        for part in self.parts:
            yield from part.read(storage, key_groups)

    def read_groups(self, storage: Storage, key_groups: Collection[int]) -> Iterator[pa.Table]:
        """The rows of some key groups, and maybe of others between them. Other subtasks' files are not read."""
        for part in self.parts:
            yield from part.read_groups(storage, key_groups)

    @property
    def table_bytes(self) -> int:
        """Of the files that hold this state alone; its rows take more memory."""
        return sum(part.table_bytes for part in self.parts)


@dataclass(frozen=True)
class OperatorState:
    """An operator state of one operator in all old subtasks."""

    info: OperatorStateInfo
    """Its count is that of the first subtask."""
    parts: tuple[OperatorRows, ...]

    @property
    def uid(self) -> str:
        return self.info.operator_uid

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def kind(self) -> str:
        return MODE_KINDS[self.info.mode]

    @property
    def mode(self) -> str:
        return self.info.mode

    @property
    def is_uniform(self) -> bool:
        """Every subtask has stored it in the same way."""
        return all(part.saved.value_type == self.info.value_type for part in self.parts)

    @property
    def schema(self) -> pa.Schema:
        """The stored columns."""
        return operator_schema(self.info)

    def read(self, storage: Storage, key_groups: tuple[int, int] | None = None) -> Iterator[pa.Table]:
        """Its rows. Every subtask has all of a broadcast state, so that is read once."""
        for part in self.parts[:1] if self.mode == "broadcast" else self.parts:
            table = part.read(storage)
            if len(table):
                yield table


State = KeyedState | OperatorState


@dataclass(frozen=True)
class StoredSnapshot:
    """An opened snapshot. Its files are read on demand."""

    uri: str
    """The folder that holds `_metadata`."""
    storage: Storage
    """What the manifest's paths are relative to."""
    manifest: Manifest

    @property
    def kind(self) -> str:
        """canonical, native or checkpoint."""
        return self.manifest.savepoint or "checkpoint"

    def operator_uids(self) -> list[str]:
        """Every operator, in the order of the manifest."""
        found: dict[str, None] = {}
        for snapshot in self.manifest.subtasks:
            found.update(dict.fromkeys(snapshot.operator_uids))
            found.update(dict.fromkeys(info.operator_uid for info in snapshot.tables))
            found.update(dict.fromkeys(info.operator_uid for info in snapshot.operator_states))
        return list(found)

    def states(self, uid: str | None = None) -> list[State]:
        """All states, or those of one operator, by operator; keyed ones first, timers among them."""
        keyed: dict[tuple[str, str], list[tuple[SubtaskSnapshot, StateTableInfo]]] = {}
        others: dict[tuple[str, str, str], list[tuple[SubtaskSnapshot, OperatorStateInfo]]] = {}
        for snapshot in sorted(self.manifest.subtasks, key=lambda snapshot: snapshot.subtask.index):
            for info in snapshot.tables:
                keyed.setdefault((info.operator_uid, info.name), []).append((snapshot, info))
            for state in snapshot.operator_states:
                others.setdefault((state.operator_uid, state.mode, state.name), []).append((snapshot, state))
        states: list[State] = [self._keyed(parts) for parts in keyed.values()]
        states += [_operator_state(parts_of) for parts_of in others.values()]
        order = {operator: number for number, operator in enumerate(self.operator_uids())}
        found = [state for state in states if uid is None or state.uid == uid]
        return sorted(found, key=lambda state: order[state.uid])

    def _keyed(self, parts: Sequence[tuple[SubtaskSnapshot, StateTableInfo]]) -> KeyedState:
        info = reduce(common_info, (saved for _, saved in parts))
        rows = [KeyedRows(snapshot, saved, info, self.manifest.max_parallelism) for snapshot, saved in parts]
        return KeyedState(info, tuple(rows))

    def state(self, uid: str, name: str, modes: Sequence[str] | None = None) -> State:
        """One state. Raises UsageError, with the known names, if there is none or if the name is ambiguous."""
        self.require_operator(uid)
        of_operator = self.states(uid)
        found = [state for state in of_operator if state.name == name and (modes is None or state.mode in modes)]
        if len(found) == 1:
            return found[0]
        if found:
            kinds = " and ".join(state.kind for state in found)
            raise UsageError(f"operator {uid!r} has {kinds} state named {name!r}; say which kind you mean")
        known = [state.name for state in of_operator if modes is None or state.mode in modes]
        raise UsageError(f"operator {uid!r} has no state {name!r}{_hint(name, known)}")

    def require_operator(self, uid: str) -> None:
        """Raise UsageError, with the known operators, if there is none with this uid."""
        known = self.operator_uids()
        if uid not in known:
            raise UsageError(f"{self.uri} has no operator {uid!r}{_hint(uid, known)}")

    def subtasks(self, uid: str) -> list[SubtaskSnapshot]:
        """The snapshots of an operator's old subtasks."""
        return [
            s for s in self.manifest.subtasks if uid in s.operator_uids or uid in {t.operator_uid for t in s.tables}
        ]

    def verify(self) -> None:
        """Read every file and compare it with its hash."""
        for snapshot in self.manifest.subtasks:
            for file in files_of(snapshot):
                verify_file(self.storage, file)
        if self.manifest.sources.file is not None:
            verify_file(self.storage, self.manifest.sources.file)


def open_stored(path: str) -> StoredSnapshot:
    """The savepoint or checkpoint in a folder, or of a `_metadata` file; all its files exist, with their sizes.

    Whether a job may start from a checkpoint is not checked: that depends on the log of its job.
    """
    found = locate(path)
    verify_sizes(found.storage, found.manifest)
    return StoredSnapshot(str(parse_address(found.path)), found.storage, found.manifest)


def _operator_state(parts: Sequence[tuple[SubtaskSnapshot, OperatorStateInfo]]) -> OperatorState:
    info = reduce(common_operator_info, (saved for _, saved in parts))
    return OperatorState(info, tuple(OperatorRows(snapshot, saved, info) for snapshot, saved in parts))


def files_of(snapshot: SubtaskSnapshot) -> list[StateFile]:
    """Every file of a subtask."""
    last = [] if snapshot.operator_file is None else [snapshot.operator_file]
    return [*snapshot.files, *snapshot.spool, *last, *snapshot.operator_files]


def state_bytes(snapshot: StoredSnapshot) -> dict[tuple[str, str, str], int]:
    """(operator uid, mode, state) -> its bytes; native files are of an operator as a whole, under the name "".

    Reads files in our own format, whose table of contents says what of them is whose.
    """
    found: dict[tuple[str, str, str], int] = {}

    def add(place: tuple[str, str, str], size: int) -> None:
        found[place] = found.get(place, 0) + size

    for subtask in snapshot.manifest.subtasks:
        for file in (*subtask.files, *subtask.operator_files):
            if isinstance(file.format, TableFile):
                add(file.format.state, file.size)
            elif isinstance(file.format, NativeName):
                add((file.format.operator_uid, "native", ""), file.size)
            else:
                for info, size in table_sizes(verify_file(snapshot.storage, file), file.path):
                    add((info.operator_uid, "keyed", info.name), size)
        if subtask.operator_file is not None:
            states = read_operator_states(verify_file(snapshot.storage, subtask.operator_file))
            for place, rows in states.items():
                add(place, rows.nbytes)
    return found


def _hint(wanted: str, known: Sequence[str]) -> str:
    near = get_close_matches(wanted, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are: {', '.join(map(repr, known)) or 'none'}"
