"""The packed file source without Spark: which files an epoch reads, and where their rows go."""

import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common import Types
from penstock.connectors.kafka.kafka_source import PARTITION_COLUMN, TIMESTAMP_COLUMN
from penstock.errors import CheckpointError, SourceFileLostError, UnsupportedValueError
from penstock.graph.job_graph import EdgePlan, JobGraph, OperatorPlan, SourcePlan, SourceRef, StagePlan
from penstock.graph.stream_graph import EventTime, SourceSpec
from penstock.model.ids import StageId
from penstock.model.key_groups import key_group_of, spark_hash, subtask_of
from penstock.model.types import TAGGED, resolve_type
from penstock.runtime.exchange_rows import (
    BARRIER,
    BARRIER_EDGE,
    EDGE,
    PACKED,
    TARGET,
    encode_barrier,
    newest_by_partition,
    row_schema,
)
from penstock.runtime.operators.batch import EdgeBatch
from penstock.runtime.packed_rows import SCHEMA
from penstock.runtime.process.messages import Barrier
from penstock.runtime.stage_input import StageInput
from penstock.spark.epoch_planner import edge_layout, input_columns, packed_layout
from penstock.spark.packed_edge import PackedEdge
from penstock.spark.packed_files import PackedFileReader, PackedFiles, PackedFormat, PackedPartition
from penstock.spark.pipe import SUBTASK
from penstock.spark.source_frames import split_source

ORDERS = resolve_type("customer string, n bigint")
LIMIT = SimpleNamespace(max_files=2)


def stage_of(partitioning: Any = "key") -> StagePlan:
    keys: dict[str, Any] = {"key_columns": ("customer",), "key_types": (Types.STRING(),)}
    edge = EdgePlan(0, SourceRef(0), "s0", ORDERS, partitioning, packed=True, **(keys if partitioning == "key" else {}))
    operator = OperatorPlan("f", "f", "map", b"", TAGGED, TAGGED, (-1,), keyed=False)
    key_types = edge.key_types or None
    return StagePlan(StageId("s0"), "s0", 3, 128, key_types, (edge,), (operator,), ())


def reader_of(folder: Path, partitioning: Any = "key", slots: int = 2) -> PackedFileReader:
    stage = stage_of(partitioning)
    columns = pa.schema([("customer", pa.string()), ("n", pa.int64())])
    files = PackedFiles(str(folder / "in"), PackedFormat("json", columns), folder / "sources" / "0")
    return PackedFileReader(files, PackedEdge(stage.inputs[0], stage), None, slots)


def put(folder: Path, name: str, *numbers: int, modified_s: int = 1) -> Path:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"customer": f"c{n}", "n": n}) + "\n" for n in numbers), encoding="utf-8")
    os.utime(path, (modified_s, modified_s))
    return path


def numbers(reader: PackedFileReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """The column `n` of an epoch, in order, read by other processes than the one that has planned it."""
    batches = [
        batch
        for partition in reader.partitions(start, end)
        for batch in pickle.loads(pickle.dumps(reader)).read(partition)
    ]
    assert all(batch.schema == SCHEMA for batch in batches)
    return sorted(row[1] for _, rows in delivered(batches, stage_of()) for row in rows)


def delivered(batches: list[pa.RecordBatch], stage: StagePlan) -> list[tuple[int | None, list[Any]]]:
    """Target and records of each cell, as the TaskManager decodes them."""
    return [
        (target, list(map(tuple, item.batch.records)))
        for batch in batches
        for target, item in zip(batch.column(TARGET).to_pylist(), decoded(batch, StageInput(stage)), strict=True)
    ]


def decoded(batch: pa.RecordBatch, into: StageInput) -> Iterator[EdgeBatch]:
    for cell in batch.column(PACKED).to_pylist():
        arrays = [pa.array([0], pa.int32()), pa.nulls(1, pa.binary()), pa.array([cell], pa.binary())]
        (item,) = into.items([pa.RecordBatch.from_arrays(arrays, [EDGE, BARRIER, PACKED])])
        assert isinstance(item, EdgeBatch)
        yield item


def test_an_epoch_reads_the_oldest_files_up_to_the_limit(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path, f"{9 - number}.json", number, modified_s=number)
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    seen = []
    while (end := reader.latestOffset(start, LIMIT)) != start:
        seen.append(numbers(reader, start, end))
        start = end
    assert seen == [[0, 1], [2, 3], [4]] and start == {"logOffset": 2}
    put(tmp_path, "late.json", 7, modified_s=0)  # older than all that were read
    assert numbers(reader, start, reader.latestOffset(start, LIMIT)) == [7]


def test_files_that_appear_after_the_end_is_fixed_are_not_read(tmp_path: Path) -> None:
    put(tmp_path, "a.json", 1)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    put(tmp_path, "b.json", 2)
    end = reader.latestOffset(reader.initialOffset(), None)
    assert numbers(reader, reader.initialOffset(), end) == [1]
    assert reader.latestOffset(end, None) == end


def test_a_reader_that_starts_again_returns_what_is_in_the_log(tmp_path: Path) -> None:
    put(tmp_path, "a.json", 1)
    first = reader_of(tmp_path)
    end = first.latestOffset(first.initialOffset(), LIMIT)
    put(tmp_path, "b.json", 2)
    again = reader_of(tmp_path)
    assert again.latestOffset(again.initialOffset(), LIMIT) == end  # Spark has not heard of it
    assert numbers(again, again.initialOffset(), end) == [1]
    assert numbers(again, end, again.latestOffset(end, LIMIT)) == [2]
    assert numbers(again, again.initialOffset(), {"logOffset": 1}) == [1, 2]


def test_a_log_that_is_older_than_the_position_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="are gone"):
        reader_of(tmp_path).latestOffset({"logOffset": 3}, LIMIT)


