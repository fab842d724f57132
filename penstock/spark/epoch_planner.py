"""One epoch as a Spark plan: sources → exchange by key group → stage → exchange → … → one action.

Nothing may stand between `repartitionById` and `mapInArrow`. Of rows that Spark reads, the JVM computes key hash, key
group and subtask. Barrier rows are added by a union, so that a subtask runs even when it has no data.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.codec.keys import KeyCodec
from penstock.codec.row_codec import RowCodec
from penstock.graph.job_graph import EdgePlan, JobGraph, SourceRef, StageOutput, StagePlan
from penstock.model.ddl import arrow_to_ddl, quote_name
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.time import MIN_WATERMARK
from penstock.runtime.alignment import DRIVER
from penstock.runtime.exchange_rows import (
    BARRIER,
    BARRIER_EDGE,
    EDGE,
    PACKED,
    PARTITION,
    TARGET,
    TIMESTAMP,
    encode_barrier,
    has_partitions,
    has_timestamps,
)
from penstock.runtime.packed_rows import PACKED_DDL, is_packed
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.spark.pipe import RESULT_DDL, SUBTASK, OwnerAddress, Pipe
from penstock.spark.source_frames import split_source

COPY = "__copy"
"""The target subtask of one copy of a broadcast row."""


@dataclass(frozen=True)
class EpochRequest:
    """Everything about one epoch except its rows."""

    header: EpochHeader
    token: str
    parents: Mapping[SubtaskId, Version]
    owners: Mapping[SubtaskId, OwnerAddress]


class EpochPlanner:
    """Builds the plans of a job's epochs."""

    def __init__(self, graph: JobGraph) -> None:
        self._graph = graph
        self._layouts = {
            (stage.id, index): edge_layout(stage, index) for stage in graph.stages for index in range(len(stage.inputs))
        }
        self._terminal = [stage for stage in graph.stages if not _stage_edges(graph, stage)]

    def plan(self, session: SparkSession, rows: DataFrame | None, request: EpochRequest) -> DataFrame:
        """A DataFrame that runs the epoch when it is collected. `rows`: of all sources; None in an empty epoch."""
        frames = [self._run(session, rows, request, stage, None) for stage in self._terminal]
        plan = frames[0]
        for frame in frames[1:]:
            plan = plan.union(frame)
        return plan

    def replay(self, session: SparkSession, request: EpochRequest, edge: EdgePlan) -> DataFrame:
        """The rows of an edge in a finished epoch, from the output that its TaskManagers keep."""
        assert isinstance(edge.source, StageOutput)
        stage = self._graph.stage(edge.source.stage_id)
        ids = session.range(0, stage.parallelism, 1, 1).select(F.col("id").cast("int").alias(SUBTASK))
        pipe = self._pipe(request, stage, edge, consumer=f"replay-{edge.id}")
        frame = ids.repartitionById(stage.parallelism, SUBTASK).mapInArrow(pipe, output_ddl(edge))
        names = [name for name, _ in RowCodec(edge.record_type).fields]
        return frame.select([F.col(f"c{n}").alias(name) for n, name in enumerate(names)])

    def source_rows(self, rows: DataFrame, edge: EdgePlan) -> DataFrame:
        """The rows of a source after its SQL steps, as a user's writer gets them."""
        names = [name for name, _ in RowCodec(edge.record_type).fields]
        return split_source(rows, self._graph, edge).select([F.col(quote_name(name)) for name in names])

    def _run(
        self,
        session: SparkSession,
        rows: DataFrame | None,
        request: EpochRequest,
        stage: StagePlan,
        edge: EdgePlan | None,
    ) -> DataFrame:
        """The output of a stage on `edge`; without one, its single result row."""
        frames = [
            frame
            for index in range(len(stage.inputs))
            if (frame := self._input(session, rows, request, stage, index)) is not None
        ]
        if any(isinstance(input_edge.source, SourceRef) for input_edge in stage.inputs):
            frames.append(self._barriers(session, request.header, stage))
        union = frames[0]
        for frame in frames[1:]:
            union = union.union(frame)
        consumer = f"{edge.id}" if edge is not None else "end"
        pipe = self._pipe(request, stage, edge, consumer)
        ddl = RESULT_DDL
        if edge is not None:
            ddl = PACKED_DDL if is_packed(edge, self._graph.stage(edge.target)) else output_ddl(edge)
        return union.repartitionById(stage.parallelism, SUBTASK).mapInArrow(pipe, ddl)

    def _pipe(self, request: EpochRequest, stage: StagePlan, edge: EdgePlan | None, consumer: str) -> Pipe:
        ids = [SubtaskId(StageId(stage.id), index) for index in range(stage.parallelism)]
        return Pipe(
            token=request.token,
            stage=stage.id,
            header=request.header,
            parents=tuple(request.parents[subtask] for subtask in ids),
            owners=tuple(request.owners[subtask] for subtask in ids),
            consumer=consumer,
            edge=edge.id if edge is not None else None,
        )

    def _input(
        self,
        session: SparkSession,
        rows: DataFrame | None,
        request: EpochRequest,
        stage: StagePlan,
        index: int,
    ) -> DataFrame | None:
        """The rows of one input edge, in the columns of the stage's input."""
        edge = stage.inputs[index]
        if isinstance(edge.source, StageOutput):
            frame = self._run(session, rows, request, self._graph.stage(edge.source.stage_id), edge)
        elif rows is not None:
            frame = split_source(rows, self._graph, edge)
        else:
            return None
        if edge.partitioning == "broadcast":
            frame = frame.selectExpr("*", copies(stage, edge))
        return frame.selectExpr(*self._layouts[stage.id, index])

    def _barriers(self, session: SparkSession, header: EpochHeader, stage: StagePlan) -> DataFrame:
        barrier = Barrier(header.epoch, header.checkpoint, DRIVER, MIN_WATERMARK)
        given = {EDGE: f"{BARRIER_EDGE}", BARRIER: f"X'{encode_barrier(barrier).hex()}'", SUBTASK: "cast(id as int)"}
        return session.range(0, stage.parallelism, 1, 1).selectExpr(*lay_out(stage, given))


