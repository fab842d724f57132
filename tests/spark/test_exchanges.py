"""Sources, exchanges and branches: which records meet, and that none is lost or doubled on the way."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from tests.spark.jobs import Jobs, collect, read_json


class Count(KeyedProcessFunction):
    """For each record its key as text, and how many the key has had."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield repr(ctx.get_current_key()), count


class Sum(KeyedProcessFunction):
    """For each record its key and the sum of the amounts so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.sum.value() or 0) + value.cents
        self.sum.update(total)
        yield ctx.get_current_key(), total


def running(amounts: list[tuple[Any, int]]) -> "Counter[tuple[Any, int]]":
    totals: dict[Any, int] = {}
    rows = []
    for key, amount in amounts:
        totals[key] = totals.get(key, 0) + amount
        rows.append((key, totals[key]))
    return Counter(rows)


@pytest.mark.smoke
def test_two_sources_of_different_schemas_are_read_by_one_query(jobs: Jobs) -> None:
    env = jobs.environment(settings={"penstock.epoch.max-rows": "7"})
    orders = [(f"c{n % 5}", n) for n in range(20)]
    refunds = [(n, f"c{n % 3}", "late") for n in range(10)]
    left = env.from_collection(orders, "customer string, cents bigint")
    right = env.from_collection(refunds, "cents bigint, who string, why string").map(
        lambda refund: (refund.who, -refund.cents), "customer string, cents bigint"
    )
    totals = collect(left.union(right).key_by("customer").process(Sum(), output_type="customer string, cents bigint"))
    assert totals.total() == 30
    last = Counter(dict.fromkeys((f"c{n}" for n in range(5)), 0))
    for customer, cents in [*orders, *((who, -cents) for cents, who, _ in refunds)]:
        last[customer] += cents
    assert all((customer, cents) in totals for customer, cents in last.items())


def test_a_second_exchange_by_a_function_brings_other_records_together(jobs: Jobs) -> None:
    env = jobs.environment(settings={"penstock.epoch.max-rows": "16"})
    clicks = [(f"user-{n % 9}", n) for n in range(45)]
    counted = (
        env.from_collection(clicks, "user string, cents bigint")
        .key_by("user")
        .process(Count(), output_type="user string, cents bigint")
        .uid("per-user")
    )
    by_nth = counted.key_by(lambda row: row.cents, Types.LONG())
    users = by_nth.process(Count(), output_type="nth string, users bigint").uid("per-nth")
    assert collect(users) == Counter((str(nth), count) for nth in range(1, 6) for count in range(1, 10))


def test_untyped_keys_are_equal_only_if_value_and_type_are(jobs: Jobs) -> None:
    keys = [1, True, 1.0, "1", (1, "a"), ("a", 1), b"1", -0.0, 0.0, 0, False, 2**70]
    env = jobs.environment()
    counts = collect(env.from_collection(keys * 2).key_by(lambda key: key).process(Count()).uid("count"))
    # -0.0 and 0.0 are one key; all others are keys of their own, int 1 and True and 1.0 too.
    zero = next(text for text, count in counts if count == 4)
    assert zero in ("0.0", "-0.0")
    expected = Counter((repr(key), count) for key in keys if repr(key) not in ("0.0", "-0.0") for count in (1, 2))
    assert counts == expected + Counter((zero, count) for count in (1, 2, 3, 4))


def test_a_keyed_stage_feeds_two_others_and_each_gets_every_record_once(jobs: Jobs) -> None:
    """Two terminal stages of different width are united: there Spark numbers the second one's tasks from 2 on."""
    env = jobs.environment(settings={"penstock.epoch.max-rows": "25"})
    events = [(f"k{n % 6}", n) for n in range(60)]
    first = (
        env.from_collection(events, "key string, cents bigint")
        .key_by("key")
        .process(Sum(), output_type="key string, cents bigint")
        .uid("first")
    )
    sums = running(events)
    by_key = first.key_by("key").process(Count(), output_type="key string, count bigint").uid("by-key")
    by_key.sink_to(FileSink.for_row_format(jobs.folder / "by-key", "json").build()).uid("by-key-files")
    by_parity = first.key_by(lambda row: row.cents % 2 == 0).process(Count(), output_type="key string, count bigint")
    by_parity.uid("by-parity").set_parallelism(3)
    sink = by_parity.sink_to(FileSink.for_row_format(jobs.folder / "by-parity", "json").build())
    sink.uid("by-parity-files").set_parallelism(3)
    env.execute("branches")
    found = Counter((row["key"], row["count"]) for row in read_json(jobs.folder / "by-key"))
    assert found == Counter((repr(f"k{n}"), count) for n in range(6) for count in range(1, 11))
    parities = Counter(repr(cents % 2 == 0) for _, cents in sums.elements())
    expected = Counter((parity, count) for parity, total in parities.items() for count in range(1, total + 1))
    assert Counter((row["key"], row["count"]) for row in read_json(jobs.folder / "by-parity")) == expected