def test_a_file_that_is_gone_when_its_epoch_is_planned_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", 1)
    reader = reader_of(tmp_path)
    end = reader.latestOffset(reader.initialOffset(), LIMIT)
    path.unlink()
    with pytest.raises(SourceFileLostError, match=r"a\.json' has gone"):
        reader.partitions(reader.initialOffset(), end)


def test_rows_go_where_sparks_hash_of_their_key_sends_them(tmp_path: Path) -> None:
    put(tmp_path, "a.json", *range(1_000))
    reader = reader_of(tmp_path)
    end = reader.latestOffset(reader.initialOffset(), None)
    (partition,) = reader.partitions(reader.initialOffset(), end)
    cells = delivered(list(reader.read(partition)), stage_of())
    assert [target for target, _ in cells] == [0, 1, 2]
    for target, rows in cells:
        assert [n for _, n in rows] == sorted(n for _, n in rows)
        for customer, _ in rows:
            group = key_group_of(spark_hash((customer,), (Types.STRING(),)), 128)
            assert subtask_of(group, 128, 3) == target
    assert sum(len(rows) for _, rows in cells) == 1_000


def test_rows_without_a_key_are_spread_evenly_over_all_tasks(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, "rebalance")
    for number in range(3):
        put(tmp_path, f"{number}.json", number)
    end = reader.latestOffset(reader.initialOffset(), None)
    (only,) = reader.partitions(reader.initialOffset(), end)
    targets = {}
    assert isinstance(only, PackedPartition)
    for number in range(3):  # of three tasks each begins with another subtask
        only.number = number
        for target, rows in delivered(list(reader.read(only)), stage_of("rebalance")):
            targets[number, rows[0][1]] = target
    assert targets == {(task, n): (task + n) % 3 for task in range(3) for n in range(3)}


def test_a_large_parquet_file_is_read_by_several_tasks(tmp_path: Path) -> None:
    count = 400_000
    (tmp_path / "in").mkdir()
    table = pa.table({"customer": [f"customer {n * 7919}" for n in range(count)], "n": range(count)})
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=50_000, compression="none")
    stage = stage_of()
    files = PackedFiles(str(tmp_path / "in"), PackedFormat("parquet", table.schema), tmp_path / "sources" / "0")
    reader = PackedFileReader(files, PackedEdge(stage.inputs[0], stage), None, 2)
    end = reader.latestOffset(reader.initialOffset(), None)
    partitions = reader.partitions(reader.initialOffset(), end)
    assert [len(part.parts) for part in partitions if isinstance(part, PackedPartition)] == [1, 1]
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    rows = [
        pa.ipc.read_record_batch(pa.py_buffer(cell), row_schema(stage.inputs[0]))
        for b in batches
        for cell in b[PACKED].to_pylist()
    ]
    assert pa.Table.from_batches(rows)["c1"].to_numpy().sum() == count * (count - 1) // 2


def test_a_barrier_is_a_row_of_its_own_beside_cells(tmp_path: Path) -> None:
    barrier = Barrier(1, None, "driver", 0)
    arrays = [
        pa.array([BARRIER_EDGE], pa.int32()),
        pa.array([encode_barrier(barrier)], pa.binary()),
        pa.nulls(1, pa.binary()),
    ]
    assert list(StageInput(stage_of()).items([pa.RecordBatch.from_arrays(arrays, [EDGE, BARRIER, PACKED])])) == [
        barrier
    ]


def test_event_times_and_partitions_of_a_topic_travel_with_the_rows() -> None:
    time = EventTime(TIMESTAMP_COLUMN, 0, PARTITION_COLUMN)
    edge = replace(stage_of().inputs[0], event_time=time)
    stage = replace(stage_of(), inputs=(edge,))
    columns = {"customer": ["ada", "bob"], "n": [1, 2], TIMESTAMP_COLUMN: pa.array([7, None], pa.int64())}
    rows = pa.RecordBatch.from_pydict({**columns, PARTITION_COLUMN: ["orders/0"] * 2})
    batches = list(PackedEdge(edge, stage).pack([rows], first=0))
    items = [item for batch in batches for item in decoded(batch, StageInput(stage, drop_untimed=True))]
    assert [
        (tuple(r), t) for item in items for r, t in zip(item.batch.records, item.batch.timestamps or [], strict=True)
    ] == [(("ada", 1), 7)]
    assert sum(item.dropped for item in items) == 1 and sum(item.rows for item in items) == 1
    assert [found for item in items for found in newest_by_partition(item.columns)] == [("orders/0", 7)]
    with pytest.raises(UnsupportedValueError, match="a row has no event time"):
        [item for batch in batches for item in decoded(batch, StageInput(stage))]


def test_cells_reach_the_exchange_without_the_steps_of_rows() -> None:
    """Of a packed source with event time Spark sees no column but those of cells."""
    edge = replace(stage_of().inputs[0], event_time=EventTime(TIMESTAMP_COLUMN, 0, PARTITION_COLUMN))
    stage = replace(stage_of(), inputs=(edge,))
    spec = SourceSpec("kafka", None, ORDERS, edge.event_time)
    source = SourcePlan(0, "orders", "orders", spec, ORDERS, edge.event_time, bounded=False, packed=True)
    graph = JobGraph((stage,), (source,), (), (), 128)
    rows: Any = object()
    assert split_source(rows, graph, edge) is rows
    assert edge_layout(stage, 0) == packed_layout(stage, 0)
    assert [name for name, _ in input_columns(stage)] == [EDGE, BARRIER, SUBTASK, PACKED]
