"""Side outputs and operators with two inputs on real Spark."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, OutputTag
from penstock.datastream.state import ValueStateDescriptor
from tests.spark.jobs import Jobs, collect

ODD = OutputTag("odd", "name string, count bigint")


class Counts(KeyedProcessFunction):
    """Numbers the records of a key; odd numbers go aside."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield (ODD, (value, count)) if count % 2 else (value, count)


@pytest.mark.parametrize("aside", [True, False])
def test_tagged_records_reach_the_stream_of_their_tag_and_no_other(jobs: Jobs, aside: bool) -> None:
    env = jobs.environment(3)
    records = env.from_collection([f"k{n % 4}" for n in range(40)], Types.STRING())
    main = records.key_by(lambda name: name, Types.STRING()).process(Counts(), "name string, count bigint")
    side = main.get_side_output(ODD)
    chosen = side.map(lambda row: (row.name, row.count), "name string, count bigint").rebalance() if aside else main
    found = collect(chosen.map(tuple))
    assert found == Counter((f"k{k}", n) for k in range(4) for n in range(1, 11) if n % 2 == aside)
