"""Divides the program into stages: where an exchange is needed, and which operators run together without one.

A stage ends where records must move to another subtask: at `key_by`, at a change of parallelism, at `rebalance`, or
where chaining is switched off. What runs in the JVM alone (a source, SQL steps, `key_by` on columns) makes no stage: it
is part of the edge. Operators with the same input and parallelism share a stage, so a source that is read twice in the
same way is shipped once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from penstock.errors import UsageError
from penstock.graph.graph_warnings import graph_warnings
from penstock.graph.job_graph import (
    SIDE_OUTPUT,
    SPARK_SINK,
    EdgePlan,
    JobGraph,
    OperatorPlan,
    Partitioning,
    SinkPlan,
    SourcePlan,
    SourceRef,
    SparkSinkPlan,
    StageOutput,
    StagePlan,
    WatermarkGenerator,
)
from penstock.graph.pickling import dumps
from penstock.graph.runtime_mode import choose_batch, kind_in_mode
from penstock.graph.stream_graph import (
    BroadcastTo,
    CustomPartition,
    JvmOp,
    JvmSpec,
    KeyBy,
    Node,
    OperatorSpec,
    PartitionTo,
    SinkSpec,
    SourceSpec,
    StreamGraph,
)
from penstock.graph.uids import assign_uids, explicit_uid
from penstock.model.execution import RuntimeExecutionMode
from penstock.model.key_groups import check_parallelism, default_max_parallelism
from penstock.model.options.execution_options import ASYNC_WAIT
from penstock.model.types import TypeInformation


@dataclass(frozen=True)
class GraphSettings:
    """Settings of the environment for the whole job."""

    parallelism: int = 1
    max_parallelism: int | None = None
    chaining: bool = True
    generate_uids: bool = True
    mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING
    async_wait_ms: int = ASYNC_WAIT.default


def build_job_graph(graph: StreamGraph, settings: GraphSettings) -> JobGraph:
    """The stages of everything that was added to the program since it was last executed."""
    for unfinished in graph.unfinished.values():
        raise UsageError(unfinished)
    nodes = graph.to_execute()
    if not nodes:
        raise UsageError(
            "No operators defined in streaming topology. Cannot execute; add an operator or a sink, such as .print()"
        )
    return _job_graph(graph, nodes, settings)


def _job_graph(graph: StreamGraph, nodes: Sequence[Node], settings: GraphSettings) -> JobGraph:
    batch = choose_batch(nodes, settings.mode)
    builder = _Stages(graph, settings, assign_uids(nodes, generate=settings.generate_uids), batch=batch)
    for node in nodes:
        builder.add(node)
    max_parallelism = _max_parallelism(nodes, settings, [stage.parallelism for stage in builder.stages])

    def at_parallelism(parallelism: int) -> JobGraph:
        return _job_graph(graph, nodes, replace(settings, parallelism=parallelism, max_parallelism=max_parallelism))

    return JobGraph(
        stages=tuple(stage.close(max_parallelism) for stage in builder.stages),
        sources=tuple(builder.sources.values()),
        sinks=tuple(builder.sinks),
        spark_sinks=tuple(builder.spark_sinks),
        max_parallelism=max_parallelism,
        warnings=graph_warnings(graph, nodes, batch=batch),
        batch=batch,
        default_parallelism=settings.parallelism,
        at_parallelism=at_parallelism,
    )


@dataclass(frozen=True)
class _Feed:
    """Records that a consumer reads: of a source, after SQL steps, or of a position of a stage."""

    record_type: TypeInformation
    source: int | None = None
    """Id of the source's node."""
    jvm_ops: tuple[JvmOp, ...] = ()
    stage: int | None = None
    position: int = 0
    exchange: int | None = None
    """Id of the key_by or partition node between the records and their consumer."""
    chain: bool = True


@dataclass
class _OpenStage:
    """A stage to which operators are still added."""

    index: int
    parallelism: int
    key_types: tuple[TypeInformation, ...] | None
    inputs: list[EdgePlan] = field(default_factory=list)
    operators: list[OperatorPlan] = field(default_factory=list)
    outputs: list[EdgePlan] = field(default_factory=list)
    generators: list[WatermarkGenerator] = field(default_factory=list)
    batch: bool = False

    @property
    def id(self) -> str:
        return f"s{self.index}"

    def close(self, max_parallelism: int) -> StagePlan:
        return StagePlan(
            id=self.id,
            name=" -> ".join(o.name for o in self.operators if o.kind != SIDE_OUTPUT) or "Key By",
            parallelism=self.parallelism,
            max_parallelism=max_parallelism,
            key_types=self.key_types,
            inputs=tuple(self.inputs),
            operators=tuple(self.operators),
            outputs=tuple(self.outputs),
            watermark_generators=tuple(self.generators),
            batch=self.batch,
        )