def _stage_edges(graph: JobGraph, stage: StagePlan) -> list[EdgePlan]:
    """Output edges that another stage reads."""
    ids = {other.id for other in graph.stages}
    return [edge for edge in stage.outputs if edge.target in ids]


def edge_layout(stage: StagePlan, index: int) -> list[str]:
    """The SQL that turns the rows of an edge, from a source or from a stage, into rows of the stage's input."""
    edge = stage.inputs[index]
    if is_packed(edge, stage):
        return packed_layout(stage, index)
    codec = RowCodec(edge.record_type)
    names = [name for name, _ in codec.fields]
    if isinstance(edge.source, SourceRef):
        columns = [quote_name(name) for name in names]
        given, target = {EDGE: f"{index}"}, None
        if edge.event_time is not None:
            given[TIMESTAMP] = TIMESTAMP
            if edge.event_time.partition_column is not None:
                given[PARTITION] = PARTITION
    else:
        columns = [f"c{n}" for n in range(len(names))]
        given = {EDGE: f"if({BARRIER} is null, {index}, {BARRIER_EDGE})", BARRIER: BARRIER, TIMESTAMP: TIMESTAMP}
        target = TARGET
    keys = [columns[names.index(column)] for column in edge.key_columns or ()]
    if edge.key_selector is not None:
        keys = [f"k{n}" for n in range(len(KeyCodec(edge.key_types).fields))]
        given |= {f"k{index}_{n}": key for n, key in enumerate(keys)}
    given |= {f"i{index}_{n}": column for n, column in enumerate(columns)}
    placed = _placement(stage, edge, keys)
    given[SUBTASK] = placed if target is None else f"coalesce({target}, {placed})"
    return lay_out(stage, given)


