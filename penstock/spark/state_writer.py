"""DataFrames as the files of a canonical savepoint, written by the executors.

Key hash and key group are computed in the JVM; each task writes files of whole keys of one subtask and returns their
handles. A task that Spark runs twice leaves unlisted files, which the writer of the savepoint removes.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import errors
from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.checkpoint.snapshot.savepoint_paths import keyed_path, operator_path
from penstock.checkpoint.snapshot.table_reader import SUBTASK_COLUMN
from penstock.codec.readable import from_readable
from penstock.errors import CheckpointError, PenstockError, StateAccessError, UsageError
from penstock.model.ids import StageId, SubtaskId
from penstock.model.snapshot import OperatorStateInfo, StateFile, StateTableInfo, TableFile
from penstock.model.type_information import TypeInformation
from penstock.model.units import MIB
from penstock.spark.pipe import SUBTASK
from penstock.spark.session import require_plain_hashes
from penstock.spark.state_frames import schema_ddl
from penstock.state.format.keyed_parquet import (
    EXPIRES_COLUMN,
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    encode_table,
    parquet_schema,
    rows_of,
)
from penstock.state.format.operator_parquet import POSITION_COLUMN, encode_operator_table
from penstock.state.format.table_rows import HASH_COLUMN, MAP_KEY_COLUMN, NAMESPACE_COLUMN, VALUE_COLUMN
from penstock.state.operator.operator_file import SealedOperatorState
from penstock.state.operator.operator_file import schema_of as operator_columns
from penstock.storage.storage import open_storage

FILE_BYTES = 128 * MIB
"""Approximate size of the largest file, before compression."""
COPY_TASKS = 32
HANDLE_DDL = "subtask int, file string"
HANDLE_SCHEMA = pa.schema([("subtask", pa.int32()), ("file", pa.string())])
_RAISED = re.compile(r"penstock\.errors\.(\w+): (.*?)(?:\n\n|\Z)", re.DOTALL)

Handles = list[tuple[int, StateFile]]
"""The files of a state, each with the index of its subtask."""


@dataclass(frozen=True)
class Target:
    """Where rows are written: a savepoint's folder, and the subtasks of one stage."""

    uri: str
    stage: str
    parallelism: int
    max_parallelism: int

    def subtask(self, index: int) -> SubtaskId:
        """One of the subtasks."""
        return SubtaskId(StageId(self.stage), index)


def hashed(frame: DataFrame) -> DataFrame:
    """The frame with the hash of its stored key, as the exchange of a job computes it."""
    require_plain_hashes(frame.sparkSession)
    return frame.withColumn(HASH_COLUMN, F.hash(F.col(KEY_COLUMN)))


def write_keyed(frame: DataFrame, info: StateTableInfo, ttl_ms: int, target: Target) -> Handles:
    """Write stored rows with their hashes, each for the subtask that owns its key group."""
    group = F.pmod(F.col(HASH_COLUMN), F.lit(target.max_parallelism))
    place = F.expr(f"cast({KEY_GROUP_COLUMN} * {target.parallelism} div {target.max_parallelism} as int)")
    placed = frame.withColumn(KEY_GROUP_COLUMN, group).withColumn(SUBTASK, place)
    names = [SUBTASK, *parquet_schema(info).names]
    split = placed.select(names).repartitionById(target.parallelism, F.col(SUBTASK))
    ordered = split.sortWithinPartitions(SUBTASK, KEY_GROUP_COLUMN, HASH_COLUMN)
    return _collect(ordered.mapInArrow(WriteKeyed(info, ttl_ms, target), HANDLE_DDL))


def write_operator(frame: DataFrame, info: OperatorStateInfo, target: Target) -> Handles:
    """Write the elements of an operator state, spread over the subtasks, or to the subtasks that the frame names."""
    names = list(operator_columns(info).names)
    if info.mode == "broadcast":
        split = frame.select(F.lit(0).cast("int").alias(SUBTASK), *names).coalesce(1)
    elif info.mode == "raw_keyed":
        place = F.expr(f"cast({KEY_GROUP_COLUMN} * {target.parallelism} div {target.max_parallelism} as int)")
        split = frame.select(place.alias(SUBTASK), *names).repartitionById(target.parallelism, F.col(SUBTASK))
        split = split.sortWithinPartitions(SUBTASK, KEY_GROUP_COLUMN)
    elif SUBTASK_COLUMN in frame.columns and POSITION_COLUMN in frame.columns:
        place = F.expr(f"cast(pmod({SUBTASK_COLUMN}, {target.parallelism}) as int)")
        placed = frame.select(place.alias(SUBTASK), SUBTASK_COLUMN, POSITION_COLUMN, *names)
        split = placed.repartitionById(target.parallelism, F.col(SUBTASK))
        split = split.sortWithinPartitions(SUBTASK, SUBTASK_COLUMN, POSITION_COLUMN).select(SUBTASK, *names)
    else:
        split = frame.select(*names).repartition(target.parallelism)
        split = split.select(F.spark_partition_id().alias(SUBTASK), *names)
    return _collect(split.mapInArrow(WriteOperator(info, target), HANDLE_DDL))


