"""Sources as one streaming DataFrame, and the rows of one source in a batch of it.

One source: its own columns. Several: `__source` and one nullable struct column per source, so that one Spark query with
one offset log reads them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.connectors.function_source import FunctionSource
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.position_sources import DataGeneratorSource, IteratorSource, SocketSource
from penstock.connectors.source_connectors import CollectionSource, FileSource, NumberSequenceSource
from penstock.errors import UsageError
from penstock.graph.job_graph import EdgePlan, JobGraph, SourcePlan, SourceRef
from penstock.runtime.exchange_rows import PARTITION, TIMESTAMP
from penstock.spark.function_streams import read_function
from penstock.spark.kafka_stream import KafkaLimits, read_all_of_kafka, read_kafka
from penstock.spark.packed_edge import PackedEdge
from penstock.spark.packed_files import FileLimits, read_packed
from penstock.spark.position_readers import read_positions
from penstock.spark.python_sources import read_collection, read_generator, read_sequence
from penstock.spark.session import in_session
from penstock.spark.source_files import refuse_partition_folders

SOURCE = "__source"


@dataclass(frozen=True)
class EpochLimits:
    """How much of a source one epoch reads, if the source has such a limit; None: everything available."""

    max_rows: int | None = None
    first_rows: int | None = None
    """How much the first epochs read of a topic if there is no `max_rows`."""
    max_files: int | None = None
    first_files: int | None = None
    """How many files of a packed source the first epochs read if there is no `max_files`."""
    folder: Path | None = None
    """The query's folder, in which a source of ours keeps its own log."""


def open_sources(session: SparkSession, graph: JobGraph, limits: EpochLimits) -> DataFrame:
    """The streaming DataFrame of all sources of the job."""
    streams = first_streams(graph.sources)
    frames = [
        _open(session, graph, source, stream, limits) for source, stream in zip(graph.sources, streams, strict=True)
    ]
    frame = frames[0] if len(frames) == 1 else combine(frames)
    _require_distinct(frame)
    return frame


def first_streams(sources: Sequence[SourcePlan]) -> list[int]:
    """For each source the number of its first stream, by which Spark names its offset and its log.

    A DataFrame may have several streams, as a union has; every other source is one.
    """
    counts = [len(_streams(source.spec.object)) if source.spec.kind == "dataframe" else 1 for source in sources]
    return [sum(counts[:index]) for index in range(len(counts))]


