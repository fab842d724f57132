"""Side outputs, operators with two inputs and partitioning on real Spark."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import CoMapFunction, KeyedCoProcessFunction, KeyedProcessFunction, MapFunction, OutputTag
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


class Balance(KeyedCoProcessFunction):
    """Deposits come in on the first stream, withdrawals on the second; at the end each key says what is left."""

    def open(self, runtime_context: Any) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.balance.update((self.balance.value() or 0) + value.amount)
        ctx.timer_service().register_event_time_timer(1)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.balance.update((self.balance.value() or 0) - value[0])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.balance.value()


def test_b13_two_keyed_streams_share_the_state_of_a_key(jobs: Jobs) -> None:
    env = jobs.environment(3, {"penstock.epoch.max-rows": "20"})
    deposits = env.from_collection([(f"k{n % 7}", n) for n in range(70)], "name string, amount bigint")
    payments = env.from_collection([(n, f"k{n % 7}") for n in range(35)])
    keyed = deposits.key_by("name").connect(payments.key_by(lambda payment: payment[1], Types.STRING()))
    found = collect(keyed.process(Balance(), "name string, balance bigint").map(tuple))
    assert found == Counter((f"k{k}", sum(range(k, 70, 7)) - sum(range(k, 35, 7))) for k in range(7))


class Signs(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int | None:
        return -value if value % 2 else None


def test_streams_without_a_key_and_a_stream_with_itself_are_connected(jobs: Jobs) -> None:
    env = jobs.environment(3)
    numbers = env.from_collection(list(range(20)), Types.LONG()).map(lambda n: n, Types.LONG())
    by_key = env.from_collection(list(range(100, 110)), Types.LONG()).key_by(lambda n: n % 3, Types.LONG())
    signed = numbers.connect(numbers).map(Signs(), Types.LONG())
    found = collect(signed.connect(by_key).map(Signs(), Types.LONG()))
    assert found == Counter([*range(20), *range(-19, 0, 2), *range(-109, -100, 2)])


class Where(MapFunction):
    """Each record with the index of its subtask."""

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return self.index, value


def test_records_reach_the_subtask_that_the_program_chooses(jobs: Jobs) -> None:
    env = jobs.environment(3)
    numbers = env.from_collection(list(range(30)), Types.LONG())
    custom = numbers.partition_custom(lambda key, count: key % count, lambda n: n // 10).map(Where())
    first = custom.global_().map(Where())
    assert collect(first) == Counter((0, (n // 10 % 3, n)) for n in range(30))
