"""`Harness(restore_from=…)` with the state that windows, joins, patterns and async calls of a typed program keep."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cep import CEP, Pattern, PatternProcessFunction
from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    AllWindowFunction,
    AsyncDataStream,
    AsyncFunction,
    CoGroupFunction,
    DataStream,
    ProcessJoinFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from penstock.datastream.functions import AsyncFunctionDescriptor
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.errors import IncompatibleStateError
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import SinkSpec
from penstock.testing import CHECKPOINT, CRASH, Harness, Second, Watermark

Env = StreamExecutionEnvironment
ORDER = "name string, at bigint, n bigint"
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
OLD: dict[str, Any] = {"key": lambda r: r.name, "timestamp": lambda r: r.at}


def order(name: str, at: int, n: int) -> Row:
    return Row(name=name, at=at, n=n)


def orders(env: Env) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, before: row.at)
    return env.from_collection([("x", 0, 0)], ORDER).assign_timestamps_and_watermarks(strategy)


def saved(stream: DataStream, records: list[Any], folder: Path) -> str:
    """A savepoint of the program behind a stream."""
    stream.uid("operator")
    graph = stream._environment._graph
    graph.add("sink", "Spark", [stream._node.id], SinkSpec("spark", print), stream._node.output_type)
    job = Harness(build_job_graph(graph, GraphSettings(2, async_wait_ms=50)))
    return job.feed([*records, CHECKPOINT]).savepoint(folder)


class Numbers(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, [row.n for row in inputs]


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return order(value1.name, value2.at, value1.n + value2.n)


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return int(accumulator + value.n)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("window", [TEN, EventTimeSessionWindows.with_gap(Time.milliseconds(10))], ids=["ten", "gap"])
@pytest.mark.parametrize(
    ("function", "result"),
    [(Numbers(), ("ada", [1, 2, 4])), (Sum(), order("ada", 7, 7)), (Total(), 7)],
    ids=["apply", "reduce", "aggregate"],
)
def test_a_half_filled_window_goes_on(
    env: Env, tmp_path: Path, function: Any, result: Any, window: Any, backend: str
) -> None:
    windows = orders(env).key_by("name").window(window)
    if isinstance(function, Numbers):
        results = windows.apply(function)
    elif isinstance(function, Sum):
        results = windows.reduce(function)
    else:
        results = windows.aggregate(function, accumulator_type=Types.LONG(), output_type=Types.LONG())
    path = saved(results, [order("ada", 5, 1), order("bob", 5, 9), order("ada", 6, 2)], tmp_path)
    harness = Harness.keyed(function, window=window, restore_from=path, backend=backend, parallelism=3, **OLD)
    harness.feed([order("ada", 7, 4), CRASH, Watermark(40)])
    assert len(harness.output) == 2 and result in harness.output


class AllNumbers(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Any) -> Any:
        yield sorted(row.n for row in inputs)


def test_a_half_filled_window_of_all_records_goes_on(env: Env, tmp_path: Path) -> None:
    results = orders(env).window_all(TEN).apply(AllNumbers())
    path = saved(results, [order("ada", 5, 1), order("bob", 6, 2)], tmp_path)
    harness = Harness.non_keyed(AllNumbers(), window=TEN, restore_from=path, timestamp=lambda r: r.at)
    assert harness.feed([order("cyd", 7, 3), Watermark(10)]).output == [[1, 2, 3]]


def test_reduced_records_go_on(env: Env, tmp_path: Path) -> None:
    path = saved(orders(env).key_by("name").reduce(Sum()), [order("ada", 5, 1), order("ada", 6, 2)], tmp_path)
    harness = Harness.keyed(Sum(), key=lambda r: r.name, restore_from=path)
    assert harness.feed([order("ada", 7, 4)]).output == [order("ada", 7, 7)]


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left.n, right.n


def test_buffered_records_of_an_interval_join_go_on(env: Env, tmp_path: Path) -> None:
    joined = orders(env).key_by("name").interval_join(orders(env).key_by("name"))
    results = joined.between(Time.milliseconds(-5), Time.milliseconds(5)).process(Pairs())
    path = saved(results, [order("ada", 10, 1), Second(order("ada", 50, 2))], tmp_path)
    harness = Harness.keyed(Pairs(), between=(-5, 5), restore_from=path, **OLD)
    harness.feed([Second(order("ada", 12, 3)), order("ada", 48, 4)])
    assert sorted(harness.output) == [(1, 3), (4, 2)]


class Both(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield [row.n for row in first], [row.n for row in second]


def test_records_in_the_window_of_a_co_group_go_on(env: Env, tmp_path: Path) -> None:
    grouped = orders(env).co_group(orders(env)).where("name").equal_to("name").window(TEN)
    path = saved(grouped.apply(Both()), [order("ada", 5, 1), Second(order("ada", 6, 2))], tmp_path)
    harness = Harness.keyed(Both(), window=TEN, restore_from=path, **OLD)
    harness.feed([Second(order("ada", 7, 3)), CRASH, order("ada", 8, 4), Watermark(10)])
    assert harness.output == [([1, 4], [2, 3])]


class Matches(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Any:
        yield [row.n for rows in match.values() for row in rows]


def rising() -> Pattern:
    small = Pattern.begin("small").where(lambda row: row.n < 10)
    return small.followed_by("large").where(lambda row: row.n >= 10)


def test_a_partial_match_goes_on(env: Env, tmp_path: Path) -> None:
    results = CEP.pattern(orders(env).key_by("name"), rising()).process(Matches())
    path = saved(results, [order("ada", 5, 1), order("bob", 6, 2), CHECKPOINT, order("cyd", 7, 3)], tmp_path)
    function = CEP.function(rising(), Matches(), event_type=ORDER)
    harness = Harness.keyed(function, restore_from=path, **OLD)
    assert harness.feed([order("ada", 8, 10), Watermark(20)]).output == [[1, 10]]
    with pytest.raises(IncompatibleStateError, match="cep-"):  # the events of the job are rows, these would be any
        Harness.keyed(CEP.function(rising(), Matches()), restore_from=path, **OLD)


class Doubles(AsyncFunction):
    """Answers even numbers only."""

    async def async_invoke(self, value: Any) -> list[Any]:
        while value.n % 2:
            await asyncio.sleep(3600)
        return [2 * value.n]


class Answers(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [2 * value.n]


def test_requests_in_flight_are_made_again(env: Env, tmp_path: Path) -> None:
    results = AsyncDataStream.unordered_wait(orders(env), Doubles(), Time.minutes(5), 100, Types.LONG())
    path = saved(results, [order("ada", 1, 1), order("bob", 2, 2), order("cyd", 3, 3)], tmp_path)
    harness = Harness.non_keyed(AsyncFunctionDescriptor(Answers(), 60_000), restore_from=path)
    assert sorted(harness.feed([order("dan", 4, 4)]).finish().output) == [2, 6, 8]


def test_other_types_of_records_are_declared_and_fields_may_be_added(env: Env, tmp_path: Path) -> None:
    path = saved(orders(env).key_by("name").window(TEN).apply(Numbers()), [order("ada", 5, 1)], tmp_path)

    class Fields(Numbers):
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            yield [(row.n, row.country) for row in inputs]

    wider = Harness.keyed(
        Fields(), window=TEN, restore_from=path, record_type="name string, at bigint, n bigint, country string", **OLD
    )
    wider.feed([Row(name="ada", at=6, n=2, country="no"), Watermark(10)])
    assert wider.output == [[(1, None), (2, "no")]]
    with pytest.raises(IncompatibleStateError, match="window-contents"):
        Harness.keyed(Numbers(), window=TEN, restore_from=path, record_type=Types.LONG(), **OLD)
