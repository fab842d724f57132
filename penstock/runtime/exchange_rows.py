"""Rows of an exchange as Arrow columns, on both sides of a stage.

Into a stage:  `__edge` (input position, -1 for a barrier), `__barrier`, `__rows` (packed rows of an edge from a stage),
               `__ts` (event time, where a job has one), `__part` (partition of the source, where watermarks follow
               each), then for every other edge `i<edge>_<n>` per record field and
               `k<edge>_<n>` per key column where the key came from a Python selector.
Out of a stage, per edge: `__target` (subtask; null where the JVM computes it), `__barrier`, `__rows` (`packed_rows`).
               To a Spark sink, and in batch mode: `__target`, `__barrier`, `__ts`, `c<n>` per record field, `k<n>` per
               key column; the JVM computes hash and target itself.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.columns import cast_column
from penstock.codec.key_dictionary import require_keys
from penstock.codec.keys import KeyCodec, null_key
from penstock.codec.row_codec import RowCodec
from penstock.errors import InvalidKeyError
from penstock.graph.job_graph import COLUMN_KINDS, EdgePlan, SourceRef, StagePlan
from penstock.graph.pickling import loads
from penstock.graph.stream_graph import CustomPartition
from penstock.runtime.kept_output import KeptBatches
from penstock.runtime.operators.batch import Batch, ColumnRows, listed_timestamps
from penstock.runtime.process.messages import Barrier
from penstock.runtime.user_errors import USER_ERRORS, created_lines, key_error, partition_error, record_facts

EDGE, BARRIER, TIMESTAMP, TARGET = "__edge", "__barrier", "__ts", "__target"
PARTITION = "__part"
PACKED = "__rows"
BARRIER_EDGE = -1


def encode_barrier(barrier: Barrier) -> bytes:
    """A barrier as the content of its control row."""
    return msgspec.msgpack.encode(barrier)


def has_timestamps(stage: StagePlan) -> bool:
    """Whether rows into this stage carry an event time column."""
    return any(not isinstance(edge.source, SourceRef) or edge.event_time is not None for edge in stage.inputs)


def has_partitions(stage: StagePlan) -> bool:
    """Whether rows into this stage carry the partition of their source."""
    return any(edge.event_time is not None and edge.event_time.partition_column for edge in stage.inputs)


def positions_read(stage: StagePlan) -> set[int]:
    """The positions whose records an operator or an output edge reads."""
    outputs = {edge.source.position for edge in stage.outputs if not isinstance(edge.source, SourceRef)}
    return outputs.union(*(operator.inputs for operator in stage.operators))


def positions_in_columns(stage: StagePlan) -> set[int]:
    """The positions whose rows an operator reads as Arrow columns."""
    return {position for operator in stage.operators if operator.kind in COLUMN_KINDS for position in operator.inputs}


def key_columns_of(edge: EdgePlan) -> list[int]:
    """Positions of the key in the record's fields, for a key that is made of columns."""
    names = [name for name, _ in RowCodec(edge.record_type).fields]
    return [names.index(column) for column in edge.key_columns or ()]


def newest_by_partition(rows: pa.RecordBatch | None) -> Iterator[tuple[str, int]]:
    """For each partition of a source in these rows its greatest event time."""
    if rows is None or PARTITION not in rows.schema.names:
        return
    table = pa.table([rows.column(PARTITION), rows.column(TIMESTAMP)], [PARTITION, TIMESTAMP])
    for row in table.group_by(PARTITION).aggregate([(TIMESTAMP, "max")]).to_pylist():
        if row[PARTITION] is not None and row[f"{TIMESTAMP}_max"] is not None:
            yield row[PARTITION], row[f"{TIMESTAMP}_max"]