class _Stages:
    """One pass over the nodes, in topological order; a stage's inputs are fixed when it is made."""

    def __init__(self, graph: StreamGraph, settings: GraphSettings, uids: dict[int, str], *, batch: bool) -> None:
        self.graph = graph
        self.settings = settings
        self.batch = batch
        self.uids = uids
        self.stages: list[_OpenStage] = []
        self.sources: dict[int, SourcePlan] = {}
        self.sinks: list[SinkPlan] = []
        self.spark_sinks: list[SparkSinkPlan] = []
        self._feeds: dict[int, tuple[_Feed, ...]] = {}
        self._shared: dict[tuple[tuple[_Feed, ...], int], _OpenStage] = {}
        self._edge_count = 0

    def add(self, node: Node) -> None:
        """Record where the node's records come from; add an operator or a sink to a stage."""
        inputs = tuple(feed for input_id in node.inputs for feed in self._feeds[input_id])
        match node.payload:
            case SourceSpec() as spec:
                self.sources[node.id] = self._source(node, spec)
                feeds: tuple[_Feed, ...] = (_Feed(node.output_type, source=node.id),)
            case JvmSpec(op=op):
                feeds = tuple(
                    replace(feed, jvm_ops=(*feed.jvm_ops, op), record_type=node.output_type) for feed in inputs
                )
            case SinkSpec(kind="spark") as spec:
                self.spark_sinks.append(self._spark_sink(node, spec, inputs))
                feeds = ()
            case OperatorSpec(kind="side_output"):
                feeds = (self._place_side_output(node, inputs[0]),)
            case OperatorSpec() | SinkSpec():
                feeds = (self._place(node, inputs),)
            case _ if node.kind == "union":
                feeds = inputs
            case _:
                feeds = tuple(replace(feed, exchange=node.id) for feed in inputs)
        self._feeds[node.id] = feeds

    def _place(self, node: Node, feeds: tuple[_Feed, ...]) -> _Feed:
        parallelism = node.parallelism or self.settings.parallelism
        stage = self._stage_to_chain(node, feeds, parallelism)
        if stage is not None:
            positions = tuple(feed.position for feed in feeds)
        else:
            stage = self._stage_for(feeds, parallelism, share=node.chain_before and self.settings.chaining)
            positions = tuple(-1 - index for index in range(len(feeds)))
        operator = self._operator(node, stage, positions)
        if operator.kind in ("broadcast", "keyed_broadcast"):
            inputs = [p for p, feed in zip(positions, feeds, strict=True) if self._is_broadcast(feed)]
            descriptors = dumps(operator.config["descriptors"], node.name)
            operator = replace(operator, config={"descriptors": descriptors, "broadcast_inputs": inputs})
        if _has_two_inputs(node):
            second = positions[len(self._feeds[node.inputs[0]]) :]
            operator = replace(operator, config={**operator.config, "second_inputs": list(second)})
        if operator.kind == "async_wait":
            operator = replace(operator, config={**operator.config, "wait_ms": self.settings.async_wait_ms})
        stage.operators.append(operator)
        position = len(stage.operators) - 1
        stage.generators.extend(_generators(node, self.uids[node.id], position))
        if isinstance(node.payload, SinkSpec):
            self.sinks.append(SinkPlan(self.uids[node.id], node.name, node.payload, stage.id, node.output_type))
        return _Feed(node.output_type, stage=stage.index, position=position, chain=node.chain_after)

    def _place_side_output(self, node: Node, producer: _Feed) -> _Feed:
        """Place it beside its operator, whatever the settings say."""
        assert producer.stage is not None, "get_side_output() checks that an operator produces the stream"
        stage = self.stages[producer.stage]
        operator = self._operator(node, stage, (producer.position,))
        tag = operator.config["tag"]
        name = f"{stage.operators[producer.position].name} (side output {tag!r})"
        stage.operators.append(replace(operator, name=name))
        chain = producer.chain and node.chain_after
        return _Feed(node.output_type, stage=stage.index, position=len(stage.operators) - 1, chain=chain)

    def _stage_to_chain(self, node: Node, feeds: tuple[_Feed, ...], parallelism: int) -> _OpenStage | None:
        """The stage that produces the node's input, if the node may run there too."""
        index = feeds[0].stage
        if index is None or not (self.settings.chaining and node.chain_before):
            return None
        together = all(feed.stage == index and self._stays(feed) and feed.chain for feed in feeds)
        if _has_two_inputs(node) and len({feed.position for feed in feeds}) < len(feeds):
            return None  # the operator could not tell which of its two inputs a record comes from
        return self.stages[index] if together and self.stages[index].parallelism == parallelism else None

    def _stage_for(self, feeds: tuple[_Feed, ...], parallelism: int, *, share: bool) -> _OpenStage:
        """The stage that reads exactly these records; a new one unless one can be shared."""
        if share and (feeds, parallelism) in self._shared:
            return self._shared[feeds, parallelism]
        arriving = [self._after_selector(feed) for feed in feeds]  # may make stages, which then come before this one
        stage = _OpenStage(len(self.stages), parallelism, self._key_types(feeds), batch=self.batch)
        self.stages.append(stage)
        for position, feed in enumerate(arriving):
            edge = self._edge(feed, stage)
            stage.inputs.append(edge)
            if edge.event_time is not None and feed.source is not None:
                time, uid = edge.event_time, self.uids[feed.source]
                by_partition = time.partition_column is not None
                stage.generators.append(
                    WatermarkGenerator(
                        uid, time.max_out_of_orderness_ms, -1 - position, time.idle_after_ms, by_partition
                    )
                )
        if share:
            self._shared[feeds, parallelism] = stage
        return stage

    def _after_selector(self, feed: _Feed) -> _Feed:
        """The same records. If Python computes a key or target for a source's records, a stage for that comes first."""
        key_by = self._key_by(feed)
        in_python = self._custom(feed) is not None or (key_by is not None and key_by.selector is not None)
        if feed.source is None or not in_python:
            return feed
        stage = self._stage_for((replace(feed, exchange=None),), self.settings.parallelism, share=True)
        return _Feed(feed.record_type, stage=stage.index, position=-1, exchange=feed.exchange)

    def _key_types(self, feeds: tuple[_Feed, ...]) -> tuple[TypeInformation, ...] | None:
        """The types of the stage's key, if all its records have one. Records of broadcast streams have none."""
        found = [self._key_by(feed) for feed in feeds if not self._is_broadcast(feed)]
        return found[0].key_types if found and found[0] is not None and None not in found else None

    def _key_by(self, feed: _Feed) -> KeyBy | None:
        payload = self.graph[feed.exchange].payload if feed.exchange is not None else None
        return payload if isinstance(payload, KeyBy) else None

    def _is_broadcast(self, feed: _Feed) -> bool:
        return feed.exchange is not None and isinstance(self.graph[feed.exchange].payload, BroadcastTo)

    def _stays(self, feed: _Feed) -> bool:
        """Return whether the program lets the records stay in their subtask."""
        return feed.exchange is None or self.graph[feed.exchange].payload == PartitionTo("forward")

    def _custom(self, feed: _Feed) -> CustomPartition | None:
        payload = self.graph[feed.exchange].payload if feed.exchange is not None else None
        return payload if isinstance(payload, CustomPartition) else None

    def _edge(self, feed: _Feed, target: _OpenStage) -> EdgePlan:
        """A new edge to a stage: by key, to all subtasks, to the same subtask, or evenly spread."""
        key_by = self._key_by(feed)
        edge = self._plain_edge(feed, target.id)
        if key_by is not None:
            created = self.graph[feed.exchange].created if feed.exchange is not None else ""
            name = f"Key By({key_by.label})"
            selector = None if key_by.selector is None else dumps(key_by.selector, name, created)
            edge = replace(
                edge,
                partitioning="key",
                key_columns=key_by.columns,
                key_selector=selector,
                key_types=key_by.key_types,
                created=created,
            )
        elif feed.exchange is not None:
            edge = self._partitioned(edge, feed, self.graph[feed.exchange], target)
        elif self._upstream_parallelism(feed, target) != target.parallelism:
            edge = replace(edge, partitioning="rebalance")
        if feed.stage is not None:
            self.stages[feed.stage].outputs.append(edge)
        return edge

    def _partitioned(self, edge: EdgePlan, feed: _Feed, node: Node, target: _OpenStage) -> EdgePlan:
        match node.payload:
            case BroadcastTo():
                return replace(edge, partitioning="broadcast")
            case CustomPartition() as custom:
                data = dumps(custom, node.name, node.created)
                return replace(edge, partitioning="custom", partitioner=data, created=node.created)
            case PartitionTo(strategy="forward"):
                upstream = self._upstream_parallelism(feed, target)
                if upstream != target.parallelism:
                    raise UsageError(
                        f"Forward partitioning does not allow change of parallelism. The operator before forward() "
                        f"has {upstream}, the one after it {target.parallelism} (created at {node.created}); use "
                        f"rebalance(), or set_parallelism({upstream}) after it"
                    )
                return edge
            case PartitionTo(strategy=strategy):
                return replace(edge, partitioning=cast(Partitioning, strategy))
            case _:
                return replace(edge, partitioning="rebalance")

    def _upstream_parallelism(self, feed: _Feed, target: _OpenStage) -> int:
        """The parallelism of the upstream stage; a source has that of its reader."""
        return target.parallelism if feed.stage is None else self.stages[feed.stage].parallelism

    def _plain_edge(self, feed: _Feed, target: str) -> EdgePlan:
        self._edge_count += 1
        source = None if feed.source is None else self.sources[feed.source]
        return EdgePlan(
            id=self._edge_count - 1,
            source=StageOutput(f"s{feed.stage}", feed.position) if source is None else SourceRef(source.id),
            target=target,
            record_type=feed.record_type,
            partitioning="forward",
            jvm_ops=feed.jvm_ops,
            event_time=None if source is None else source.event_time,
        )

    def _spark_sink(self, node: Node, spec: SinkSpec, feeds: tuple[_Feed, ...]) -> SparkSinkPlan:
        """Add a Spark sink: rows reach it without an exchange, and without a stage if they never left the JVM."""
        edges = []
        for feed in feeds:
            edge = self._plain_edge(feed, SPARK_SINK)
            edges.append(edge)
            if feed.stage is not None:
                self.stages[feed.stage].outputs.append(edge)
        return SparkSinkPlan(self.uids[node.id], node.name, spec.config, tuple(edges), node.output_type)

    def _source(self, node: Node, spec: SourceSpec) -> SourcePlan:
        return SourcePlan(
            id=len(self.sources),
            uid=self.uids[node.id],
            name=node.name,
            spec=spec,
            record_type=spec.record_type,
            event_time=spec.event_time,
            bounded=spec.bounded,
            explicit_uid=explicit_uid(node) is not None,
            uid_hash=node.uid_hash,
        )

    def _operator(self, node: Node, stage: _OpenStage, positions: tuple[int, ...]) -> OperatorPlan:
        payload = node.payload
        is_sink = isinstance(payload, SinkSpec)
        keyed = not is_sink and payload.is_keyed
        return OperatorPlan(
            uid=self.uids[node.id],
            name=node.name,
            kind="sink" if is_sink else kind_in_mode(payload.kind, batch=self.batch),
            function=dumps(payload if is_sink else payload.function, node.name, node.created),
            input_type=self._feeds[node.inputs[0]][0].record_type,
            output_type=node.output_type,
            inputs=positions,
            keyed=keyed,
            key_types=stage.key_types or () if keyed else (),
            explicit_uid=explicit_uid(node) is not None,
            config={"sink": payload.kind} if is_sink else payload.config,
            uid_hash=node.uid_hash,
            created=node.created,
            description=node.description or "",
        )


