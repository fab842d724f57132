"""The order of rows in batch mode, in memory and merged from files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Types
from penstock.graph.job_graph import EdgePlan, Partitioning, StageOutput, StagePlan
from penstock.graph.pickling import dumps
from penstock.model.functions import KeySelector
from penstock.model.types import TypeInformation
from penstock.runtime import sorted_rows
from penstock.runtime.sorted_rows import RowOrder, SortedRows

RECORD = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])


class FirstField(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


def edge(index: int, partitioning: Partitioning = "key", selector: TypeInformation | None = None) -> EdgePlan:
    source = StageOutput("s0", index)
    if partitioning == "broadcast":
        return EdgePlan(index, source, "s1", RECORD, "broadcast")
    if selector is not None:
        chosen = dumps(FirstField(), "key_by")
        return EdgePlan(index, source, "s1", RECORD, partitioning, key_selector=chosen, key_types=(selector,))
    return EdgePlan(index, source, "s1", RECORD, partitioning, key_columns=("key",), key_types=(Types.STRING(),))


def stage(*edges: EdgePlan, keyed: bool = True) -> StagePlan:
    key_types = (Types.STRING(),) if keyed else None
    return StagePlan("s1", "s1", 1, 8, key_types, edges, (), (), batch=True)


Row = tuple[int, str, int | None, int]
"""Edge, key, time, and the number by which a row is known."""


def batches(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    def batch(part: list[Row]) -> pa.RecordBatch:
        columns: dict[str, Any] = {
            "__edge": pa.array([row[0] for row in part], pa.int32()),
            "__ts": pa.array([row[2] for row in part], pa.int64()),
        }
        for index in (0, 1):
            own = [row[0] == index for row in part]
            columns[f"i{index}_0"] = pa.array([row[1] if o else None for o, row in zip(own, part, strict=True)])
            columns[f"i{index}_0"] = columns[f"i{index}_0"].cast(pa.string())
            columns[f"i{index}_1"] = pa.array([row[3] if o else None for o, row in zip(own, part, strict=True)])
            columns[f"i{index}_1"] = columns[f"i{index}_1"].cast(pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    return [batch(rows[start : start + size]) for start in range(0, len(rows), size)]


def numbers(found: list[pa.RecordBatch]) -> list[int]:
    out = []
    for batch in found:
        for row in batch.to_pylist():
            if row["__edge"] >= 0:
                out.append(row[f"i{row['__edge']}_1"])
    return out


def expected(rows: list[Row], broadcast: frozenset[int] = frozenset()) -> list[int]:
    def order(row: Row) -> Any:
        if row[0] in broadcast:
            return (0,)
        return 1, row[1], 9 if row[2] is None else row[2]

    return [row[3] for row in sorted((row for row in rows if row[0] >= 0), key=order)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "BLOCK_ROWS", 3)


TIMES = st.none() | st.integers(0, 5)
ROWS = st.lists(st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from("abcd"), TIMES), max_size=60)


@given(ROWS, st.integers(1, 9), st.sampled_from([1, 300, 10**9]))
def test_w5_rows_of_all_inputs_are_sorted_by_key_and_time_and_equal_ones_keep_their_order(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, str, int | None]], size: int, run_bytes: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "runs"
    rows = [(*row, number) for number, row in enumerate(drawn)]
    found = SortedRows(RowOrder(stage(edge(0), edge(1))), folder, run_bytes).sort(batches(rows, size))
    assert numbers(list(found)) == expected(rows)
    assert not folder.exists() or list(folder.iterdir()) == []


@given(ROWS, st.integers(1, 9), st.sampled_from([1, 10**9]))
def test_w5_rows_of_a_broadcast_input_come_first(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, str, int | None]], size: int, run_bytes: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "runs"
    rows = [(*row, number) for number, row in enumerate(drawn)]
    order = RowOrder(stage(edge(0), edge(1, "broadcast")))
    found = SortedRows(order, folder, run_bytes).sort(batches(rows, size))
    assert numbers(list(found)) == expected(rows, frozenset([1]))


def test_w5_rows_of_a_stage_without_a_key_are_left_alone(tmp_path: Path) -> None:
    order = RowOrder(stage(edge(0, "forward"), keyed=False))
    given_batches = batches([(0, "b", 1, 0), (0, "a", 0, 1)], 1)
    found = list(SortedRows(order, tmp_path).sort(given_batches))
    assert all(one is other for one, other in zip(found, given_batches, strict=True))


def test_w5_an_input_without_a_key_comes_before_one_with_a_key(tmp_path: Path) -> None:
    order = RowOrder(stage(edge(0), edge(1, "forward"), keyed=False))
    rows: list[Row] = [(0, "b", 1, 0), (1, "x", 9, 1), (0, "a", 0, 2), (1, "w", 0, 3)]
    assert numbers(list(SortedRows(order, tmp_path, 1).sort(batches(rows, 1)))) == [1, 3, 0, 2]


def test_w5_streaming_does_not_sort() -> None:
    streaming = StagePlan("s1", "s1", 1, 8, (Types.STRING(),), (edge(0),), (), ())
    assert not RowOrder(streaming).is_needed


def test_w5_keys_that_are_rows_are_sorted_by_their_fields(tmp_path: Path) -> None:
    pair = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    plan = StagePlan("s1", "s1", 1, 8, (pair,), (edge(0, selector=pair),), (), (), batch=True)
    keys = [(2, "x"), (1, "y"), (2, "a"), (1, "y")]
    batch = pa.RecordBatch.from_pydict(
        {
            "__edge": pa.array([0] * 4, pa.int32()),
            "i0_1": pa.array(range(4), pa.int64()),
            "k0_0": pa.array([{"a": a, "b": b} for a, b in keys]),
        }
    )
    for run_bytes in (1, 10**9):
        found = SortedRows(RowOrder(plan), tmp_path, run_bytes).sort([batch.slice(0, 2), batch.slice(2, 2)])
        assert numbers(list(found)) == [1, 3, 2, 0]


def test_a_key_that_is_no_number_does_not_stop_the_merge(tmp_path: Path) -> None:
    """It is refused later, with its record."""
    by_number = edge(0, selector=Types.DOUBLE())
    keys = [2.0, float("nan"), 1.0, float("nan")]
    rows = [pa.RecordBatch.from_pydict({"__edge": pa.array([0], pa.int32()), "k0_0": pa.array([key])}) for key in keys]
    found = list(SortedRows(RowOrder(stage(by_number)), tmp_path, run_bytes=1).sort(rows))
    merged = [key for batch in found for key in batch.column("k0_0").to_pylist()]
    assert merged[:2] == [1.0, 2.0] and len(merged) == 4
