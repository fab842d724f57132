"""Rows of an exchange as Arrow columns: what goes into a stage is what came out of the one before it."""

from collections.abc import Sequence
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.codec.keys import KeyCodec
from penstock.common import Row, Types
from penstock.errors import InvalidKeyError, UnsupportedValueError
from penstock.graph.callables import CallableKeySelector
from penstock.graph.job_graph import EdgePlan, OperatorPlan, SourceRef, StageOutput, StagePlan
from penstock.graph.pickling import dumps
from penstock.graph.stream_graph import EventTime
from penstock.model.ids import StageId, SubtaskId
from penstock.model.types import TAGGED, TypeInformation, resolve_type
from penstock.runtime import kept_output
from penstock.runtime.alignment import align, channel
from penstock.runtime.exchange_rows import (
    BARRIER,
    BARRIER_EDGE,
    EDGE,
    PACKED,
    TARGET,
    TIMESTAMP,
    ArrowOutput,
    encode_barrier,
)
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.packed_rows import PackedOutput
from penstock.runtime.process.messages import Barrier, EpochHeader
from penstock.runtime.stage_input import StageInput

ORDERS = resolve_type("customer string, amount decimal(10,2), at timestamp")
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def selected(edge_id: int, record_type: TypeInformation, function: Any, upstream: str = "s0") -> EdgePlan:
    """An edge whose key is computed by a function."""
    selector = dumps(CallableKeySelector(function), "key_by")
    return EdgePlan(
        edge_id, StageOutput(upstream, 0), "s9", record_type, "key", key_selector=selector, key_types=(TAGGED,)
    )


def by_column(edge_id: int, record_type: TypeInformation, *columns: str) -> EdgePlan:
    types = tuple(record_type.field(column) for column in columns)
    return EdgePlan(edge_id, StageOutput("s1", 0), "s9", record_type, "key", key_columns=columns, key_types=types)


def stage_of(*edges: EdgePlan, keyed: bool = True) -> StagePlan:
    reader = OperatorPlan(
        "f", "f", "keyed_map", b"", TAGGED, TAGGED, tuple(-1 - index for index in range(len(edges))), keyed=keyed
    )
    return StagePlan("s9", "s9", 2, 8, edges[0].key_types if keyed else None, tuple(edges), (reader,), ())


def through_the_jvm(stage: StagePlan, outputs: Sequence[list[pa.RecordBatch]], subtask: int) -> list[pa.RecordBatch]:
    """What Spark makes of the outputs of the upstream stages for one subtask.

    Rows are not spread over the subtasks here; barriers go to their own.
    """
    schema = pa.schema([(EDGE, pa.int32()), (BARRIER, pa.binary()), (PACKED, pa.binary())])
    tables = []
    for index, batches in enumerate(outputs):
        for batch in batches:
            is_barrier, targets = batch.column(BARRIER).is_valid().to_pylist(), batch.column(TARGET).to_pylist()
            taken = [not barrier or target == subtask for barrier, target in zip(is_barrier, targets, strict=True)]
            edges = pa.array([BARRIER_EDGE if barrier else index for barrier in is_barrier], pa.int32())
            whole = pa.Table.from_arrays([edges, batch.column(BARRIER), batch.column(PACKED)], schema=schema)
            tables.append(whole.filter(pa.array(taken)))
    return list(pa.concat_tables(tables).combine_chunks().to_batches())


def emitted(edge: EdgePlan, *batches: Batch, barrier: Barrier) -> list[pa.RecordBatch]:
    output = PackedOutput(edge, stage_of(edge))
    for batch in batches:
        output.add(batch)
    return list(output.end(barrier))


def barrier_of(edge: EdgePlan, watermark: int = 0) -> Barrier:
    assert isinstance(edge.source, StageOutput)
    name = channel(edge.id, SubtaskId(StageId(edge.source.stage_id), 0))
    return Barrier(3, 7, name, watermark)


def test_two_edges_with_keys_nulls_and_timestamps_come_through_one_exchange() -> None:
    orders = by_column(1, ORDERS, "customer")
    clicks = selected(2, TAGGED, lambda click: click["who"])
    stage = stage_of(orders, clicks)
    rows = [("ada", Decimal("1.50"), NOON), ("bob", None, None), ("ada", Decimal("-2.00"), NOON)]
    things = [{"who": 1, "pages": ["a", None]}, {"who": True, "pages": []}, {"who": 1.0}]
    batches = through_the_jvm(
        stage,
        [
            emitted(orders, Batch(rows[:1], [10]), Batch(rows[1:], [20, 30]), barrier=barrier_of(orders, 30)),
            emitted(clicks, Batch(things, [5, None, 6]), barrier=barrier_of(clicks, 4)),
        ],
        subtask=1,
    )
    items = list(StageInput(stage).items(batches))
    parts = {item.edge: item for item in items if isinstance(item, EdgeBatch)}
    first = parts[0].batch
    assert sorted(zip(first.timestamps or (), first.records, first.keys or (), strict=True)) == [
        (10, rows[0], "ada"),
        (20, rows[1], "bob"),
        (30, rows[2], "ada"),
    ]
    assert isinstance(first.records[0], Row) and first.records[0].customer in ("ada", "bob") and parts[0].rows == 3
    keys = KeyCodec((TAGGED,))
    second = [keys.to_user_key(key) for key in parts[1].batch.keys or ()]
    for key, record, time in zip(second, parts[1].batch.records, parts[1].batch.timestamps or (), strict=True):
        assert repr(record["who"]) == repr(key) and time == {"1": 5, "True": None, "1.0": 6}[repr(key)]
    assert len(set(parts[1].batch.keys or ())) == 3  # 1, True and 1.0 are three keys
    barriers = [item for item in items if isinstance(item, Barrier)]
    header = EpochHeader("job", 1, 3, 1_000, 7)
    assert align(stage, {1: 1, 2: 1}, header, barriers) == {-1: 30, -2: 4}


