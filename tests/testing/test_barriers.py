"""Barriers divide the records into those before a checkpoint and those after it (L2), and bounded input ends (K13)."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.memory_sink import MemorySink


class Sum(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        yield value


@pytest.mark.parametrize("parallelism", [1, 3])
def test_l2_records_before_the_barrier_are_in_the_checkpoint_and_those_after_it_are_not(parallelism: int) -> None:
    storage = MemoryStorage()
    settings: dict[str, Any] = {"key": lambda row: row[0], "parallelism": parallelism, "storage": storage}
    first = Harness.keyed(Sum(), **settings)
    first.feed([("a", 1), ("b", 2), ("a", 3), CHECKPOINT, ("a", 100), ("b", 200), ("c", 300)])
    assert [first.state("total", key) for key in "abc"] == [104, 202, 300]
    other = Harness.keyed(Sum(), **settings)  # takes the job over, without the records behind the checkpoint
    assert [other.state("total", key) for key in "abc"] == [4, 2, None]


def test_k13_the_last_checkpoint_of_bounded_input_commits_all_output() -> None:
    sink = MemorySink()
    job = Harness.keyed(Sum(), key=lambda row: row[0], sink=sink, parallelism=2)
    job.feed([("a", 1), CHECKPOINT, ("b", 2), ("c", 3)])
    assert len(sink.rows) == 1
    job.finish()
    assert sorted(map(tuple, sink.rows)) == [("a", 1), ("b", 2), ("c", 3)]
    assert job.manifest is not None and job.manifest.final
