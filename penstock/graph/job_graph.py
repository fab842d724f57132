"""The job as stages between exchanges: what `runtime` and `spark` execute.

A stage is a chain (or small tree) of operators that run one after the other in the same subtask, without an exchange
between them. Everything in a `StagePlan` is plain data that can be pickled; user functions are in it as bytes
(`graph.pickling.loads`). A `JobGraph` stays in the JobManager: its sources and sinks are live objects.

Positions. Inside a stage a *position* names a producer of records: `p >= 0` is the output of `operators[p]`, `p < 0`
is the input of `inputs[-1 - p]`. `OperatorPlan.inputs`, `StageOutput.position` and `WatermarkGenerator.position`
use it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.graph.stream_graph import EventTime, JvmOp, SinkSpec, SourceSpec
from penstock.model.types import TypeInformation

Partitioning = Literal["key", "forward", "rebalance", "rescale", "shuffle", "broadcast", "global", "custom"]
"""key: by key group. forward: from a source that needs no key, or from subtask i to subtask i of a stage with the same
parallelism. rebalance: evenly over all subtasks, where the parallelism changes or the program asks for it. broadcast:
every record to every subtask, also of a keyed stage. rescale, shuffle: what the program asked for; done as rebalance.
global: everything to the first subtask. custom: the upstream stage chooses the subtask of each record."""

SPARK_SINK = "spark"
"""`EdgePlan.target` of an edge that ends in `JobGraph.spark_sinks`."""

KEYED_BATCH = "keyed_batch"
"""The kind of an operator with a BatchProcessFunction."""
KEYED_AGGREGATE_WINDOW = "keyed_aggregate_window"
"""The kind of an operator that aggregates columns by window."""
COLUMN_KINDS = frozenset({KEYED_BATCH, KEYED_AGGREGATE_WINDOW})
"""Kinds that read rows as Arrow columns, and emit them so."""

SIDE_OUTPUT = "side_output"
"""The kind of an operator that passes on what the operator before it has tagged for one side output."""


@dataclass(frozen=True)
class SourceRef:
    """An edge starts at a source: `JobGraph.sources[i].id`."""

    source_id: int


@dataclass(frozen=True)
class StageOutput:
    """An edge starts at a position of a stage. Below 0 the stage passes its input on: it only computes a key."""

    stage_id: str
    position: int


@dataclass(frozen=True)
class OperatorPlan:
    """One operator of a chain."""

    uid: str
    name: str
    kind: str
    """map, flat_map, filter or process; keyed_map, keyed_flat_map, keyed_filter, keyed_process or reduce (in batch
    mode final_reduce); broadcast or keyed_broadcast; co_map, co_flat_map or co_process, also with keyed_;
    keyed_co_interval_join; keyed_window;
    keyed_epoch; keyed_batch; keyed_aggregate_window; timestamps; side_output; sink."""
    function: bytes
    """The pickled function object, always an instance with the PyFlink method of its kind (a lambda is wrapped);
    timestamps: a WatermarkStrategy; keyed_window: a WindowOperation; side_output: None; sink: its `SinkSpec`."""
    input_type: TypeInformation
    output_type: TypeInformation
    inputs: tuple[int, ...]
    """Positions; several where a union ends inside the stage."""
    keyed: bool
    """Runs with the stage's current key; operators further down the chain, and sinks, do not."""
    key_types: tuple[TypeInformation, ...] = ()
    explicit_uid: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    """sink: `{"sink": SinkSpec.kind}`; reduce: `{"state": "_reduce"}`; timestamps: `out_of_orderness_ms` (None where no
    watermarks are made) and `idle_after_ms`; broadcast: `descriptors` (pickled) and `broadcast_inputs` (positions);
    co_…: `second_inputs` (positions); keyed_co_interval_join: `bounds` too; side_output: `tag`."""
    uid_hash: str | None = None
    """The operator whose state is restored: its id, or its derived uid."""
    created: str = ""
    """The line of the program that created it, for messages."""
    description: str = ""
    """What `set_description` has set, for the plan."""


@dataclass(frozen=True)
class EdgePlan:
    """One exchange: records of one type from a source or a stage to a stage or a Spark sink."""

    id: int
    source: SourceRef | StageOutput
    target: str
    """Id of the stage that reads it, or `SPARK_SINK`."""
    record_type: TypeInformation
    """The type of the records that are shipped, after `jvm_ops`."""
    partitioning: Partitioning
    key_columns: tuple[str, ...] | None = None
    """The JVM hashes these columns of the record."""
    key_selector: bytes | None = None
    """A pickled KeySelector, called in the upstream stage; the key travels as extra columns."""
    key_types: tuple[TypeInformation, ...] = ()
    partitioner: bytes | None = None
    """A pickled `CustomPartition`, called in the upstream stage; the target travels in the rows."""
    jvm_ops: tuple[JvmOp, ...] = ()
    """Only after a source: applied to its DataFrame, in order."""
    event_time: EventTime | None = None
    """Only after a source; its column is one of the source's, read before `jvm_ops`."""
    created: str = ""
    """The line of the program with its `key_by` or `partition_custom`, for messages."""
    packed: bool = False
    """Only after a source: Penstock reads it, and packs its rows as those between two stages."""