def _has_two_inputs(node: Node) -> bool:
    return isinstance(node.payload, OperatorSpec) and node.payload.kind.removeprefix("keyed_").startswith("co_")


def _generators(node: Node, uid: str, position: int) -> list[WatermarkGenerator]:
    if not isinstance(node.payload, OperatorSpec) or node.payload.kind != "timestamps":
        return []
    out_of_orderness_ms = node.payload.config.get("out_of_orderness_ms")
    if out_of_orderness_ms is None:
        return []
    return [WatermarkGenerator(uid, out_of_orderness_ms, position, node.payload.config.get("idle_after_ms"))]


def _max_parallelism(nodes: Sequence[Node], settings: GraphSettings, used: Sequence[int]) -> int:
    """The number of key groups, which is one for the whole job."""
    asked = {node.max_parallelism for node in nodes if node.max_parallelism is not None}
    if settings.max_parallelism is not None:
        asked.add(settings.max_parallelism)
    if len(asked) > 1:
        raise UsageError(
            f"max parallelism {', '.join(map(str, sorted(asked)))} are all set, but a job has one number of key "
            f"groups; set it once, with env.set_max_parallelism(...)"
        )
    greatest = max(used, default=1)
    found = asked.pop() if asked else default_max_parallelism(greatest)
    check_parallelism(found, greatest)
    return found
