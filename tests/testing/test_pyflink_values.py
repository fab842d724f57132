"""Values that PyFlink programs use, as keys and in state of both backends."""

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
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
