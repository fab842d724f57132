"""How a program publishes keyed state for queries."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import UsageError
from penstock.graph.published_records import PublishedRecords
from penstock.model.functions import AggregateFunction
from penstock.testing import CHECKPOINT, CRASH, Harness


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


DESCRIPTORS = [
    ValueStateDescriptor("v", Types.LONG()),
    ListStateDescriptor("l"),
    MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    ReducingStateDescriptor("r", max, Types.LONG()),
    AggregatingStateDescriptor("a", Count(), Types.LONG()),
]


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.kind)
def test_r1_state_of_every_kind_is_published_under_a_name(descriptor: StateDescriptor) -> None:
    assert not descriptor.is_queryable() and descriptor.get_queryable_state_name() is None
    descriptor.set_queryable("public")
    assert descriptor.is_queryable() and descriptor.get_queryable_state_name() == "public"
    with pytest.raises(UsageError, match="queryable as 'public' already"):
        descriptor.set_queryable("other")


def test_pickled_state_and_bad_names_are_refused() -> None:
    with pytest.raises(UsageError, match="stored as pickles"):
        ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()).set_queryable("v")
    with pytest.raises(UsageError, match="it is empty"):
        ValueStateDescriptor("v", Types.LONG()).set_queryable("")


def test_r1_the_last_record_of_each_key_is_published() -> None:
    descriptor = ValueStateDescriptor("last", Types.TUPLE([Types.STRING(), Types.LONG()]))
    harness = Harness.keyed(PublishedRecords(descriptor), key=lambda record: record[0])
    harness.feed([("ada", 1), ("bob", 2), CHECKPOINT, ("ada", 3), CRASH])
    assert harness.state("last", "ada") == ("ada", 3) and harness.state("last", "bob") == ("bob", 2)
    assert harness.output == []


def test_r1_all_records_of_a_key_are_published_as_one() -> None:
    descriptor = ReducingStateDescriptor("sum", lambda a, b: (a[0], a[1] + b[1]))
    harness = Harness.keyed(PublishedRecords(descriptor), key=lambda record: record[0])
    harness.feed([("ada", 1), ("bob", 2), ("ada", 3)])
    assert harness.state("sum", "ada") == ("ada", 4)
