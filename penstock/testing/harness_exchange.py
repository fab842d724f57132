"""The harness's exchanges: plain objects from source to stage and from stage to stage, with their barriers."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.codec.keys import KeyCodec
from penstock.errors import ConnectionLostError
from penstock.graph.job_graph import SPARK_SINK, EdgePlan, JobGraph, SourceRef, StageOutput, StagePlan
from penstock.graph.pickling import loads
from penstock.model.ids import SubtaskId
from penstock.model.key_groups import key_group_of, subtask_of
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.alignment import DRIVER
from penstock.runtime.exchange_rows import select_keys, select_targets
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.sorted_rows import BROADCAST, KEYED, REGULAR, input_rank
from penstock.testing.graphs import MARKED_RECORDS

BATCH_RECORDS = 3
"""Small, so that an epoch of a test has a first batch and some in the middle."""


@dataclass(frozen=True)
class Broadcast:
    """A record of the broadcast stream."""

    value: Any


@dataclass(frozen=True)
class Second:
    """A record of the second stream."""

    value: Any


class ObjectOutput:
    """An edge's output as it is: records and the barrier behind them."""

    def __init__(self, edge: EdgePlan) -> None:
        self._edge = edge
        self._batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        self._batches.append(Batch(deepcopy(batch.records), batch.timestamps))

    def end(self, barrier: Barrier) -> tuple[list[Batch], Barrier]:
        return self._batches, barrier


