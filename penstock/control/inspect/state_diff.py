"""The differences between two snapshots: operators, states, types and rows.

Rows are compared a range of key groups at a time, so that neither snapshot has to fit into memory.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from penstock.checkpoint.snapshot.readable_state import ReadableState, readable
from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State, StoredSnapshot
from penstock.control.inspect.state_rows import known_rows, plain_rows
from penstock.model.units import MIB
from penstock.state.format.schema_evolution import compare_states
from penstock.state.format.table_rows import VALUE_COLUMN

CHUNK_ROWS = 500_000
CHUNK_BYTES = 128 * MIB
NOT_COMPARED = frozenset({"key_group", "position", "subtask"})
"""Columns that say where a row is, not what it is."""


class RowChange(msgspec.Struct, frozen=True):
    """One row that differs; `before` or `after` is None if the row is missing there."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None


class StateDiff(msgspec.Struct, frozen=True):
    """One state that differs."""

    operator: str
    state: str
    kind: str
    change: str
    """added, removed, changed or schema (rows were not compared)."""
    schema_before: str | None = None
    schema_after: str | None = None
    """Only where the two differ."""
    schema_change: str | None = None
    """What a program that declares the second would do with the first: evolves or refused, and why."""
    rows_added: int = 0
    rows_removed: int = 0
    rows_changed: int = 0
    examples: list[RowChange] = []


class SnapshotDiff(msgspec.Struct, frozen=True):
    """The changes that turn the first snapshot into the second."""

    operators_added: list[str]
    operators_removed: list[str]
    states: list[StateDiff]

    @property
    def is_empty(self) -> bool:
        """Whether the snapshots hold the same."""
        return not (self.operators_added or self.operators_removed or self.states)


def diff_snapshots(before: StoredSnapshot, after: StoredSnapshot, examples: int = 3) -> SnapshotDiff:
    """The differences, with a few rows of each state that differs."""
    old, new = before.operator_uids(), after.operator_uids()
    found = []
    left, right = _by_place(before), _by_place(after)
    for place in sorted({*left, *right}):
        if place not in left or place not in right:
            snapshot, state = (after, right[place]) if place in right else (before, left[place])
            found.append(_one_sided(snapshot, state, is_added=place in right))
        else:
            diff = _diff_state((before, left[place]), (after, right[place]), examples)
            if diff is not None:
                found.append(diff)
    return SnapshotDiff([uid for uid in new if uid not in old], [uid for uid in old if uid not in new], found)


def schema_text(state: State) -> str:
    """The types of a state in one line."""
    columns = [column for column in readable(state).columns if column.name not in NOT_COMPARED]
    return f"{state.kind} " + ", ".join(f"{column.stored} {column.type.text}" for column in columns)


def _by_place(snapshot: StoredSnapshot) -> dict[tuple[str, str, str], State]:
    return {(state.uid, state.mode, state.name): state for state in snapshot.states()}


def _one_sided(snapshot: StoredSnapshot, state: State, *, is_added: bool) -> StateDiff:
    rows = known_rows(state)
    if rows is None:
        rows = sum(len(table) for table in state.read(snapshot.storage))
    if is_added:
        return StateDiff(state.uid, state.name, state.kind, "added", rows_added=rows)
    return StateDiff(state.uid, state.name, state.kind, "removed", rows_removed=rows)


Side = tuple[StoredSnapshot, State]


def _diff_state(before: Side, after: Side, examples: int) -> StateDiff | None:
    """None if the two are the same."""
    old, new = before[1], after[1]
    schemas: tuple[str | None, str | None] = schema_text(old), schema_text(new)
    keys = [(s.kind, s.info.map_key_type, *_key_types(s)) for s in (old, new)]
    if keys[0] != keys[1]:
        return StateDiff(new.uid, new.name, new.kind, "schema", schemas[0], schemas[1], _change_text(old, new))
    is_same = schemas[0] == schemas[1]
    tally = _Tally(readable(old), readable(new), examples)
    for groups in _chunks(before, after):
        tally.compare(before[1].read(before[0].storage, groups), after[1].read(after[0].storage, groups))
    if is_same and not tally.changes:
        return None
    return StateDiff(
        new.uid,
        new.name,
        new.kind,
        "changed",
        None if is_same else schemas[0],
        None if is_same else schemas[1],
        None if is_same else _change_text(old, new),
        tally.added,
        tally.removed,
        tally.changed,
        tally.examples,
    )


def _change_text(old: State, new: State) -> str:
    change = compare_states(old.info, new.info)
    return ": ".join(part for part in (change.outcome, change.reason or "; ".join(change.lines)) if part)


def _key_types(state: State) -> tuple[Any, ...]:
    return (state.info.key_types, state.info.namespace) if isinstance(state, KeyedState) else ()


def _chunks(before: Side, after: Side) -> Iterator[tuple[int, int] | None]:
    """The ranges of key groups that are compared at a time; None means all."""
    groups = before[0].manifest.max_parallelism
    if not isinstance(before[1], KeyedState) or groups != after[0].manifest.max_parallelism:
        yield None
        return
    count = max(_weight(before), _weight(after)) + 1
    step = max(1, groups // count)
    for first in range(0, groups, step):
        yield first, min(first + step, groups) - 1


def _weight(side: Side) -> int:
    """About how many parts a state should be split into."""
    snapshot, state = side
    rows = known_rows(state)
    size = sum(file.size for subtask in snapshot.manifest.subtasks for file in subtask.files)
    return size // CHUNK_BYTES if rows is None else rows // CHUNK_ROWS


class _Tally:
    """Counts what differs, and keeps a few examples."""

    def __init__(self, before: ReadableState, after: ReadableState, limit: int) -> None:
        self._before, self._after = before, after
        self._limit = limit
        shared = {c.name for c in after.columns}  # only a savepoint says when an entry expires
        names = [c.name for c in before.columns if c.name not in NOT_COMPARED and c.name in shared]
        self._names = names
        is_set = before.state.kind in ("timer", "list", "union", "raw") and not isinstance(before.state, KeyedState)
        self._by_value = is_set or before.state.kind == "timer"
        kept = {VALUE_COLUMN, "expires_at", "last_access"}
        self._identity = names if self._by_value else [name for name in names if name not in kept]
        self.added = self.removed = self.changed = 0
        self.examples: list[RowChange] = []

    @property
    def changes(self) -> int:
        return self.added + self.removed + self.changed

    def compare(self, before: Iterator[pa.Table], after: Iterator[pa.Table]) -> None:
        """Compare the rows of one range of key groups."""
        old: dict[Any, dict[str, Any]] = {}
        counts: Counter[Any] = Counter()
        for row in self._rows(before, self._before):
            key = self._key(row)
            counts[key] += 1
            old[key] = row
        for row in self._rows(after, self._after):
            key = self._key(row)
            if not counts[key]:
                self.added += 1
                self._example(None, row)
            elif not self._by_value and _text(old[key]) != _text(row):
                self.changed += 1
                self._example(old[key], row)
            counts[key] -= 1
        for key, count in counts.items():
            if count > 0:
                self.removed += count
                self._example(old[key], None)

    def _rows(self, tables: Iterator[pa.Table], selected: ReadableState) -> Iterator[dict[str, Any]]:
        for table in tables:
            for row in plain_rows(selected.of(table), selected):
                yield {name: row[name] for name in self._names}

    def _key(self, row: dict[str, Any]) -> str:
        return _text([row[name] for name in self._identity])

    def _example(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if len(self.examples) < self._limit:
            self.examples.append(RowChange(before, after))


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
