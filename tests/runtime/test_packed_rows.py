"""Packed rows: which subtask gets a row, in which order, and how large cells and batches become."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.errors import RpcError
from penstock.graph.callables import CallableKeySelector, CallablePartitioner
from penstock.graph.job_graph import EdgePlan, OperatorPlan, SourceRef, StageOutput, StagePlan
from penstock.graph.pickling import dumps
from penstock.graph.stream_graph import CustomPartition
from penstock.model.ids import StageId
from penstock.model.key_groups import key_group_of, spark_hash, subtask_of
from penstock.model.types import TAGGED, TypeInformation, resolve_type
from penstock.runtime import packed_rows
from penstock.runtime.exchange_rows import BARRIER, PACKED, TARGET
from penstock.runtime.operators.batch import Batch
from penstock.runtime.packed_rows import PackedInput, PackedOutput, is_packed
from penstock.runtime.process.messages import Barrier

CLICKS = resolve_type("user string, n bigint")
END = Barrier(1, None, "1:s0/0", 0)


def edge_of(partitioning: Any, record_type: TypeInformation = CLICKS, **more: Any) -> EdgePlan:
    return EdgePlan(1, StageOutput("s0", 0), "s9", record_type, partitioning, **more)


def reader_of(edge: EdgePlan, parallelism: int, max_parallelism: int = 128) -> StagePlan:
    operator = OperatorPlan("f", "f", "map", b"", TAGGED, TAGGED, (-1,), keyed=False)
    return StagePlan(StageId("s9"), "s9", parallelism, max_parallelism, None, (edge,), (operator,), ())


def packed(edge: EdgePlan, parallelism: int, batches: Iterable[Batch], max_parallelism: int = 128) -> list[Any]:
    """(target, bytes) of the cells, after a check of the barriers behind them."""
    output = PackedOutput(edge, reader_of(edge, parallelism, max_parallelism))
    for batch in batches:
        output.add(batch)
    *cells, barriers = output.end(END)
    assert barriers.column(TARGET).to_pylist() == list(range(parallelism))
    assert barriers.column(BARRIER).null_count == 0 and barriers.column(PACKED).null_count == parallelism
    return [
        (target, cell)
        for batch in cells
        for target, cell in zip(batch.column(TARGET).to_pylist(), batch.column(PACKED).to_pylist(), strict=True)
    ]


def rows_of(edge: EdgePlan, cells: Iterable[bytes], batch_rows: int = 10_000) -> list[tuple[Any, ...]]:
    return [
        row
        for batch in PackedInput(0, edge, batch_rows).rows(cells)
        for row in zip(*[column.to_pylist() for column in batch.columns], strict=True)
    ]


def clicks(count: int, seed: int = 1) -> list[tuple[str | None, int]]:
    chance = Random(seed)
    return [("".join(chance.choices("abcdefé€", k=chance.randrange(12))), n) for n in range(count)]


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(1, 128), (2, 128), (3, 7), (7, 32_768), (128, 128)])
def test_keyed_rows_go_where_spark_s_hash_sends_them_and_keep_their_order(
    parallelism: int, max_parallelism: int
) -> None:
    edge = edge_of("key", key_columns=("user",), key_types=(Types.STRING(),))
    records = clicks(2_000)
    batches = [
        Batch(records[start : start + 700], list(range(start, min(2_000, start + 700)))) for start in (0, 700, 1400)
    ]
    seen = []
    for target, cell in packed(edge, parallelism, batches, max_parallelism):
        rows = rows_of(edge, [cell])
        assert [row[2] for row in rows] == sorted(row[2] for row in rows)
        for time, user, n in rows:
            assert time == n
            group = key_group_of(spark_hash((user,), (Types.STRING(),)), max_parallelism)
            assert subtask_of(group, max_parallelism, parallelism) == target
        seen += [(row[1], row[2]) for row in rows]
    assert sorted(seen, key=lambda row: row[1]) == records


def test_the_key_of_a_function_travels_with_the_row_and_places_it() -> None:
    selector = dumps(CallableKeySelector(lambda record: record["who"]), "key_by")
    edge = edge_of("key", TAGGED, key_selector=selector, key_types=(Types.LONG(),))
    records = [{"who": n * 7_919, "n": n} for n in range(300)]
    for target, cell in packed(edge, 4, [Batch(records)]):
        for _, _, key in rows_of(edge, [cell]):
            assert subtask_of(key_group_of(spark_hash((key,), (Types.LONG(),)), 128), 128, 4) == target


def test_a_null_in_a_key_column_is_sent_on_to_where_it_is_refused() -> None:
    edge = edge_of("key", key_columns=("user",), key_types=(Types.STRING(),))
    assert sum(len(rows_of(edge, [cell])) for _, cell in packed(edge, 3, [Batch([(None, 1), ("a", 2)])])) == 2


def test_rows_without_a_key_are_spread_evenly() -> None:
    edge = edge_of("rebalance")
    counts = Counter[int]()
    for target, cell in packed(edge, 3, [Batch(clicks(5)), Batch(clicks(4))]):
        counts[target] += len(rows_of(edge, [cell]))
    assert counts == {0: 3, 1: 3, 2: 3}


def test_a_partitioner_of_the_program_chooses_the_target() -> None:
    payload = CustomPartition(CallablePartitioner(lambda key, count: key % count), CallableKeySelector(lambda r: r[1]))
    partitioner = dumps(payload, "partition_custom")
    edge = edge_of("custom", partitioner=partitioner)
    for target, cell in packed(edge, 4, [Batch(clicks(50)), Batch(clicks(30))]):
        assert {row[2] % 4 for row in rows_of(edge, [cell])} == {target}


@pytest.mark.parametrize(("partitioning", "target"), [("global", 0), ("broadcast", None), ("forward", None)])
def test_rows_that_stay_together_are_not_split(partitioning: str, target: int | None) -> None:
    edge = edge_of(partitioning)
    ((found, cell),) = packed(edge, 3, [Batch(clicks(5)), Batch(clicks(4))])
    assert found == target and [row[2] for row in rows_of(edge, [cell])] == [0, 1, 2, 3, 4, 0, 1, 2, 3]


def test_a_large_cell_is_divided_but_never_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_rows, "CELL_BYTES", 1_000)
    edge = edge_of("global")
    records = [("x" * 300 if n != 5 else "y" * 5_000, n) for n in range(20)]
    cells = packed(edge, 2, [Batch(records)])
    sizes = [len(cell) for _, cell in cells]
    assert len(cells) > 7 and sum(size > 4_000 for size in sizes) == 1
    assert [(row[1], row[2]) for row in rows_of(edge, [cell for _, cell in cells])] == records


def test_batches_have_at_most_the_rows_of_the_option_and_small_cells_are_put_together() -> None:
    edge = edge_of("global")
    cells = [cell for count in (1, 2, 25, 3) for _, cell in packed(edge, 1, [Batch(clicks(count))])]
    batches = list(PackedInput(0, edge, 10).rows(cells))
    assert [batch.num_rows for batch in batches] == [3, 10, 10, 8]
    assert [n for batch in batches for n in batch.column("i0_1").to_pylist()] == [0, 0, 1, *range(25), 0, 1, 2]


def test_a_cell_that_is_not_rows_is_refused() -> None:
    with pytest.raises(RpcError, match="unreadable rows"):
        rows_of(edge_of("global"), [b"nonsense"])


def test_rows_of_batch_mode_are_not_packed() -> None:
    edge = edge_of("key", key_columns=("user",), key_types=(Types.STRING(),))
    stage = reader_of(edge, 2)
    assert is_packed(edge, stage)
    batch = StagePlan(stage.id, stage.name, 2, 8, None, (edge,), (), (), batch=True)
    assert not is_packed(edge, batch)


def test_a_source_that_says_so_is_packed_and_its_rows_have_a_time_only_where_the_stage_has() -> None:
    edge = EdgePlan(1, SourceRef(0), "s9", CLICKS, "rebalance", packed=True)
    assert is_packed(edge, reader_of(edge, 2)) and not is_packed(replace(edge, packed=False), reader_of(edge, 2))
    (_, cell), *_ = packed(edge, 1, [Batch(clicks(5))])
    (timed,), (untimed,) = (PackedInput(0, edge, 10, timed=flag).rows([cell]) for flag in (True, False))
    assert timed.schema.names == ["__ts", "i0_0", "i0_1"] and untimed.schema.names == ["i0_0", "i0_1"]
    assert untimed.equals(timed.drop_columns(["__ts"]))


def test_every_arrow_type_of_a_record_comes_back_as_it_was() -> None:
    ddl = "a decimal(30,4), b array<map<string,date>>, c struct<x:timestamp,y:timestamp_ntz>, d binary, e float"
    edge = edge_of("global", resolve_type(ddl))
    (batch,) = PackedInput(0, edge, 10).rows([cell for _, cell in packed(edge, 1, [Batch([(None,) * 5])])])
    assert [field.type for field in batch.schema] == [pa.int64(), *(kind.arrow for kind in resolve_type(ddl).children)]
