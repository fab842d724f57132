"""The states of a snapshot as DataFrames.

Keyed state of a canonical savepoint whose columns all have types is read by Spark's own Parquet reader, file by file as
the manifest lists them. Everything else is read in Python on the executors, one old subtask per task.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.checkpoint.snapshot.readable_state import ReadableState
from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State, StoredSnapshot
from penstock.codec.row_codec import fields_ddl
from penstock.model.snapshot import TableFile
from penstock.storage.address import parse_address
from penstock.storage.storage import open_storage

BATCH_ROWS = 10_000
METADATA_DDL = (
    "checkpoint_id bigint, operator_name string, operator_uid string, operator_uid_hash string, parallelism int, "
    "max_parallelism int, subtask_state_count int, coordinator_state_size_in_bytes bigint, total_size_in_bytes bigint"
)
STATES_DDL = (
    "operator_uid string, state string, kind string, key_type string, map_key_type string, value_type string, "
    "ttl_ms bigint, rows bigint, size_in_bytes bigint"
)
NAMESPACED_STATES_DDL = STATES_DDL + ", namespace_type string"


def state_frame(spark: SparkSession, snapshot: StoredSnapshot, selected: ReadableState) -> DataFrame:
    """The readable rows of a state."""
    files = _parquet_files(snapshot, selected)
    names = [column.name for column in selected.columns]
    if files:
        ddl = schema_ddl(selected.state.schema)
        reader = spark.read.schema(ddl).option("recursiveFileLookup", "true").option("__globPaths__", "false")
        stored = reader.parquet(*files)
        return stored.select([F.col(column.stored).alias(column.name) for column in selected.columns])
    reader_of = ReadParts(snapshot.storage.uri, selected, is_readable=True)
    return _over_parts(spark, reader_of, schema_ddl(selected.schema)).select(names)


def stored_frame(spark: SparkSession, snapshot: StoredSnapshot, selected: ReadableState) -> DataFrame:
    """The rows of a state as they are stored, with the hash of keys."""
    reader = ReadParts(snapshot.storage.uri, selected, is_readable=False)
    return _over_parts(spark, reader, schema_ddl(selected.state.schema))


@dataclass(frozen=True)
class ReadParts:
    """The function that `mapInArrow` calls: reads the old subtasks with the given numbers."""

    uri: str
    selected: ReadableState
    is_readable: bool

    @property
    def parts(self) -> Sequence[Any]:
        """All old subtasks; only one for a broadcast state, of which every subtask has everything."""
        state = self.selected.state
        return state.parts[:1] if state.mode == "broadcast" else state.parts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = open_storage(self.uri)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for table in _tables(self.parts[number].read(storage)):
                    shown = self.selected.of(table) if self.is_readable else table
                    yield from shown.cast(spark_schema(shown.schema)).to_batches(max_chunksize=BATCH_ROWS)


def metadata_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], ddl: str) -> DataFrame:
    """A small table whose rows are in the driver."""
    return spark.createDataFrame([*rows], ddl)


def schema_ddl(schema: pa.Schema) -> str:
    """Arrow columns as Spark DDL."""
    return fields_ddl([(field.name, field.type) for field in spark_schema(schema)])


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The columns with timestamps in microseconds, as Spark has them."""
    return pa.schema([pa.field(field.name, _spark_type(field.type)) for field in schema])


def joined_states(frames: Sequence[tuple[str, str, DataFrame]]) -> DataFrame:
    """States (name, kind, rows) as one table: a row per key, a column per state.

    A map state is a map, and a state with namespaces a map of what it has in each of them.
    """
    whole: DataFrame | None = None
    for name, kind, frame in frames:
        place = ["key_group", "key", *(["namespace"] if "namespace" in frame.columns else [])]
        keyed = frame.select(*place, *(["map_key"] if kind == "map" else []), F.col("value").alias(name))
        if kind == "map":
            keyed = _as_map(keyed, place, "map_key", name)
        if "namespace" in place:
            keyed = _as_map(keyed, place[:-1], "namespace", name)
        whole = keyed if whole is None else whole.join(keyed, ["key_group", "key"], "full")
    assert whole is not None
    return whole


def _as_map(frame: DataFrame, place: Sequence[str], key: str, name: str) -> DataFrame:
    """A row for each place, with a map of what the column of that name has for each key."""
    entry = F.struct(F.col(key), F.col(f"`{name}`"))
    return frame.groupBy(*place).agg(F.map_from_entries(F.collect_list(entry)).alias(name))


def timers_frame(frames: Sequence[tuple[str, DataFrame]]) -> DataFrame:
    """Timers of both clocks: key_group, key, namespace if they have any, domain, timestamp in milliseconds."""
    parts = [
        frame.select(
            "key_group",
            "key",
            *(["namespace"] if "namespace" in frame.columns else []),
            F.lit(domain).alias("domain"),
            F.col("value").alias("timestamp"),
        )
        for domain, frame in frames
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _over_parts(spark: SparkSession, reader: ReadParts, ddl: str) -> DataFrame:
    count = len(reader.parts)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(reader, ddl)


def _tables(found: pa.Table | Iterator[pa.Table]) -> Iterator[pa.Table]:
    if isinstance(found, pa.Table):
        yield found
    else:
        yield from found


def _parquet_files(snapshot: StoredSnapshot, selected: ReadableState) -> list[str]:
    """The files that Spark can read by itself; empty if one of them must be converted, or if there is none."""
    state: State = selected.state
    root = parse_address(snapshot.storage.uri)
    if not isinstance(state, KeyedState) or not isinstance(root, Path) or not selected.is_as_stored:
        return []
    found = []
    for part in state.parts:
        for file in part.snapshot.files:
            if not isinstance(file.format, TableFile) or file.inline is not None:
                return []
            if file.format.state == (state.uid, "keyed", state.name):
                found.append(f"file://{root / file.path}")
    return found


def _spark_type(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow) and arrow.unit != "us":
        return pa.timestamp("us", tz=arrow.tz)
    if pa.types.is_list(arrow):
        return pa.list_(_spark_type(arrow.value_type))
    return arrow