class Exchange:
    """The edges of a job: which record goes where. One for all epochs."""

    def __init__(self, graph: JobGraph) -> None:
        self._graph = graph
        edges = [edge for stage in graph.stages for edge in stage.inputs]
        self._selectors = {edge.id: loads(edge.key_selector) for edge in edges if edge.key_selector is not None}
        self._codecs = {edge.id: KeyCodec(edge.key_types) for edge in edges if edge.key_types}
        operators = [operator for stage in graph.stages for operator in stage.operators]
        self.marks_records = any(MARKED_RECORDS in operator.config for operator in operators)
        """Records of two streams come as one."""

    def feed(self, header: EpochHeader, records: Sequence[Any]) -> "StageFeed":
        """The way of an epoch's records through the stages."""
        return StageFeed(self, self._graph, header, records)

    def timestamps(self, edge: EdgePlan, records: Sequence[Any]) -> list[int | None] | None:
        """The event time of a source's records, where the job has one."""
        extract = getattr(self._selectors.get(edge.id), "timestamp", None)
        return None if extract is None else [extract(record) for record in records]

    def route(self, batch: Batch, edge: EdgePlan, stage: StagePlan, index: int) -> Batch:
        """The part of a batch that belongs to one subtask, with its keys where the stage is keyed."""
        if edge.partitioning == "broadcast":
            return Batch(deepcopy(batch.records), batch.timestamps)
        keys: list[Any] | None = None
        if edge.partitioning == "key":
            codec = self._codecs[edge.id]
            keys = select_keys(edge, codec, partial(self._key_of, edge), batch.records)
            places = [key_group_of(codec.hash(key), stage.max_parallelism) for key in keys]
            targets = [subtask_of(group, stage.max_parallelism, stage.parallelism) for group in places]
        elif edge.partitioning == "global":
            targets = [0] * len(batch)
        elif edge.partitioner is not None:
            targets = select_targets(edge, loads(edge.partitioner), batch.records, stage.parallelism)
        else:
            # In blocks, so that records of one key keep their order on their way through the subtasks.
            targets = [number * stage.parallelism // len(batch) for number in range(len(batch))]
        chosen = [number for number, target in enumerate(targets) if target == index]
        return Batch([batch.records[n] for n in chosen], _pick(batch.timestamps, chosen), _pick(keys, chosen))

    def _key_of(self, edge: EdgePlan, record: Any) -> Any:
        if edge.id in self._selectors:
            return self._selectors[edge.id].get_key(record)
        values = tuple(getattr(record, column) for column in edge.key_columns or ())
        return values[0] if len(values) == 1 else values


class StageFeed:
    """One epoch's rows on their way through the stages."""

    def __init__(self, exchange: Exchange, graph: JobGraph, header: EpochHeader, records: Sequence[Any]) -> None:
        self._exchange = exchange
        self._graph = graph
        self.header = header
        self._records = records
        self._outputs: dict[int, list[tuple[list[Batch], Barrier]]] = {}

    def add(self, output: dict[int, Any]) -> None:
        """What a subtask has put on its output edges."""
        for edge, kept in output.items():
            self._outputs.setdefault(edge, []).append(kept)

    def results(self) -> list[tuple[str, Any]]:
        """The records on edges that leave the job, each with the tag of its side output, or with ""."""
        leaving = [(s, edge) for s in self._graph.stages for edge in s.outputs if edge.target == SPARK_SINK]
        return [
            (_tag_of(stage, edge), record)
            for stage, edge in leaving
            for batches, _ in self._outputs.get(edge.id, [])
            for batch in batches
            for record in batch.records
        ]

    def items(self, subtask: SubtaskId) -> Iterator[EdgeBatch | Barrier]:
        """The input of one subtask."""
        stage = self._graph.stage(subtask.stage)
        if stage.batch:
            yield from sort_items(stage, self._items(stage, subtask))
        else:
            yield from self._items(stage, subtask)

    def _items(self, stage: StagePlan, subtask: SubtaskId) -> Iterator[EdgeBatch | Barrier]:
        # Broadcast records come first, so that a test can tell what the others meet; on Spark there is no such order.
        ordered = sorted(enumerate(stage.inputs), key=lambda item: item[1].partitioning != "broadcast")
        for index, edge in ordered:
            for batch in self._edge_batches(edge):
                routed = self._exchange.route(batch, edge, stage, subtask.index)
                for start in range(0, len(routed), BATCH_RECORDS):
                    part = routed.slice(start, start + BATCH_RECORDS)
                    yield EdgeBatch(index, part, len(part))
            if isinstance(edge.source, StageOutput):
                yield from (barrier for _, barrier in self._outputs.get(edge.id, []))
        if any(isinstance(edge.source, SourceRef) for edge in stage.inputs):
            header = self.header
            yield Barrier(header.epoch, header.checkpoint, DRIVER, MIN_WATERMARK)

    def _edge_batches(self, edge: EdgePlan) -> list[Batch]:
        if isinstance(edge.source, StageOutput):
            return [batch for batches, _ in self._outputs.get(edge.id, []) for batch in batches]
        records = self._records_of(edge.source)
        if not records:
            return []
        # Copies: a function may change its record, and a replay must bring it as it was.
        return [Batch(deepcopy(records), self._exchange.timestamps(edge, records))]

    def _records_of(self, source: SourceRef) -> list[Any]:
        """Those of the first source as they were fed; those of the second without what marks them."""
        if self._exchange.marks_records:
            return [(2, record.value) if isinstance(record, Second) else (1, record) for record in self._records]
        if source.source_id == 0:
            return [record for record in self._records if not isinstance(record, (Broadcast, Second))]
        return [record.value for record in self._records if isinstance(record, (Broadcast, Second))]


def _tag_of(stage: StagePlan, edge: EdgePlan) -> str:
    position = edge.source.position if isinstance(edge.source, StageOutput) else -1
    return str(stage.operators[position].config.get("tag", "")) if position >= 0 else ""


def sort_items(stage: StagePlan, items: Iterable[EdgeBatch | Barrier]) -> Iterator[EdgeBatch | Barrier]:
    """The input of a subtask in batch mode: broadcast records first; those of a key together, by event time."""
    barriers: list[Barrier] = []
    rows: list[EdgeBatch] = []
    for item in items:
        if isinstance(item, Barrier):
            barriers.append(item)
        else:
            rows.extend(item.slice(n, n + 1) for n in range(len(item.batch)))
    for rank in (BROADCAST, REGULAR, KEYED):
        ranked = [item for item in rows if input_rank(stage.inputs[item.edge]) == rank]
        yield from sorted(ranked, key=_key_and_time) if rank == KEYED and stage.keyed else ranked
    yield from barriers


def _key_and_time(item: EdgeBatch) -> tuple[Any, int]:
    assert item.batch.keys is not None
    timestamp = item.batch.timestamps[0] if item.batch.timestamps is not None else None
    return item.batch.keys[0], MAX_WATERMARK if timestamp is None else timestamp


def _pick(values: list[Any] | None, chosen: Sequence[int]) -> list[Any] | None:
    return None if values is None else [values[number] for number in chosen]


def cut(items: Iterable[EdgeBatch | Barrier], limit: int | None) -> Iterator[EdgeBatch | Barrier]:
    """The first items, and then the end of the connection."""
    for number, item in enumerate(items):
        if number == limit:
            raise ConnectionLostError("the task is lost")
        yield item
