"""`interval_join`, `join` and `co_group`: what they add to the program, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import (
    CountTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.testing import Advance, Harness, Second

Env = StreamExecutionEnvironment
LATE = OutputTag("late")
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield tuple(left), tuple(right)


class Counts(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield len(first), len(second)


class Sums(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[1] + second[1]


class Each(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterator[Any]:
        yield first[1]
        yield second[1]


def build(env: Env) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(2))


def timed(env: Env, type_info: Any = None) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(
        lambda record, before: record[1]
    )
    return env.from_collection([("a", 1)], type_info).assign_timestamps_and_watermarks(strategy)


def run(env: Env, stream: Any, items: list[Any]) -> list[Any]:
    stream.to_spark(lambda df, epoch: None)
    return sorted(Harness(build(env)).feed(items).finish().output, key=repr)


def test_an_interval_join_is_one_operator_with_two_keyed_inputs(env: Env) -> None:
    rows = "name string, at bigint"
    first, second = timed(env, rows).key_by("name"), timed(env, rows).key_by("name")
    joined = first.interval_join(second).in_event_time().between(Time.milliseconds(-5), Time.milliseconds(5))
    stream = joined.upper_bound_exclusive().lower_bound_exclusive().process(Pairs()).uid("pairs")
    assert stream.get_name() == "Interval Join"
    stage = build(env).stages[-1]
    assert [edge.partitioning for edge in stage.inputs] == ["key", "key"]
    bounds = stage.operators[0].config["bounds"]
    assert (bounds.lower_ms, bounds.upper_ms) == (-4, 4) and bounds.left_type.names == ("name", "at")
    items = [Row(name="a", at=1), *(Second(Row(name=name, at=at)) for name, at in (("a", 6), ("a", 5), ("b", 1)))]
    assert run(env, stream, items) == [(("a", 1), ("a", 5))]


def test_exclusive_bounds_may_be_said_twice(env: Env) -> None:
    joined = timed(env).key_by(lambda r: r[0]).interval_join(timed(env).key_by(lambda r: r[0])).between(-5, 5)
    for _ in range(2):
        joined = joined.lower_bound_exclusive().upper_bound_exclusive()
    for _ in range(2):
        joined.process(Pairs()).print()
    operators = [operator for stage in build(env).stages for operator in stage.operators]
    bounds = [operator.config["bounds"] for operator in operators if operator.kind == "keyed_co_interval_join"]
    assert [(each.lower_ms, each.upper_ms) for each in bounds] == [(-4, 4), (-4, 4)]


def test_late_records_of_each_stream_go_to_their_side_output(env: Env) -> None:
    first, second = timed(env).key_by(lambda r: r[0]), timed(env).key_by(lambda r: r[0])
    left, right = OutputTag("left"), OutputTag("right")
    joined = first.interval_join(second).between("-1 ms", 1)
    stream = joined.side_output_left_late_data(left).side_output_right_late_data(right).process(Pairs())
    for tag in (left, right):
        stream.get_side_output(tag).to_spark(lambda df, epoch: None)
    harness = Harness(build(env))
    for items in ([("a", 50), Second(("a", 50))], [("a", 50)], [("a", 2), Second(("a", 3))]):
        harness.feed(items)
    assert harness.side_output(left) == [("a", 2)] and harness.side_output(right) == [("a", 3)]


def test_an_interval_join_is_checked_when_the_program_is_built(env: Env) -> None:
    first, second = timed(env).key_by(lambda r: r[0]), timed(env).key_by(lambda r: r[0])
    with pytest.raises(ArgumentError, match=r"interval_join\(\) takes a keyed stream"):
        first.interval_join(timed(env))
    with pytest.raises(UsageError, match="records of the second stream have none; write .assign_timestamps"):
        first.interval_join(env.from_collection([("a", 1)]).key_by(lambda r: r[0]))
    with pytest.raises(TypeMismatchError, match="must be of one type"):
        first.interval_join(timed(env).key_by(lambda r: r[1], Types.LONG()))
    with pytest.raises(UsageError, match="only supported in event time"):
        first.interval_join(second).in_processing_time()
    with pytest.raises(UsageError, match="lower bound of an interval join, 5 ms, must not be greater"):
        first.interval_join(second).between(5, Time.milliseconds(1))
    joined = first.interval_join(second).between(1, 1)
    with pytest.raises(ArgumentError, match="takes a ProcessJoinFunction, not an object of type Sums"):
        joined.process(Sums())
    with pytest.raises(UsageError, match="leave no time between them"):
        joined.lower_bound_exclusive().process(Pairs())
    with pytest.raises(ArgumentError, match="late data goes to an OutputTag"):
        joined.side_output_left_late_data("late")


def test_an_interval_join_without_a_function_is_an_error_of_the_program(env: Env) -> None:
    first, second = timed(env).key_by(lambda r: r[0]), timed(env).key_by(lambda r: r[0])
    first.interval_join(second).between(0, 1)
    first.map(str).print()
    with pytest.raises(UsageError, match=r"an interval join \(.*\) does nothing yet; write .between"):
        build(env)


ITEMS = [
    ("a", 1),
    ("a", 2),
    ("b", 3),
    ("c", 4),
    Second(("a", 5)),
    Second(("b", 6)),
    Second(("b", 7)),
    Second(("d", 19)),
]


def test_a_window_join_gives_every_pair_of_a_key_and_window(env: Env) -> None:
    joined = timed(env).join(timed(env)).where(lambda r: r[0]).equal_to(lambda r: r[0]).window(TEN)
    assert run(env, joined.apply(Sums()), ITEMS) == [10, 6, 7, 9]


def test_a_window_join_takes_fields_functions_and_flat_functions(env: Env) -> None:
    rows = "name string, at bigint"
    joined = timed(env, rows).join(timed(env, rows)).where("name").equal_to("name").window(TEN)
    assert run(env, joined.allowed_lateness(5).apply(Each(), Types.LONG()), ITEMS) == [1, 2, 3, 3, 5, 5, 6, 7]


def test_a_window_join_with_a_lambda_a_trigger_and_processing_time(env: Env) -> None:
    first, second = env.from_collection([("a", 1)]), env.from_collection([("a", 1)])
    joined = first.join(second).where(lambda r: r[0]).equal_to(lambda r: r[0])
    stream = joined.window(TumblingProcessingTimeWindows.of(Time.seconds(5))).apply(lambda a, b: (a, b))
    stream.to_spark(lambda df, epoch: None)
    harness = Harness(build(env)).feed([("a", 1), Second(("a", 2)), Advance(5000)])
    assert harness.output == [(("a", 1), ("a", 2))]


def test_a_co_group_gets_keys_that_only_one_stream_has(env: Env) -> None:
    grouped = timed(env).co_group(timed(env)).where(lambda r: r[0]).equal_to(lambda r: r[0]).window(TEN)
    stream = grouped.apply(Counts())
    assert stream.get_name() == "CoGroup"
    assert run(env, stream, ITEMS) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_joins_by_window_are_checked_when_the_program_is_built(env: Env) -> None:
    first, second = timed(env), timed(env)
    with pytest.raises(ArgumentError, match=r"join\(\) takes a stream of the same environment"):
        first.join([1])
    with pytest.raises(UsageError, match=r"call equal_to\(\) once, after where\(\)"):
        first.join(second).equal_to("name")
    with pytest.raises(UsageError, match=r"window\(\) of join\(\) comes after where"):
        first.join(second).where("name").window(TEN)
    with pytest.raises(UsageError, match=r"trigger\(\) of co_group\(\) comes after window"):
        first.co_group(second).trigger(CountTrigger.of(1))
    with pytest.raises(TypeMismatchError, match="The key types for the two inputs are not equal"):
        first.join(second).where(str, Types.STRING()).equal_to(int, Types.LONG()).window(TEN)
    with pytest.raises(UsageError, match="its records have no timestamps"):
        untimed = env.from_collection([("a", 1)])
        untimed.join(untimed).where(str).equal_to(str).window(TEN)
    windows = first.co_group(second).where(str).equal_to(str).window(TEN)
    with pytest.raises(ArgumentError, match=r"apply\(\) of co_group\(\) takes a CoGroupFunction"):
        windows.apply(Sums())
    with pytest.raises(ArgumentError, match=r"apply\(\) calls it with two arguments"):
        first.join(second).where(str).equal_to(str).window(TEN).apply(lambda a: a)


def test_fields_that_can_never_be_equal_are_refused_as_keys(env: Env) -> None:
    orders = timed(env).map(str, "id int, at bigint, total double")
    payments = timed(env).map(str, "id string, at bigint, total float")
    with pytest.raises(TypeMismatchError, match=r"not equal: where\(\) has INT, equal_to\(\) has STRING"):
        orders.join(payments).where("id").equal_to("id").window(TEN)
    with pytest.raises(TypeMismatchError, match=r"not equal: where\(\) has LONG, equal_to\(\) has STRING"):
        orders.co_group(payments).where(lambda r: r.id, Types.LONG()).equal_to("id").window(TEN)
    with pytest.raises(UsageError, match="there is no field 'customer' in ROW"):
        orders.join(payments).where("customer")
    for first, second in (("id", "at"), ("total", "total")):  # integers and floating point numbers of any size
        orders.join(payments).where(first).equal_to(second).window(TEN)
    orders.join(payments).where("id").equal_to(lambda r: int(r.id)).window(TEN)


def test_a_join_without_a_function_is_an_error_of_the_program(env: Env) -> None:
    first = timed(env)
    first.join(first).where(str).equal_to(str).window(TEN)
    first.print()
    with pytest.raises(UsageError, match=r"join\(\) \(.*\) does nothing yet; write first.join\(second\)"):
        build(env)


def test_a_join_needs_one_uid(env: Env) -> None:
    streams = [timed(env).uid(f"timed-{n}") for n in range(2)]
    for node in env._graph.nodes:
        node.uid = node.uid or f"source-{node.id}"
    joined = streams[0].join(streams[1]).where("a").equal_to("a").window(TEN)
    joined.apply(Sums()).uid("sums").print().uid("print")
    graph = build_job_graph(env._graph, GraphSettings(2, generate_uids=False))
    assert {operator.uid for operator in graph.stages[-1].operators} == {"sums", "print"}
