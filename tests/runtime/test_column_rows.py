"""Rows stay Arrow columns from one stage to the next where operators on columns read and emit them."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.connectors.discard import DiscardingSink
from penstock.errors import InvalidKeyError
from penstock.graph.job_graph import KEYED_BATCH, EdgePlan, OperatorPlan, StageOutput, StagePlan
from penstock.graph.pickling import dumps
from penstock.graph.stream_graph import SinkSpec
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import SinkContext, SinkWriter
from penstock.model.types import resolve_type
from penstock.runtime.exchange_rows import ArrowOutput
from penstock.runtime.operators.batch import Batch, ColumnRows, EdgeBatch
from penstock.runtime.operators.sink_operators import Collected, Transactions, decode_records, write_batch
from penstock.runtime.process.messages import Barrier
from penstock.runtime.snapshots.spool import Spool
from penstock.runtime.stage_input import StageInput
from tests.runtime.test_exchange import NOON, ORDERS, barrier_of, by_column, emitted, stage_of, through_the_jvm

ROWS = [("ada", Decimal("1.50"), NOON), ("bob", None, None), ("ada", Decimal("-2.00"), NOON)]


def column_stage(*edges: EdgePlan) -> StagePlan:
    """A stage whose operator reads columns."""
    stage = stage_of(*edges)
    return replace(stage, operators=(replace(stage.operators[0], kind=KEYED_BATCH),))


def received(edge: EdgePlan, *batches: Batch) -> list[Batch]:
    """What an operator on columns gets of batches that were sent on the edge."""
    stage = column_stage(edge)
    arrived = through_the_jvm(stage, [emitted(edge, *batches, barrier=barrier_of(edge))], subtask=0)
    return [item.batch for item in StageInput(stage).items(arrived) if isinstance(item, EdgeBatch)]


@pytest.fixture
def no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of columns are never made."""

    def refuse(self: ColumnRows) -> Any:
        raise AssertionError("rows were decoded")

    monkeypatch.setattr(ColumnRows, "records", refuse)
    monkeypatch.setattr(ColumnRows, "state_keys", refuse)


def test_columns_go_through_an_exchange_without_python_objects(no_records: None) -> None:
    edge = by_column(1, ORDERS, "customer")
    (batch,) = received(edge, Batch(ROWS, [10, 20, 30]))
    assert batch.columns is not None and len(batch) == 3 and batch.has_keys and batch.newest_timestamp() == 30
    assert batch.columns.rows.schema.names == ["customer", "amount", "at"]
    (again,) = received(edge, batch.slice(0, 2), batch.slice(2, 5))
    assert again.columns is not None and again.columns.rows.equals(batch.columns.rows)
    assert again.timestamps == batch.timestamps


def test_columns_become_records_for_those_who_ask() -> None:
    edge = by_column(1, ORDERS, "customer", "at")
    rows = [row for row in ROWS if row[2] is not None]
    (batch,) = received(edge, Batch(rows))
    assert batch == Batch(rows, None, [("ada", NOON)] * 2)
    other = Batch([])
    other.extend(batch)
    assert other.records == rows and len(other) == 2 and other.columns is None


def test_records_of_another_type_are_encoded_again() -> None:
    edge = EdgePlan(1, StageOutput("s1", 0), "s9", resolve_type("n bigint"), "key", ("n",), None, (Types.LONG(),))
    columns = ColumnRows(pa.record_batch({"n": pa.array([1, 2], pa.int32())}), resolve_type("n int"))
    (batch,) = received(edge, Batch.of_columns(columns))
    assert batch.columns is not None and batch.columns.rows.schema.field("n").type == pa.int64()


@pytest.mark.parametrize(
    ("record_type", "rows", "message"),
    [
        ("k string, n bigint", [("a", 1), (None, 2)], "Assigned key must not be null"),
        ("k double, n bigint", [(1.0, 1), (float("nan"), 2)], "NaN cannot be a key"),
    ],
)
def test_keys_that_are_null_or_nan_are_refused_with_their_record(record_type: str, rows: Any, message: str) -> None:
    edge = replace(by_column(1, resolve_type(record_type), "k"), created="program.py:1")
    errors = []
    for stage in (column_stage(edge), stage_of(edge)):
        arrived = through_the_jvm(
            stage, [emitted(replace(edge, partitioning="global"), Batch(rows), barrier=barrier_of(edge))], 0
        )
        with pytest.raises(InvalidKeyError, match=message) as caught:
            list(StageInput(stage).items(arrived))
        errors.append(str(caught.value))
    assert errors[0] == errors[1] and "n=2" in errors[0]


class Columns(SinkWriter):
    """A writer that takes columns and no records."""

    def __init__(self) -> None:
        self.tables: list[pa.RecordBatch] = []

    def begin_epoch(self) -> None: ...

    def write(self, records: Any) -> None:
        raise AssertionError("records were written")

    def write_columns(self, rows: pa.RecordBatch) -> None:
        self.tables.append(rows)

    def roll_back(self) -> None: ...

    def pre_commit(self) -> list[Any]:
        return []

    def close(self) -> None: ...


class ColumnSink(DiscardingSink):
    def open(self, context: SinkContext) -> SinkWriter:
        return Columns()


def test_columns_go_to_spark_to_the_driver_and_to_sinks_that_take_them(no_records: None) -> None:
    record_type = resolve_type("name string, n bigint")
    rows = pa.record_batch({"name": ["a", None], "n": pa.array([1, 2])})
    batch = Batch.of_columns(ColumnRows(rows, record_type, pa.array([10, 20])))
    edge = EdgePlan(1, StageOutput("s0", 0), "spark", record_type, "forward")
    output = ArrowOutput(edge, 0)
    output.add(batch)
    (sent,) = output.end(Barrier(1, None, "", 0))
    assert sent.select(["__ts", "c0", "c1"]).to_pylist() == [
        {"__ts": 10, "c0": "a", "c1": 1},
        {"__ts": 20, "c0": None, "c1": 2},
    ]
    plan = OperatorPlan("out", "out", "sink", b"", record_type, record_type, (0,), keyed=False)
    collected = Collected(plan)
    write_batch(collected, batch)
    assert decode_records(collected.payloads[0], record_type) == [("a", 1), (None, 2)]
    spec = SinkSpec("sink", ColumnSink())
    context = SinkContext("job", 1, "out", SubtaskId(StageId("s0"), 0), record_type)
    sink = Transactions(replace(plan, function=dumps(spec, "out")), context)
    write_batch(sink, batch)
    assert sink._writer.tables == [rows]  # type: ignore[attr-defined]


def test_columns_wait_in_the_spool(tmp_path: Path, no_records: None) -> None:
    edge = by_column(1, ORDERS, "customer")
    stage = column_stage(edge)
    arrived = through_the_jvm(stage, [emitted(edge, Batch(ROWS, [10, 20, 30]), barrier=barrier_of(edge))], subtask=0)
    (item,) = [item for item in StageInput(stage).items(arrived) if isinstance(item, EdgeBatch)]
    spool = Spool(stage, tmp_path, 1 << 20)
    spool.begin_epoch()
    spool.add(item.slice(1, 3))
    taken: list[EdgeBatch] = []

    def take(part: EdgeBatch) -> int:
        taken.append(part)
        return len(part.batch)

    spool.work_off(take)
    assert [part.batch.columns is not None and part.batch.columns.rows.num_rows for part in taken] == [2]
