"""Reads a snapshot without Spark: its states, their rows, and the rows of one key."""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.checkpoint.snapshot.readable_state import ReadableState, key_type_of, readable
from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State, StoredSnapshot, state_bytes
from penstock.codec.keys import KeyCodec
from penstock.codec.tagged_json import from_json, to_plain
from penstock.errors import PenstockError, UnsupportedValueError, UsageError
from penstock.model.key_groups import key_group_of
from penstock.model.snapshot import TableFile, files_of_format
from penstock.model.type_information import TypeInformation, parse_type
from penstock.state.format.keyed_parquet import KEY_COLUMN
from penstock.state.format.table_rows import HASH_COLUMN
from penstock.state.ttl.stamps import without_ttl

OPERATOR_KINDS = {"list": "split", "union": "union", "broadcast": "broadcast", "raw": "raw", "raw_keyed": "raw_keyed"}


class StateSummary(msgspec.Struct, frozen=True):
    """One state in the summary of a snapshot."""

    operator: str
    state: str
    kind: str
    key: str | None
    """The type of its keys; None for operator state."""
    map_key: str | None
    value: str
    ttl_ms: int | None
    """None: no time to live; 0: the snapshot does not say how long."""
    rows: int | None
    """None: they were not counted."""
    size_bytes: int | None
    """None: they are included in those of the operator."""
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    """The type of its namespaces; left out where it has none."""


class OperatorSummary(msgspec.Struct, frozen=True):
    """One operator of a snapshot."""

    operator: str
    parallelism: int
    subtask_states: int
    """The number of subtasks with state of this operator."""
    size_bytes: int


class SnapshotSummary(msgspec.Struct, frozen=True):
    """What a snapshot holds."""

    path: str
    kind: str
    job_id: str
    checkpoint_id: int
    max_parallelism: int
    operators: list[OperatorSummary]
    states: list[StateSummary]


def summarise(snapshot: StoredSnapshot, *, count_rows: bool = True) -> SnapshotSummary:
    """The summary of a snapshot. A canonical savepoint has row counts in its manifest; other files are read."""
    sizes = state_bytes(snapshot)
    states = [_summary(snapshot, state, sizes, count_rows=count_rows) for state in snapshot.states()]
    operators = [_operator(snapshot, uid, sizes) for uid in snapshot.operator_uids()]
    manifest = snapshot.manifest
    return SnapshotSummary(
        snapshot.uri,
        snapshot.kind,
        manifest.job_id,
        manifest.checkpoint_id,
        manifest.max_parallelism,
        operators,
        states,
    )


def _operator(snapshot: StoredSnapshot, uid: str, sizes: dict[tuple[str, str, str], int]) -> OperatorSummary:
    subtasks = snapshot.subtasks(uid)
    with_state = [
        subtask
        for subtask in subtasks
        if any(table.operator_uid == uid for table in subtask.tables)
        or any(info.operator_uid == uid for info in subtask.operator_states)
    ]
    total = sum(size for (owner, _, _), size in sizes.items() if owner == uid)
    return OperatorSummary(uid, len(subtasks), len(with_state), total)


def _summary(
    snapshot: StoredSnapshot, state: State, sizes: dict[tuple[str, str, str], int], *, count_rows: bool
) -> StateSummary:
    size = sizes.get((state.uid, state.mode, state.name))
    rows = known_rows(state)
    if rows is None and count_rows:
        rows = sum(len(table) for table in state.read(snapshot.storage))
    if isinstance(state, KeyedState):
        info = without_ttl(state.info)
        ttl_ms = state.ttl_ms if state.info.ttl else None
        return StateSummary(
            state.uid,
            state.name,
            state.kind,
            key_type_of(info.key_types).text,
            info.map_key_type,
            info.value_type,
            ttl_ms,
            rows,
            size,
            info.namespace_type,
        )
    map_key = state.info.map_key_type
    return StateSummary(state.uid, state.name, state.kind, None, map_key, state.info.value_type, None, rows, size)


def known_rows(state: State) -> int | None:
    """The number of rows of a state, if the manifest has it."""
    if not isinstance(state, KeyedState):
        parts = state.parts[:1] if state.mode == "broadcast" else state.parts
        return sum(part.saved.count for part in parts)
    files = [file for part in state.parts for file in part.snapshot.files]
    tables = files_of_format(files, TableFile)
    if len(tables) < len(files):
        return None
    return sum(table.rows for _, table in tables if table.state == (state.uid, "keyed", state.name))


def find_state(snapshot: StoredSnapshot, operator: str, name: str, kind: str | None = None) -> State:
    """The state that a command names; `kind` tells a keyed state from an operator state of the same name."""
    if kind is None:
        return snapshot.state(operator, name)
    return snapshot.state(operator, name, [OPERATOR_KINDS.get(kind, "keyed")])