def partition_key(uid: str, partition: str) -> str:
    """The key under which the manifest keeps the greatest timestamp of a source's partition."""
    return f"{uid}\n{partition}"


@dataclass(frozen=True)
class WatermarkGenerator:
    """Where a stage generates watermarks: on a source edge with event time, or after a `timestamps` operator."""

    uid: str
    """The uid of the source or operator, under which the manifest keeps its watermark and greatest timestamp."""
    out_of_orderness_ms: int
    position: int
    idle_after_ms: int | None = None
    by_partition: bool = False
    """The greatest timestamp is kept for each partition of the source, under `partition_key`."""


@dataclass(frozen=True)
class StagePlan:
    """The operators between two exchanges, run by `parallelism` subtasks."""

    id: str
    name: str
    """Names of the chained operators, joined by ` -> `."""
    parallelism: int
    max_parallelism: int
    key_types: tuple[TypeInformation, ...] | None
    """The types of the current key; None if the stage is not keyed."""
    inputs: tuple[EdgePlan, ...]
    operators: tuple[OperatorPlan, ...]
    """In topological order: an operator comes after its inputs. Empty in a stage that only computes a key."""
    outputs: tuple[EdgePlan, ...]
    watermark_generators: tuple[WatermarkGenerator, ...] = ()
    batch: bool = False
    """Whether it runs in batch mode: the whole input in one epoch, broadcast records first, then key by key."""

    @property
    def keyed(self) -> bool:
        """Whether its subtasks own key groups."""
        return self.key_types is not None

    @property
    def uids(self) -> tuple[str, ...]:
        """The uids of its operators, in order; a side output is part of the operator before it."""
        return tuple(operator.uid for operator in self.operators if operator.kind != SIDE_OUTPUT)


@dataclass(frozen=True)
class SourcePlan:
    """One source of the job. `spec.object` is live: a DataFrame, or a source of `penstock.connectors`."""

    id: int
    uid: str
    name: str
    spec: SourceSpec
    record_type: TypeInformation
    event_time: EventTime | None
    bounded: bool
    explicit_uid: bool = False
    uid_hash: str | None = None
    packed: bool = False
    """Whether the task that reads it packs its rows; otherwise they are rows of Spark."""
    reading: str = ""
    """Why it is not packed, in one line; empty if it is, or before that was decided."""


@dataclass(frozen=True)
class SinkPlan:
    """One sink that runs in a stage, as the JobManager needs it to commit. `spec.config` is live."""

    uid: str
    name: str
    spec: SinkSpec
    stage_id: str
    record_type: TypeInformation


@dataclass(frozen=True)
class SparkSinkPlan:
    """One `to_spark`: the user's callable, and the edges whose rows it gets (several after a union)."""

    uid: str
    name: str
    function: Any
    edges: tuple[EdgePlan, ...]
    record_type: TypeInformation


@dataclass(frozen=True)
class JobGraph:
    """The whole job. `stages` are in topological order; `s0` is the first."""

    stages: tuple[StagePlan, ...]
    sources: tuple[SourcePlan, ...]
    sinks: tuple[SinkPlan, ...]
    spark_sinks: tuple[SparkSinkPlan, ...]
    max_parallelism: int
    warnings: tuple[str, ...] = ()
    batch: bool = False
    """Whether it runs in batch mode: one Spark job over the whole input, without checkpoints."""
    default_parallelism: int = 1
    """Of operators that set none of their own."""
    at_parallelism: "Callable[[int], JobGraph] | None" = field(default=None, compare=False, repr=False)
    """The same program with another default parallelism; None for a graph that no program has built."""

    def stage(self, stage_id: str) -> StagePlan:
        """The stage with this id."""
        return next(stage for stage in self.stages if stage.id == stage_id)

    def source(self, reference: SourceRef) -> SourcePlan:
        """The source at which an edge starts."""
        return next(source for source in self.sources if source.id == reference.source_id)

    @property
    def channel_counts(self) -> dict[int, int]:
        """Edge id -> number of upstream subtasks, for edges that start at a stage."""
        return {
            edge.id: self.stage(edge.source.stage_id).parallelism
            for stage in self.stages
            for edge in stage.inputs
            if isinstance(edge.source, StageOutput)
        }

    @property
    def bounded(self) -> bool:
        """Whether every source ends by itself, and so the job does too."""
        return all(source.bounded for source in self.sources)

    @property
    def parallelism(self) -> int:
        """The greatest parallelism of a stage, which is the number of TaskManagers that are useful."""
        return max((stage.parallelism for stage in self.stages), default=1)