def packed_layout(stage: StagePlan, index: int) -> list[str]:
    """The same for cells of rows; whoever packed them has chosen their targets where these depend on the row."""
    edge = stage.inputs[index]
    own = f"pmod(spark_partition_id(), {stage.parallelism})"
    placed = {"broadcast": COPY, "forward": f"coalesce({TARGET}, {own})"}.get(edge.partitioning, TARGET)
    given = {EDGE: f"if({BARRIER} is null, {index}, {BARRIER_EDGE})", BARRIER: BARRIER, PACKED: PACKED, SUBTASK: placed}
    return lay_out(stage, given)


def copies(stage: StagePlan, edge: EdgePlan) -> str:
    """The SQL that makes one row of a broadcast edge for each subtask; a barrier has its target already."""
    every = f"sequence(0, {stage.parallelism - 1})"
    if isinstance(edge.source, StageOutput):
        every = f"if({TARGET} is null, {every}, array({TARGET}))"
    return f"explode({every}) as {COPY}"


def _placement(stage: StagePlan, edge: EdgePlan, keys: list[str]) -> str:
    """The subtask of a row: the owner of its key group, or one that keeps the order within a partition (R16)."""
    if edge.partitioning == "broadcast":
        return COPY
    if edge.partitioning == "key":
        group = f"pmod(hash({', '.join(keys)}), {stage.max_parallelism})"
        return f"cast({group} * {stage.parallelism} div {stage.max_parallelism} as int)"
    if edge.partitioning in ("global", "custom"):
        return "0"  # a custom edge's rows have their target with them
    number = "spark_partition_id()" if edge.partitioning == "forward" else "monotonically_increasing_id()"
    return f"cast(pmod({number}, {stage.parallelism}) as int)"


def lay_out(stage: StagePlan, given: Mapping[str, str]) -> list[str]:
    """The given columns in the order of the stage's input, every other one null."""
    return [f"cast({given.get(name, 'null')} as {kind}) as {name}" for name, kind in input_columns(stage)]


def input_columns(stage: StagePlan) -> list[tuple[str, str]]:
    """Name and Spark type of every column of a stage's input."""
    columns = [(EDGE, "int"), (BARRIER, "binary"), (SUBTASK, "int")]
    packed = [is_packed(edge, stage) for edge in stage.inputs]
    if any(packed):
        columns.append((PACKED, "binary"))
    if all(packed):
        return columns
    if has_timestamps(stage):
        columns.append((TIMESTAMP, "bigint"))
    if has_partitions(stage):
        columns.append((PARTITION, "string"))
    for index, edge in enumerate(stage.inputs):
        if packed[index]:
            continue
        columns += [(f"i{index}_{n}", ddl) for n, ddl in enumerate(_ddls(RowCodec(edge.record_type)))]
        if edge.key_selector is not None:
            columns += [(f"k{index}_{n}", ddl) for n, ddl in enumerate(_ddls(KeyCodec(edge.key_types)))]
    return columns


def output_ddl(edge: EdgePlan) -> str:
    """The schema of a stage's output on an edge whose rows are not packed, for `mapInArrow`."""
    columns: list[tuple[str, str]] = [(TARGET, "int"), (BARRIER, "binary"), (TIMESTAMP, "bigint")]
    columns += [(f"c{n}", ddl) for n, ddl in enumerate(_ddls(RowCodec(edge.record_type)))]
    if edge.key_selector is not None:
        columns += [(f"k{n}", ddl) for n, ddl in enumerate(_ddls(KeyCodec(edge.key_types)))]
    return ", ".join(f"{name} {ddl}" for name, ddl in columns)


def _ddls(codec: RowCodec | KeyCodec) -> list[str]:
    return [arrow_to_ddl(arrow) for _, arrow in codec.fields]