@dataclass(frozen=True)
class StoredColumn:
    """One column of the user's frame, and the type it is stored with."""

    name: str
    type: TypeInformation
    text: str
    """How text stands for an untyped value: json or plain."""
    is_key: bool


def to_stored(frame: DataFrame, columns: Sequence[StoredColumn], others: Sequence[Column]) -> DataFrame:
    """A frame whose untyped columns are stored values; `others` are unchanged."""
    ddl = schema_ddl(pa.schema([(column.name, column.type.arrow) for column in columns]))
    passed = frame.select([F.col(column.name) for column in columns] + list(others))
    rest = [field for field in passed.schema.fields if field.name not in {column.name for column in columns}]
    tail = "".join(f", `{field.name}` {field.dataType.simpleString()}" for field in rest)
    return passed.mapInArrow(EncodeColumns(tuple(columns)), ddl + tail)


@dataclass(frozen=True)
class EncodeColumns:
    """The function that `mapInArrow` calls: converts untyped columns to their stored form."""

    columns: tuple[StoredColumn, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = list(batch.columns)
            for column in self.columns:
                at = batch.schema.get_field_index(column.name)
                try:
                    arrays[at] = from_readable(arrays[at], column.type, column.text, is_key=column.is_key)
                except PenstockError as error:
                    raise UsageError(
                        f"column {column.name!r} cannot be stored as {column.type.text}: {error}"
                    ) from error
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


@dataclass(frozen=True)
class WriteKeyed:
    """The function that `mapInArrow` calls: writes rows, sorted by subtask, key group and hash, to files."""

    info: StateTableInfo
    ttl_ms: int
    target: Target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for index, table in _files(batches):
            yield _handle(index, self._write(index, table))

    def _write(self, index: int, table: pa.Table) -> StateFile:
        schema = parquet_schema(self.info)
        table = pa.Table.from_arrays([table[name] for name in schema.names], names=schema.names)
        key = _checked_key(table[KEY_COLUMN].combine_chunks(), self.info)
        table = table.set_column(table.schema.get_field_index(KEY_COLUMN), KEY_COLUMN, key)
        self._require_values(table)
        table = table.cast(schema)
        data, count = encode_table(
            self.info, rows_of(table, self.info, self.ttl_ms), self.target.max_parallelism, self.ttl_ms
        )
        if count != len(table):
            raise UsageError(_twice(table, self.info))
        path = keyed_path(self.info.operator_uid, self.info.name, self.target.subtask(index))
        return _put(self.target.uri, path, data, TableFile(*_place(self.info), "keyed", count, self.ttl_ms))

    def _require_values(self, table: pa.Table) -> None:
        """Raise UsageError for null entries; only values of a map may be null."""
        where = f"state {self.info.name!r} of operator {self.info.operator_uid!r}"
        if self.info.kind != "map" and table[VALUE_COLUMN].null_count:
            row = pc.index(table[VALUE_COLUMN].is_null(), value=True).as_py()
            key = table[KEY_COLUMN][row].as_py()
            raise UsageError(
                f"{where} has a null value for the key {key!r}; leave the row out: a key has a value or none"
            )
        if self.info.namespace is not None and table[NAMESPACE_COLUMN].null_count:
            raise UsageError(f"{where} has a null namespace; leave the row out")
        if self.info.map_key_type is not None and table[MAP_KEY_COLUMN].null_count:
            raise UsageError(f"{where} has a null map key; leave the row out")
        if self.info.ttl and self.info.kind == "list":
            lists = [table[name].combine_chunks().value_lengths() for name in (VALUE_COLUMN, EXPIRES_COLUMN)]
            if not lists[0].equals(lists[1].cast(lists[0].type)):
                raise UsageError(f"{where} needs as many times in `expires_at` as there are elements in `value`")


@dataclass(frozen=True)
class WriteOperator:
    """The function that `mapInArrow` calls: writes the elements of one operator state, one file per subtask."""

    info: OperatorStateInfo
    target: Target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            for index in np.unique(batch.column(0).to_numpy()).tolist():
                found.setdefault(index, []).append(batch.filter(pc.equal(batch.column(0), index)))
        for index, parts in found.items():
            yield _handle(index, self._write(index, pa.Table.from_batches(parts)))

    def _write(self, index: int, table: pa.Table) -> StateFile:
        info = self.info
        rows = table.select(operator_columns(info).names).cast(operator_columns(info))
        where = f"{info.mode} state {info.name!r} of operator {info.operator_uid!r}"
        if info.mode in ("split", "union") and rows[VALUE_COLUMN].null_count:
            raise UsageError(f"{where} has a null element; leave the row out")
        if info.mode == "broadcast":
            keys = [repr(key) for key in rows[MAP_KEY_COLUMN].to_pylist()]
            twice = next((key for n, key in enumerate(sorted(keys)[1:]) if key == sorted(keys)[n]), None)
            if twice is not None:
                raise UsageError(f"{where} has the map key {twice} twice; aggregate the rows to one")
        counted = msgspec.structs.replace(info, count=len(rows))
        path = operator_path(info.operator_uid, info.mode, info.name, self.target.subtask(index))
        table_file = TableFile(info.operator_uid, info.name, info.mode, len(rows))
        return _put(self.target.uri, path, encode_operator_table(SealedOperatorState(counted, rows)), table_file)


@dataclass(frozen=True)
class Copy:
    """A file of one snapshot that becomes a file of another."""

    file: StateFile
    path: str
    table: TableFile | None


def copy_files(spark: SparkSession, source: str, target: str, copies: Sequence[Copy]) -> list[StateFile]:
    """Copy files on the executors, each verified by its hash; the new files, in the given order."""
    if not copies:
        return []
    tasks = min(len(copies), COPY_TASKS)
    made = _collect(
        spark.range(0, len(copies), 1, tasks).mapInArrow(CopyFiles(source, target, tuple(copies)), HANDLE_DDL)
    )
    return [file for _, file in sorted(made, key=lambda handle: handle[0])]


@dataclass(frozen=True)
class CopyFiles:
    """The function that `mapInArrow` calls: copies the files with the given numbers."""

    source: str
    target: str
    copies: tuple[Copy, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = open_storage(self.source)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                copy = self.copies[number]
                yield _handle(number, _put(self.target, copy.path, verify_file(storage, copy.file), copy.table))


def _collect(frame: DataFrame) -> Handles:
    """Run the tasks. An error of ours is raised as it was, without Spark's traceback."""
    try:
        rows = frame.collect()
    except PySparkException as error:
        found = _RAISED.search(str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found is None or not isinstance(kind, type) or not issubclass(kind, (UsageError, CheckpointError)):
            raise
        # Some errors about files have several arguments; their text contains all of them.
        raise (kind if issubclass(kind, UsageError) else CheckpointError)(found[2].strip()) from None
    return [(row["subtask"], msgspec.json.decode(row["file"], type=StateFile)) for row in rows]


def _handle(index: int, file: StateFile) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"subtask": [index], "file": [msgspec.json.encode(file).decode()]}, HANDLE_SCHEMA)


def _put(uri: str, path: str, data: bytes, table: TableFile) -> StateFile:
    open_storage(uri).put_new(path, data)
    return StateFile(path, len(data), hashlib.sha256(data).hexdigest()).with_format(table)


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each file, one after the other, with their subtask; all rows of a key are in one file."""
    held: list[pa.Table] = []
    index = -1
    for batch in batches:
        for found, part in _by_subtask(pa.Table.from_batches([batch])):
            if found != index and held:
                yield index, pa.concat_tables(held)
                held = []
            index = found
            held.append(part)
        if sum(part.nbytes for part in held) > FILE_BYTES:
            whole = pa.concat_tables(held)
            end = _last_hash(whole)
            if end:
                yield index, whole.slice(0, end)
            held = [whole.slice(end)]
    if held:
        yield index, pa.concat_tables(held)


def _by_subtask(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    subtasks = table[SUBTASK].to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(subtasks)) + 1).tolist(), len(table)]
    for start, end in zip(bounds, bounds[1:], strict=False):
        if start < end:
            yield int(subtasks[start]), table.slice(start, end - start)


def _last_hash(table: pa.Table) -> int:
    """The index of the first row with the last row's hash."""
    hashes = table[HASH_COLUMN].to_numpy()
    return int(np.flatnonzero(hashes != hashes[-1])[-1] + 1) if (hashes != hashes[-1]).any() else 0


def _checked_key(key: pa.Array, info: StateTableInfo) -> pa.Array:
    """The keys, with -0.0 as 0.0; null and NaN are refused, as in a job."""
    where = f"state {info.name!r} of operator {info.operator_uid!r}"
    if key.null_count:
        raise StateAccessError(f"{where} has a null key, which no record can have; leave the row out")
    if pa.types.is_struct(key.type):
        fields = [_checked_key(key.field(n), info) for n in range(key.type.num_fields)]
        return pa.StructArray.from_arrays(fields, names=[field.name for field in key.type])
    if not pa.types.is_floating(key.type):
        return key
    if pc.any(pc.is_nan(key)).as_py():
        raise StateAccessError(f"{where} has the key NaN, which equals nothing, not even itself; leave the row out")
    return pc.add(key, pa.scalar(0.0, key.type))


def _twice(table: pa.Table, info: StateTableInfo) -> str:
    """The error message that names an entry which occurs twice."""
    names = [KEY_COLUMN, *([NAMESPACE_COLUMN] if info.namespace is not None else [])]
    names += [MAP_KEY_COLUMN] if info.map_key_type is not None else []
    names += [VALUE_COLUMN] if info.kind == "timer" else []
    seen: set[str] = set()
    for entry in zip(*(table[name].to_pylist() for name in names), strict=True):
        if repr(entry) in seen:
            text: Any = entry[0] if len(entry) == 1 else entry
            return (
                f"state {info.name!r} of operator {info.operator_uid!r} has the key {text!r} twice; aggregate the rows "
                f"to one per key"
            )
        seen.add(repr(entry))
    raise AssertionError("no entry occurs twice")


def _place(info: StateTableInfo) -> tuple[str, str]:
    return info.operator_uid, info.name