def test_rows_and_barriers_of_one_batch_may_come_in_any_order() -> None:
    edge = selected(1, TAGGED, lambda record: record)
    (batch,) = through_the_jvm(stage_of(edge), [emitted(edge, Batch(["a", "b"]), barrier=barrier_of(edge))], subtask=0)
    turned = batch.take(pa.array(range(batch.num_rows)[::-1]))
    items = list(StageInput(stage_of(edge)).items([turned]))
    assert [sorted(item.batch.records) for item in items if isinstance(item, EdgeBatch)] == [["a", "b"]]
    assert sum(isinstance(item, Barrier) for item in items) == 1


def test_every_subtask_downstream_gets_its_barrier_even_without_rows() -> None:
    edge = selected(1, TAGGED, lambda record: record)
    output = emitted(edge, barrier=barrier_of(edge))
    for subtask in (0, 1):
        items = list(StageInput(stage_of(edge)).items(through_the_jvm(stage_of(edge), [output], subtask)))
        assert items == [barrier_of(edge)]


def test_a_stage_without_a_key_has_no_keys() -> None:
    edge = EdgePlan(1, StageOutput("s0", 0), "s9", TAGGED, "rebalance")
    stage = stage_of(edge, keyed=False)
    batches = through_the_jvm(stage, [emitted(edge, Batch([(1, None)]), barrier=barrier_of(edge))], subtask=0)
    (part,) = [item for item in StageInput(stage).items(batches) if isinstance(item, EdgeBatch)]
    assert part.batch == Batch([(1, None)])


@pytest.mark.parametrize("key", [None, float("nan")])
def test_a_key_that_is_none_is_refused_where_it_is_made(key: Any) -> None:
    with pytest.raises(InvalidKeyError):
        ArrowOutput(selected(1, TAGGED, lambda record: key), 2).add(Batch(["x"]))


def test_a_value_that_no_codec_takes_is_refused_where_it_is_made() -> None:
    with pytest.raises(UnsupportedValueError, match="output_type"):
        ArrowOutput(selected(1, TAGGED, str), 2).add(Batch([object()]))
    with pytest.raises(UnsupportedValueError):
        ArrowOutput(EdgePlan(1, StageOutput("s0", 0), "s9", Types.LONG(), "forward"), 0).add(Batch(["no number"]))


def source_stage() -> tuple[StagePlan, pa.RecordBatch]:
    """A stage that reads a source with event time, and two of its rows, one without a time."""
    edge = EdgePlan(1, SourceRef(0), "s9", Types.LONG(), "forward", event_time=EventTime("at"))
    arrays = [pa.array([0, 0], pa.int32()), pa.nulls(2, pa.binary()), pa.array([5, None], pa.int64()), pa.array([1, 2])]
    return stage_of(edge, keyed=False), pa.RecordBatch.from_arrays(arrays, [EDGE, BARRIER, TIMESTAMP, "i0_0"])


def test_a_row_without_event_time_is_an_error_or_dropped_and_counted() -> None:
    stage, batch = source_stage()
    with pytest.raises(UnsupportedValueError, match=r"penstock\.event-time\.null"):
        list(StageInput(stage).items([batch]))
    (part,) = StageInput(stage, drop_untimed=True).items([batch])
    assert isinstance(part, EdgeBatch)
    assert (part.batch.records, part.batch.timestamps, part.rows, part.dropped) == ([1], [5], 1, 1)


def test_a_barrier_is_what_its_bytes_say() -> None:
    edge = selected(1, TAGGED, str)
    barrier = barrier_of(edge, watermark=-(2**63))
    (batch,) = emitted(edge, barrier=barrier)
    assert batch.column(BARRIER).to_pylist() == [encode_barrier(barrier)] * 2


def test_c4_broadcast_records_come_into_a_keyed_stage_without_a_key() -> None:
    orders = by_column(1, ORDERS, "customer")
    rules = EdgePlan(2, StageOutput("s2", 0), "s9", resolve_type("name string, limit double"), "broadcast")
    stage = stage_of(orders, rules)
    batches = through_the_jvm(
        stage,
        [
            emitted(orders, Batch([("ada", Decimal("1.50"), NOON)]), barrier=barrier_of(orders)),
            emitted(rules, Batch([("ada", 2.0), ("bob", None)]), barrier=barrier_of(rules)),
        ],
        1,
    )
    items = [item for item in StageInput(stage).items(batches) if isinstance(item, EdgeBatch)]
    assert [(item.edge, item.batch.keys) for item in items] == [(0, ["ada"]), (1, None)]
    assert items[1].batch.records == [("ada", 2.0), ("bob", None)]


def test_output_past_a_limit_is_kept_on_disk_and_read_again_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_output, "HELD_BYTES", 1_000)
    output = ArrowOutput(EdgePlan(1, StageOutput("s0", 0), "s9", Types.LONG(), "forward"), 2, tmp_path)
    for start in range(0, 3_000, 100):
        output.add(Batch(list(range(start, start + 100))))
    kept = output.end(Barrier(1, None, "1:s0/0", 0))
    first, again = list(kept), list(kept)
    assert first == again and len(first) == 31
    assert [row for batch in first for row in batch.column("c0").to_pylist() if row is not None] == list(range(3_000))
    assert first[-1].column("__target").to_pylist() == [0, 1]
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["output"]
    del output, kept, first, again
    assert list(tmp_path.iterdir()) == []
