"""Side outputs, operators with two inputs and partitioning on real Spark."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import (
    CoGroupFunction,
    CoMapFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessJoinFunction,
)
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from tests.spark.jobs import Jobs, collect, read_json
from tests.spark.recoveries import RESTARTS, await_attempt, await_checkpoints, cancel, kill_taskmanager
from tests.waiting import wait_until

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


ORDERS = [(f"k{n % 5}", n) for n in range(60)]
PAYMENTS = [(f"k{n % 5}", n + 3) for n in range(60)]
NEAR = Counter((a, b) for a in ORDERS for b in PAYMENTS if a[0] == b[0] and abs(a[1] - b[1]) <= 6)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield tuple(left), tuple(right)


class Both(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield len(first), len(second)


def two_timed_streams(jobs: Jobs) -> list[DataStream]:
    env = jobs.environment(3, {"penstock.epoch.max-rows": "40"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, before: row.at)
    streams = [env.from_collection(rows, "name string, at bigint") for rows in (ORDERS, PAYMENTS)]
    return [stream.assign_timestamps_and_watermarks(strategy) for stream in streams]


def test_an_interval_join_finds_every_near_pair_once(jobs: Jobs) -> None:
    orders, payments = two_timed_streams(jobs)
    joined = orders.key_by("name").interval_join(payments.key_by("name"))
    assert collect(joined.between(Time.milliseconds(-6), Time.milliseconds(6)).process(Pairs())) == NEAR


def test_a_window_join_finds_every_pair_of_a_window_once(jobs: Jobs) -> None:
    orders, payments = two_timed_streams(jobs)
    windows = (
        orders.join(payments).where("name").equal_to("name").window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    )
    found = collect(windows.apply(lambda order, payment: (tuple(order), tuple(payment))))
    assert found == Counter((a, b) for a in ORDERS for b in PAYMENTS if a[0] == b[0] and a[1] // 20 == b[1] // 20)


def test_a_co_group_gets_the_records_of_both_streams(jobs: Jobs) -> None:
    orders, payments = two_timed_streams(jobs)
    windows = (
        orders.co_group(payments)
        .where("name")
        .equal_to("name")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    )
    groups = {(name, at // 20) for name, at in [*ORDERS, *PAYMENTS]}
    counts = [Counter((name, at // 20) for name, at in rows) for rows in (ORDERS, PAYMENTS)]
    assert collect(windows.apply(Both())) == Counter((counts[0][group], counts[1][group]) for group in groups)


FAR = 10_000_000
"""The time of the last record, which moves the watermark behind all others."""


class Numbers(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left.name, str(left.number), str(right.number)


class Groups(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield first[0].name if first else second[0].name, numbers_of(first), numbers_of(second)


def numbers_of(rows: Any) -> str:
    return " ".join(str(number) for number in sorted(row.number for row in rows))


def interval_join(orders: DataStream, payments: DataStream) -> DataStream:
    joined = orders.key_by("name").interval_join(payments.key_by("name"))
    return joined.between(Time.seconds(-6), Time.seconds(6)).process(Numbers(), JOINED)


def co_group(orders: DataStream, payments: DataStream) -> DataStream:
    windows = TumblingEventTimeWindows.of(Time.seconds(20))
    return orders.co_group(payments).where("name").equal_to("name").window(windows).apply(Groups(), JOINED)


JOINED = "name string, orders string, payments string"
NEAR_NUMBERS = Counter((name, str(a), str(b - 3)) for (name, a), (_, b) in NEAR.elements())
GROUPED = Counter(
    (
        name,
        *(" ".join(str(n) for n in range(60) if f"k{n % 5}" == name and (n + late) // 20 == group) for late in (0, 3)),
    )
    for name, group in {(name, at // 20) for name, at in [*ORDERS, *PAYMENTS]}
)


@pytest.mark.full
@pytest.mark.parametrize(("join", "expected"), [(interval_join, NEAR_NUMBERS), (co_group, GROUPED)])
def test_buffered_rows_of_a_join_survive_a_killed_taskmanager(jobs: Jobs, join: Any, expected: Any) -> None:
    env = jobs.environment(3, RESTARTS)
    folders = [jobs.folder / "in" / side for side in ("orders", "payments")]
    frames = [jobs.json_stream("name string, number bigint, at timestamp", folder) for folder in folders]
    orders, payments = (
        env.from_dataframe(frame, event_time="at", max_out_of_orderness="1 hour").uid(folder.name)
        for frame, folder in zip(frames, folders, strict=True)
    )
    out = jobs.folder / "out"
    sink = FileSink.for_row_format(str(out), "json").build()
    join(orders, payments).uid("join").sink_to(sink).uid("out")

    def write(name: str, numbers: range) -> None:
        for folder, late in zip(folders, (0, 3), strict=True):
            jobs.write_json(name, [row(f"k{n % 5}", n, n + late) for n in numbers], folder)

    write("1.json", range(30))
    job = env.execute_async("joins")
    wait_until(lambda: jobs.record().rows >= 60)
    await_checkpoints(jobs, 1)  # a job without new rows takes no more
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    write("2.json", range(30, 60))
    for folder in folders:
        jobs.write_json("3.json", [row("end", 0, FAR)], folder)

    def found() -> "Counter[Any]":
        rows = [(read["name"], read["orders"], read["payments"]) for read in read_json(out)]
        return Counter(read for read in rows if read[0] != "end")

    wait_until(lambda: found().total() >= expected.total())
    assert found() == expected
    cancel(job)


def row(name: str, number: int, second: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(1_700_000_000 + second, timezone.utc)
    return {"name": name, "number": number, "at": at.isoformat()}