def _streams(frame: DataFrame) -> list[Any]:
    """The leaves of a DataFrame's plan that are streams, in Spark's order."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]


def read_sources(session: SparkSession, graph: JobGraph) -> DataFrame:
    """All rows of all sources of a job in batch mode, in a session of its own."""
    frames = [_read(session, source) for source in graph.sources]
    return frames[0] if len(frames) == 1 else combine(frames)


def _read(session: SparkSession, source: SourcePlan) -> DataFrame:
    given = source.spec.object
    if isinstance(given, KafkaSource):
        return read_all_of_kafka(session, given)
    if isinstance(given, CollectionSource):
        return read_collection(session, given, None, batch=True)
    if isinstance(given, NumberSequenceSource):
        return read_sequence(session, given, None, batch=True)
    if isinstance(given, DataGeneratorSource):
        return read_generator(session, given, None, batch=True)
    if isinstance(given, IteratorSource):
        return read_positions(session, given, None, batch=True)
    if isinstance(given, FileSource):
        refuse_partition_folders(session, given)
        reader = session.read.format(given.format).options(**given.options)
        if given.schema_ddl is not None:
            reader = reader.schema(given.schema_ddl)
        return reader.load(given.path)
    return in_session(given, session)


def _require_distinct(frame: DataFrame) -> None:
    """Refuse a stream that is used twice beside another one, because its position could not be cut (PROTOCOL R19).

    Spark writes one offset for each use of a stream, but one log for each stream. With several of both it is not known
    which belong together.
    """
    streams = _streams(frame)
    distinct = [leaf for index, leaf in enumerate(streams) if not any(leaf.equals(o) for o in streams[:index])]
    if 1 < len(distinct) < len(streams):
        raise UsageError(
            "one streaming DataFrame is used twice beside another one; call spark.readStream…load() once for each use, "
            "or use from_dataframe() once and branch the stream after it"
        )


def combine(frames: Sequence[DataFrame]) -> DataFrame:
    """Several sources in one frame: in each row one struct is set and the others are null."""
    wrapped = []
    for index, frame in enumerate(frames):
        columns = [F.lit(index).alias(SOURCE)]
        for other, schema in enumerate(f.schema for f in frames):
            if other == index:
                columns.append(F.struct(*[F.col(_quoted(name)) for name in frame.columns]).alias(f"s{other}"))
            else:
                columns.append(F.lit(None).cast(schema).alias(f"s{other}"))
        wrapped.append(frame.select(*columns))
    union = wrapped[0]
    for frame in wrapped[1:]:
        union = union.union(frame)
    return union


def split_source(rows: DataFrame, graph: JobGraph, edge: EdgePlan) -> DataFrame:
    """The rows of an edge's source after its SQL steps, with a column for the event time if it has one. Of a packed
    source its cells.
    """
    assert isinstance(edge.source, SourceRef)
    position = [source.id for source in graph.sources].index(edge.source.source_id)
    frame = rows
    if len(graph.sources) > 1:
        frame = rows.where(F.col(SOURCE) == position).select(f"s{position}.*")
    if edge.packed:
        return frame
    carried = []
    if edge.event_time is not None:
        frame = frame.withColumn(TIMESTAMP, event_time_ms(frame, edge.event_time.column))
        carried = [TIMESTAMP]
        if edge.event_time.partition_column is not None:
            frame = frame.withColumn(PARTITION, F.col(_quoted(edge.event_time.partition_column)))
            carried.append(PARTITION)
    for op in edge.jvm_ops:
        frame = apply_sql(frame, op, carried)
    return frame


def apply_sql(frame: DataFrame, op: tuple[str, ...], carried: Sequence[str] = ()) -> DataFrame:
    """One SQL step; a select keeps the `carried` columns."""
    kind, *arguments = op
    if kind == "where":
        return frame.where(arguments[0])
    if kind == "with_column":
        return frame.withColumn(arguments[0], F.expr(arguments[1]))
    return frame.select(*[F.expr(text) for text in arguments], *[F.col(name) for name in carried])


def event_time_ms(frame: DataFrame, column: str):  # type: ignore[no-untyped-def]
    """The event time of a row in milliseconds: of a timestamp or date column, or a number of milliseconds."""
    kind = dict(frame.dtypes)[column]
    value = F.col(_quoted(column))
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return F.unix_millis(value.cast("timestamp"))
    if kind in ("bigint", "int"):
        return value.cast("bigint")
    raise UsageError(
        f"event time column {column!r} is of type {kind}; use a timestamp, a date or a bigint of milliseconds"
    )


def _open(session: SparkSession, graph: JobGraph, source: SourcePlan, stream: int, limits: EpochLimits) -> DataFrame:
    given = source.spec.object
    packed = PackedEdge.of(graph, source) if source.packed else None
    folder = None if limits.folder is None else limits.folder / "sources" / str(stream)
    if isinstance(given, KafkaSource):
        return read_kafka(session, given, KafkaLimits(limits.max_rows, limits.first_rows), folder, packed)
    if isinstance(given, FileSource):
        refuse_partition_folders(session, given)
        if packed is None:
            return _read_files(session, given, limits.max_files)
        assert folder is not None, "the log of the source is in the query's folder"
        return read_packed(session, source, packed, FileLimits(limits.max_files, limits.first_files), folder)
    if isinstance(given, CollectionSource):
        return read_collection(session, given, limits.max_rows)
    if isinstance(given, NumberSequenceSource):
        return read_sequence(session, given, limits.max_rows)
    if isinstance(given, DataGeneratorSource):
        return read_generator(session, given, limits.max_rows)
    if isinstance(given, IteratorSource | SocketSource):
        return read_positions(session, given, limits.max_rows)
    if isinstance(given, FunctionSource):
        return read_function(session, given)
    frame: DataFrame = given
    return frame


def _read_files(session: SparkSession, source: FileSource, max_files: int | None) -> DataFrame:
    # By default Spark skips files that are a week older than the newest; here a new file counts, whatever its age.
    reader = session.readStream.format(source.format).options(**source.options).option("maxFileAge", "36500d")
    if max_files is not None:
        reader = reader.option("maxFilesPerTrigger", max_files)
    if source.schema_ddl is not None:
        reader = reader.schema(source.schema_ddl)
    return reader.load(source.path)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
