"""The harness's exchanges: plain objects from source to stage and from stage to stage, with their barriers."""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.codec.keys import KeyCodec
from penstock.graph.job_graph import SPARK_SINK, EdgePlan, JobGraph, SourceRef, StageOutput, StagePlan
from penstock.graph.pickling import loads
from penstock.model.ids import SubtaskId
from penstock.model.key_groups import key_group_of, subtask_of
from penstock.model.time import MIN_WATERMARK
from penstock.runtime.alignment import DRIVER
from penstock.runtime.batch import Batch, EdgeBatch
from penstock.runtime.messages import Barrier, EpochHeader

BATCH_RECORDS = 3
"""Small, so that an epoch of a test has a first batch and some in the middle."""


class ObjectOutput:
    """An edge's output as it is: records and the barrier behind them."""

    def __init__(self, edge: EdgePlan) -> None:
        self._edge = edge
        self._batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)

    def end(self, barrier: Barrier) -> tuple[list[Batch], Barrier]:
        return self._batches, barrier


class StageFeed:
    """One epoch's rows on their way through the stages."""

    def __init__(self, graph: JobGraph, header: EpochHeader, records: Sequence[Any]) -> None:
        self._graph = graph
        self._header = header
        self._records = records
        self._outputs: dict[int, list[tuple[list[Batch], Barrier]]] = {}

    def add(self, subtask: SubtaskId, output: dict[int, Any]) -> None:
        """What a subtask has put on its output edges."""
        for edge, kept in output.items():
            self._outputs.setdefault(edge, []).append(kept)

    def results(self) -> list[Any]:
        """The records on edges that leave the job."""
        edges = [edge for stage in self._graph.stages for edge in stage.outputs if edge.target == SPARK_SINK]
        return [
            r for edge in edges for batches, _ in self._outputs.get(edge.id, []) for b in batches for r in b.records
        ]

    def items(self, subtask: SubtaskId) -> Iterator[EdgeBatch | Barrier]:
        """The input of one subtask."""
        stage = self._graph.stage(subtask.stage)
        for index, edge in enumerate(stage.inputs):
            for batch in self._edge_batches(edge):
                routed = route(batch, edge, stage, subtask.index)
                for start in range(0, len(routed.records), BATCH_RECORDS):
                    yield EdgeBatch(index, _slice(routed, start, start + BATCH_RECORDS))
            if isinstance(edge.source, StageOutput):
                yield from (barrier for _, barrier in self._outputs.get(edge.id, []))
        if any(isinstance(edge.source, SourceRef) for edge in stage.inputs):
            header = self._header
            yield Barrier(header.epoch, header.checkpoint, DRIVER, MIN_WATERMARK, header.now_ms)

    def _edge_batches(self, edge: EdgePlan) -> list[Batch]:
        if isinstance(edge.source, StageOutput):
            return [batch for batches, _ in self._outputs.get(edge.id, []) for batch in batches]
        timestamp = getattr(loads(edge.key_selector), "timestamp", None) if edge.key_selector is not None else None
        times = [timestamp(record) for record in self._records] if timestamp is not None else None
        return [Batch(list(self._records), times)] if self._records else []


def route(batch: Batch, edge: EdgePlan, stage: StagePlan, index: int) -> Batch:
    """The part of a batch that belongs to one subtask, with its keys where the stage is keyed."""
    timestamps: Sequence[int | None] = batch.timestamps or [None] * len(batch)
    if not stage.keyed:
        rows = [
            (r, t)
            for n, (r, t) in enumerate(zip(batch.records, timestamps, strict=True))
            if n % stage.parallelism == index
        ]
        return Batch([r for r, _ in rows], [t for _, t in rows] if batch.timestamps is not None else None)
    codec = KeyCodec(edge.key_types)
    picked = []
    for record, timestamp in zip(batch.records, timestamps, strict=True):
        key = codec.to_state_key(_key_of(record, edge))
        key_hash = codec.hash(key)
        if subtask_of(key_group_of(key_hash, stage.max_parallelism), stage.max_parallelism, stage.parallelism) == index:
            picked.append((record, timestamp, key))
    return Batch(
        [p[0] for p in picked],
        [p[1] for p in picked] if batch.timestamps is not None else None,
        [p[2] for p in picked],
    )


def _key_of(record: Any, edge: EdgePlan) -> Any:
    if edge.key_selector is not None:
        return loads(edge.key_selector).get_key(record)
    values = tuple(getattr(record, column) for column in edge.key_columns or ())
    return values[0] if len(values) == 1 else values


def _slice(batch: Batch, start: int, end: int) -> Batch:
    def cut(values: list[Any] | None) -> list[Any] | None:
        return None if values is None else values[start:end]

    return Batch(batch.records[start:end], cut(batch.timestamps), cut(batch.keys))


def channels_of(graph: JobGraph) -> dict[int, int]:
    """Edge id -> number of upstream subtasks."""
    return {
        edge.id: graph.stage(edge.source.stage_id).parallelism
        for stage in graph.stages
        for edge in stage.inputs
        if isinstance(edge.source, StageOutput)
    }
