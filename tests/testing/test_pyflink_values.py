"""Values that PyFlink programs use, as keys and in state of both backends."""

from collections.abc import Iterable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.types import resolve_type
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, CRASH, Harness

NAIVE, AWARE = datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, tzinfo=timezone.utc)


class Seen(KeyedProcessFunction):
    """Keeps naive timestamps as values and as map keys."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.SQL_TIMESTAMP()))
        self.all = runtime_context.get_map_state(MapStateDescriptor("all", Types.SQL_TIMESTAMP(), Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        before = self.last.value()
        self.last.update(NAIVE)
        self.all.put(NAIVE, (self.all.get(NAIVE) or 0) + 1)
        yield ctx.get_current_key(), before, list(self.all.items())


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_naive_sql_timestamps_are_utc_as_key_and_state(backend: str) -> None:
    harness = Harness.keyed(Seen(), key=lambda value: value, key_type=Types.SQL_TIMESTAMP(), backend=backend)
    harness.feed([NAIVE, CHECKPOINT, AWARE, CRASH, NAIVE])
    assert harness.output == [
        (AWARE, None, [(AWARE, 1)]),
        (AWARE, AWARE, [(AWARE, 2)]),
        (AWARE, AWARE, [(AWARE, 3)]),
    ]


class Sum(KeyedProcessFunction):
    """Adds decimals, in a value and in a map from decimals."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.TYPE()))
        self.by_price = runtime_context.get_map_state(MapStateDescriptor("by price", self.TYPE(), Types.INT()))

    TYPE = staticmethod(Types.BIG_DEC)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total = (self.total.value() or 0) + value
        self.total.update(total)
        self.by_price.put(value, (self.by_price.get(value) or 0) + 1)
        yield str(self.total.value()), list(self.by_price.items())


class SumOfFixed(Sum):
    """The same as it was saved before BIG_DEC kept the scale."""

    TYPE = staticmethod(lambda: resolve_type("decimal(38,18)"))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_big_decimals_keep_their_scale_and_equal_ones_are_one_key(backend: str) -> None:
    harness = Harness.keyed(Sum(), key=lambda value: value % 1, key_type=Types.BIG_DEC(), backend=backend)
    harness.feed([Decimal("1.50"), CHECKPOINT, Decimal("1.5"), CRASH, Decimal("1.500")])
    assert [total for total, _ in harness.output] == ["1.50", "3.00", "4.500"]
    assert [counts for _, counts in harness.output] == [[(Decimal("1.5"), n)] for n in (1, 2, 3)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("format_type", ["canonical", "native"])
def test_state_that_was_saved_with_18_digits_is_restored(backend: str, format_type: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"key": lambda value: value % 1, "key_type": Types.BIG_DEC(), "backend": backend}
    first = Harness.keyed(SumOfFixed(), storage=LocalStorage(tmp_path / "first"), **settings)
    first.feed([Decimal("1.50"), CHECKPOINT])
    path = first.savepoint(tmp_path / "savepoints", format=format_type)
    second = Harness.keyed(Sum(), storage=LocalStorage(tmp_path / "second"), start=StartOptions(path=path), **settings)
    second.feed([Decimal("1.5"), CHECKPOINT])
    assert second.output == [("3.000000000000000000", [(Decimal("1.5"), 2)])]
