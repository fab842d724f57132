"""Rows that wait, as they come from Spark: Arrow columns of several inputs, cut anywhere, for any key groups."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.codec.keys import KeyCodec
from penstock.errors import CheckpointError
from penstock.graph.job_graph import StagePlan
from penstock.model.key_groups import key_group_of
from penstock.model.types import TAGGED, resolve_type
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.snapshots.spool import Spool
from penstock.runtime.stage_input import StageInput
from tests.runtime.test_exchange import (
    NOON,
    ORDERS,
    barrier_of,
    by_column,
    emitted,
    selected,
    stage_of,
    through_the_jvm,
)

CUSTOMERS = ["ada", "bob", "cyd", "dan", "eve"]


def arriving() -> tuple[StagePlan, list[EdgeBatch]]:
    """A stage with two keyed inputs, one by a column and one by a function, and its rows."""
    orders, clicks = by_column(1, ORDERS, "customer"), selected(2, TAGGED, lambda click: click["who"])
    stage = stage_of(orders, clicks)
    rows = [(CUSTOMERS[n % 5], None if n % 3 else Decimal(n), NOON if n % 2 else None) for n in range(20)]
    things = [{"who": n % 7, "page": [n]} for n in range(20)]
    batches = through_the_jvm(
        stage,
        [
            emitted(orders, Batch(rows, list(range(20))), barrier=barrier_of(orders)),
            emitted(clicks, Batch(things, [n if n % 2 else None for n in range(20)]), barrier=barrier_of(clicks)),
        ],
        subtask=0,
    )
    return stage, [item for item in StageInput(stage).items(batches) if isinstance(item, EdgeBatch)]


Line = tuple[Any, Any, Any]


def lines(items: list[EdgeBatch], edge: int) -> list[Line]:
    """The rows of one input: record, time, key."""
    found: list[Line] = []
    for item in items:
        if item.edge == edge:
            batch = item.batch
            times = batch.timestamps or [None] * len(batch)
            found += zip(batch.records, times, batch.keys or (), strict=True)
    return found


def taken(spool: Spool, portion: int = 1000) -> list[EdgeBatch]:
    """Everything that waits, in portions."""
    items: list[EdgeBatch] = []

    def take(item: EdgeBatch) -> int:
        items.append(item.slice(0, portion))
        return len(items[-1].batch)

    while spool.rows:
        spool.work_off(take)
    return items


def filled(stage: StagePlan, items: list[EdgeBatch], folder: Path, cut: int) -> Spool:
    """A spool with all rows but the first of each batch."""
    spool = Spool(stage, folder, 1 << 30)
    for item in items:
        spool.add(item.slice(cut, len(item.batch)))
    spool.flush()
    return spool


@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_l5_rows_that_wait_are_the_rows_that_came(portion: int, tmp_path: Path) -> None:
    stage, items = arriving()
    found = taken(filled(stage, items, tmp_path, 3), portion)
    for edge in (0, 1):
        assert lines(found, edge) == lines(items, edge)[3:]
        assert len(lines(found, edge)) == 17


@pytest.mark.parametrize("skip", [0, 5])
def test_l5_rows_go_to_the_key_groups_of_their_keys_in_their_order(skip: int, tmp_path: Path) -> None:
    stage, items = arriving()
    segments = filled(stage, items, tmp_path, 0).seal().segments
    parts = []
    for groups in ((0, 3), (4, 7)):
        spool = Spool(stage, tmp_path, 1 << 30)
        for number, segment in enumerate(segments):
            spool.restore_some(segment.read(), skip if number == 0 else 0, groups, "rows")
        parts.append(taken(spool))
    for edge, key_types in ((0, stage.inputs[0].key_types), (1, stage.inputs[1].key_types)):
        codec = KeyCodec(key_types)
        waiting = lines(items, edge)[skip if edge == items[0].edge else 0 :]
        for part, (first, last) in zip(parts, ((0, 3), (4, 7)), strict=True):
            expected = [line for line in waiting if first <= key_group_of(codec.hash(line[2]), 8) <= last]
            assert lines(part, edge) == expected and expected


def test_l5_rows_are_refused_where_they_would_have_another_key(tmp_path: Path) -> None:
    both = resolve_type("customer string, product string")
    by_customer, by_product = (stage_of(by_column(1, both, column)) for column in ("customer", "product"))
    spool = Spool(by_customer, tmp_path, 1 << 30)
    spool.add(EdgeBatch(0, Batch([("ada", "tea")], None, ["ada"]), 1))
    spool.flush()
    (segment,) = spool.seal().segments
    with pytest.raises(CheckpointError, match="another input"):
        Spool(by_product, tmp_path, 1 << 30).restore(segment.read(), 0, "rows")