@dataclass(frozen=True)
class RowSelection:
    """Rows of a state: all, or those of one key."""

    readable: ReadableState
    snapshot: StoredSnapshot
    key: Any = None
    """A state key."""

    @classmethod
    def of(cls, snapshot: StoredSnapshot, state: State, key_text: str | None) -> "RowSelection":
        """The rows of a state, or of the key that `key_text` names."""
        if key_text is None:
            return cls(readable(state), snapshot)
        if not isinstance(state, KeyedState):
            raise UsageError(f"state {state.name!r} of operator {state.uid!r} is {state.kind} state, which has no keys")
        return cls(readable(state), snapshot, parse_key(key_text, state.info.key_types))

    def tables(self) -> Iterator[pa.Table]:
        """Readable rows in batches. For one key, only the files of its key group are read."""
        if self.key is None:
            yield from self.readable.read(self.snapshot.storage)
            return
        state = self.readable.state
        assert isinstance(state, KeyedState)
        codec = KeyCodec([parse_type(text) for text in state.info.key_types])
        key_hash = codec.hash(self.key)
        group = key_group_of(key_hash, self.snapshot.manifest.max_parallelism)
        columns = codec.encode([self.key])
        parts = [column[0].as_py() for column in columns]
        stored = parts[0] if len(parts) == 1 else {f"f{number}": part for number, part in enumerate(parts)}
        for table in state.read(self.snapshot.storage, (group, group)):
            near = table.filter(pa.array(table[HASH_COLUMN].to_numpy() == np.int32(key_hash)))
            same = [key == stored for key in near[KEY_COLUMN].to_pylist()]
            if any(same):
                yield self.readable.of(near.filter(pa.array(same)))


def parse_key(text: str, key_types: list[str]) -> Any:
    """The state key that a text on the command line names.

    Text for STRING, the usual notation for numbers, dates and times, and a JSON array for several columns. An untyped
    key is JSON or a Python literal; anything else is taken as text.
    """
    types = [parse_type(key_type) for key_type in key_types]
    codec = KeyCodec(types)
    try:
        value = _parse_typed(text, types[0]) if len(types) == 1 else _parse_parts(text, types)
        return codec.to_state_key(value)
    except (ValueError, TypeError, InvalidOperation, PenstockError) as error:
        expected = ", ".join(each.text for each in types)
        raise UsageError(f"{text!r} is not a key of type {expected}: {error}") from error


def _parse_parts(text: str, types: list[TypeInformation]) -> tuple[Any, ...]:
    parts = json.loads(text)
    if not isinstance(parts, list) or len(parts) != len(types):
        raise ValueError(f"write a JSON array of {len(types)} values")
    return tuple(
        _parse_typed(part if isinstance(part, str) else json.dumps(part), t)
        for part, t in zip(parts, types, strict=True)
    )


def _parse_typed(text: str, type_info: TypeInformation) -> Any:
    name = type_info.name
    if type_info.kind == "tagged":
        return _parse_untyped(text)
    if name == "STRING":
        return text
    if name in ("BYTE", "SHORT", "INT", "LONG", "BIG_INT"):
        return int(text)
    if name in ("FLOAT", "DOUBLE"):
        return float(text)
    if name == "DECIMAL":
        return Decimal(text)
    if name == "BOOLEAN":
        return {"true": True, "false": False}[text.lower()]
    if name == "BINARY":
        return bytes.fromhex(text)
    if name == "DATE":
        return date.fromisoformat(text)
    if name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    if name in ("ROW", "TUPLE"):
        return _parse_parts(text, list(type_info.children))
    raise ValueError(f"keys of type {type_info.text} cannot be written on the command line; use `penstock state sql`")


def _parse_untyped(text: str) -> Any:
    try:
        return from_json(text)
    except UnsupportedValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def plain_rows(table: pa.Table, selected: ReadableState) -> Iterator[dict[str, Any]]:
    """Readable rows in a form that JSON has, with untyped values as JSON."""
    names = [column.name for column in selected.columns]
    is_json = [column.type.kind == "tagged" and column.declared is None for column in selected.columns]
    for row in zip(*(table[name].to_pylist() for name in names), strict=True):
        yield {
            name: json.loads(value) if untyped and value is not None else _jsonable(value)
            for name, value, untyped in zip(names, row, is_json, strict=True)
        }


def _jsonable(value: Any) -> Any:
    """A value from Arrow in a form that JSON has."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | Decimal | date):
        return value.hex() if isinstance(value, bytes) else str(value)
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    return to_plain(value) if isinstance(value, float) else value if isinstance(value, int | str) else _other(value)


def _other(value: Any) -> Any:
    return None if value is None else str(value)