class EdgeColumns:
    """The columns of one input edge in its stage's input: which they are, and the records in them."""

    def __init__(self, index: int, edge: EdgePlan, *, keyed: bool, in_columns: bool = False) -> None:
        self._in_columns = in_columns and not any(key.children for key in edge.key_types)
        """Whether an operator reads the rows as columns, so that records may never be needed."""
        self._codec = RowCodec(edge.record_type)
        self._types = self._codec.types
        self._names = [f"i{index}_{n}" for n in range(len(self._codec.fields))]
        self._edge = edge
        self._keys: KeyCodec | None = None
        self._key_field: int | None = None
        """The field that is the key, decoded."""
        self._own_names: list[str] = []
        """Key columns that are not fields of the record."""
        if keyed:
            self._keys = KeyCodec(edge.key_types)
            if edge.key_selector is None:
                positions = key_columns_of(edge)
                self._key_names = [self._names[position] for position in positions]
                if [t.name for t in edge.key_types] in (["STRING"], ["LONG"], ["INT"]):
                    self._key_field = positions[0]
            else:
                self._key_names = self._own_names = [f"k{index}_{n}" for n in range(len(self._keys.fields))]

    def encode(self, batch: Batch) -> pa.RecordBatch:
        """The rows of a batch as an exchange delivers them, with their event time."""
        arrays = [_timestamp_column(batch), *self._codec.encode(batch.records)]
        if self._own_names:
            assert self._keys is not None and batch.keys is not None
            arrays += self._keys.encode(batch.keys)
        return pa.RecordBatch.from_arrays(arrays, [TIMESTAMP, *self._names, *self._own_names])

    def select(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a stage's input that belong to this edge."""
        times = [name for name in (TIMESTAMP, PARTITION) if name in part.schema.names]
        return part.select([*times, *self._names, *self._own_names])

    def hashes(self, part: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """The hash of each row's key."""
        assert self._keys is not None
        return self._keys.hash_batch([part.column(name) for name in self._key_names])

    def decode(self, part: pa.RecordBatch, *, timed: bool) -> Batch:
        """The rows as a batch."""
        return self._as_columns(part, timed=timed) if self._in_columns else self._as_records(part, timed=timed)

    def _as_columns(self, part: pa.RecordBatch, *, timed: bool) -> Batch:
        """The rows as columns. Null and NaN keys are found at once."""
        columns = [cast_column(part.column(name), kind) for name, kind in zip(self._names, self._types, strict=True)]
        rows = pa.RecordBatch.from_arrays(columns, [name for name, _ in self._codec.fields])
        timestamps = part.column(TIMESTAMP) if timed else None
        if timestamps is not None and timestamps.null_count == len(timestamps):
            timestamps = None
        if self._keys is None:
            return Batch.of_columns(ColumnRows(rows, self._edge.record_type, timestamps))
        keys = tuple(part.column(name) for name in self._key_names)
        try:
            for key in keys:
                require_keys(key)
        except InvalidKeyError as error:
            raise self._invalid(error, list(keys), self._codec.decode_batch(columns)) from None
        return Batch.of_columns(ColumnRows(rows, self._edge.record_type, timestamps, keys, self._keys))

    def _as_records(self, part: pa.RecordBatch, *, timed: bool) -> Batch:
        fields = self._codec.decode_columns([part.column(name) for name in self._names])
        records = self._codec.make_records(fields)
        timestamps = listed_timestamps(part.column(TIMESTAMP)) if timed else None
        if self._keys is None:
            return Batch(records, timestamps)
        columns = [part.column(name) for name in self._key_names]
        if self._key_field is not None:  # the very objects: their hash is computed once
            if columns[0].null_count:
                raise self._invalid(null_key(), columns, records)
            return Batch(records, timestamps, fields[self._key_field])
        try:
            keys = self._keys.decode(columns)
        except InvalidKeyError as error:
            raise self._invalid(error, columns, records) from None
        return Batch(records, timestamps, keys)

    def _invalid(self, error: InvalidKeyError, columns: list[pa.Array], records: list[Any]) -> InvalidKeyError:
        """The error with the line of `key_by` and the first record whose key is null or NaN."""
        bad = next(n for n in range(len(records)) if any(_is_no_key(column[n].as_py()) for column in columns))
        return _with_record(error, self._edge, records[bad])


def _with_record(error: InvalidKeyError, edge: EdgePlan, record: Any) -> InvalidKeyError:
    return InvalidKeyError(error.summary, created_lines(edge.created, record_facts(record), "key_by"))


def _is_no_key(value: Any) -> bool:
    return value is None or value != value


def _timestamp_column(batch: Batch) -> pa.Array:
    count = len(batch)
    if batch.columns is not None:
        given = batch.columns.timestamps
        return pa.nulls(count, pa.int64()) if given is None else given
    return pa.nulls(count, pa.int64()) if batch.timestamps is None else pa.array(batch.timestamps, pa.int64())


class EdgeEncoder:
    """Turns the records that a stage emits on an edge into Arrow columns, with their event time and their keys."""

    def __init__(self, edge: EdgePlan, target_parallelism: int) -> None:
        self._edge = edge
        self._codec = RowCodec(edge.record_type)
        self._keys = KeyCodec(edge.key_types) if edge.key_selector is not None else None
        self._select: Callable[[Any], Any] | None = None
        if edge.key_selector is not None:
            self._select = loads(edge.key_selector).get_key
        self._targets = target_parallelism
        self._partition: CustomPartition | None = None if edge.partitioner is None else loads(edge.partitioner)
        self._schema = row_schema(edge)

    def encode(self, batch: Batch) -> tuple[pa.RecordBatch, list[int] | None]:
        """The columns of a batch, and the subtask of each row if a partitioner of the program chooses it."""
        chosen = None
        if self._partition is not None:
            chosen = select_targets(self._edge, self._partition, batch.records, self._targets)
        arrays = [_timestamp_column(batch), *self._fields(batch)]
        if self._keys is not None and self._select is not None:
            arrays += self._keys.encode(select_keys(self._edge, self._keys, self._select, batch.records))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), chosen

    def _fields(self, batch: Batch) -> list[pa.Array]:
        """The columns of the records; those of a batch in columns as they are."""
        if batch.columns is not None and batch.columns.record_type == self._edge.record_type:
            return list(batch.columns.rows.columns)
        return self._codec.encode(batch.records)


class ArrowOutput:
    """What a subtask emits on one edge, as rows; kept until the next epoch (PROTOCOL R10)."""

    def __init__(self, edge: EdgePlan, target_parallelism: int, folder: Path | None = None) -> None:
        self._encoder = EdgeEncoder(edge, target_parallelism)
        self._targets = target_parallelism
        self.schema = output_schema(edge)
        self._batches = KeptBatches(self.schema, folder)

    def add(self, batch: Batch) -> None:
        """Encode a batch immediately, so that a value that does not fit is an error of the operator that made it."""
        count = len(batch)
        if not count:
            return
        rows, chosen = self._encoder.encode(batch)
        targets = pa.nulls(count, pa.int32()) if chosen is None else pa.array(chosen, pa.int32())
        arrays = [targets, pa.nulls(count, pa.binary()), *rows.columns]
        self._batches.add(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def end(self, barrier: Barrier) -> KeptBatches:
        """The epoch's batches, followed by a barrier for each downstream subtask."""
        if self._targets:
            count = self._targets
            arrays = [pa.array(range(count), pa.int32()), pa.array([encode_barrier(barrier)] * count, pa.binary())]
            arrays += [pa.nulls(count, field.type) for field in list(self.schema)[2:]]
            self._batches.add(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        self._batches.end()
        return self._batches


def select_keys(edge: EdgePlan, codec: KeyCodec, select: Callable[[Any], Any], records: Sequence[Any]) -> list[Any]:
    """The state keys of records by a key selector; what it raises becomes an error that names it and the record."""
    keys: list[Any] = []
    try:
        for record in records:
            keys.append(codec.to_state_key(select(record)))
    except InvalidKeyError as error:
        raise _with_record(error, edge, records[len(keys)]) from None
    except USER_ERRORS as error:
        raise key_error(edge, error, records[len(keys)]) from error
    return keys


def select_targets(edge: EdgePlan, custom: CustomPartition, records: Sequence[Any], count: int) -> list[int]:
    """The subtask of each record by the program's partitioner; what it raises becomes an error with the record."""
    targets: list[int] = []
    try:
        for record in records:
            targets.append(custom.target(record, count))
    except USER_ERRORS as error:
        raise partition_error(edge, error, records[len(targets)]) from error
    return targets


def output_schema(edge: EdgePlan) -> pa.Schema:
    """The columns of a stage's output on an edge whose rows are not packed."""
    return pa.schema([pa.field(TARGET, pa.int32()), pa.field(BARRIER, pa.binary()), *row_schema(edge)])


def lead_fields(edge: EdgePlan) -> list[pa.Field]:
    """The columns in front of the record's: the event time and, after some sources, their partition."""
    partition = [] if edge.event_time is None else filter(None, [edge.event_time.partition_column])
    return [pa.field(TIMESTAMP, pa.int64()), *(pa.field(PARTITION, pa.string()) for _ in partition)]


def row_schema(edge: EdgePlan) -> pa.Schema:
    """The columns of the rows that a stage, or a packed source, emits on an edge."""
    fields = lead_fields(edge)
    fields += [pa.field(f"c{n}", arrow) for n, (_, arrow) in enumerate(RowCodec(edge.record_type).fields)]
    if edge.key_selector is not None:
        fields += [pa.field(f"k{n}", arrow) for n, (_, arrow) in enumerate(KeyCodec(edge.key_types).fields)]
    return pa.schema(fields)
