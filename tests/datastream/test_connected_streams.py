"""`connect`: what it adds to the program, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.testing import Harness, Second

Env = StreamExecutionEnvironment


class Pairs(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 1, value

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 2, value


class KeyedPairs(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 1, ctx.get_current_key(), value

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 2, ctx.get_current_key(), value


class PairMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class PairFlatMap(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value]

    def flat_map2(self, value: Any) -> Any:
        return [value]


def build(env: Env, **settings: Any) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(2, **settings))


def run(env: Env, items: list[Any]) -> list[Any]:
    return sorted(Harness(build(env)).feed(items).output, key=repr)


def test_two_sources_are_two_inputs_of_one_stage(env: Env) -> None:
    one, two = env.from_collection([1]), env.from_collection(["a"])
    one.connect(two).process(Pairs()).to_spark(lambda df, epoch: None)
    (stage,) = build(env).stages
    assert [edge.partitioning for edge in stage.inputs] == ["forward", "forward"] and not stage.keyed
    assert stage.operators[0].kind == "co_process" and stage.operators[0].config == {"second_inputs": [-2]}
    assert run(env, [5, Second("a")]) == [(1, 5), (2, "a")]


@pytest.mark.parametrize("after", [False, True])
def test_b13_two_keyed_streams_are_two_inputs_by_key(env: Env, after: bool) -> None:
    one = env.from_collection([("a", 1)], "name string, amount bigint")
    two = env.from_collection([("x", "a")], "text string, who string")
    if after:
        connected = one.connect(two).key_by("name", "who")
    else:
        connected = one.key_by("name").connect(two.key_by("who"))
    connected.process(KeyedPairs()).uid("pairs").print()
    (stage,) = build(env).stages
    assert [edge.partitioning for edge in stage.inputs] == ["key", "key"] and stage.key_types == (Types.STRING(),)
    operator = stage.operators[0]
    assert (operator.kind, operator.name, operator.keyed) == ("keyed_co_process", "Keyed Co-Process", True)


def test_b13_key_functions_of_connected_streams_replace_earlier_keys(env: Env) -> None:
    one, two = env.from_collection([("a", 1)]), env.from_collection([(1, "a")])
    connected = one.key_by(lambda r: r[1]).connect(two)
    connected.key_by(lambda r: r[0], lambda r: r[1], Types.STRING()).process(KeyedPairs()).to_spark(
        lambda df, epoch: None
    )
    assert run(env, [("a", 1), Second((2, "a"))]) == [(1, "a", ("a", 1)), (2, "a", (2, "a"))]


@pytest.mark.parametrize(
    ("function", "kind", "name"), [(PairMap(), "co_map", "Co-Map"), (PairFlatMap(), "co_flat_map", "Co-Flat Map")]
)
def test_map_and_flat_map_are_keyed_if_both_streams_are(env: Env, function: Any, kind: str, name: str) -> None:
    one, two = env.from_collection(["a"]), env.from_collection(["b"])
    for first, second, expected in (
        (one, two, kind),
        (one.key_by(str), two, kind),
        (one, two.key_by(str), kind),
        (one.key_by(str), two.key_by(str), f"keyed_{kind}"),
    ):
        connected = first.connect(second)
        stream = connected.map(function) if kind == "co_map" else connected.flat_map(function)
        assert (stream._node.payload.kind, stream.get_name()) == (expected, name)


def test_a_keyed_stream_beside_one_without_a_key_is_still_partitioned_by_key(env: Env) -> None:
    one, two = env.from_collection([1]), env.from_collection(["a"])
    two.connect(one.key_by(lambda n: n % 2, Types.LONG())).process(Pairs()).to_spark(lambda df, epoch: None)
    stage = build(env).stages[-1]
    assert [edge.partitioning for edge in stage.inputs] == ["forward", "key"] and not stage.keyed
    assert run(env, [5, Second("a")]) == [(1, "a"), (2, 5)]


def test_a_stream_connected_with_itself_arrives_at_both_inputs(env: Env) -> None:
    numbers = env.from_collection([1])
    numbers.connect(numbers).process(Pairs()).to_spark(lambda df, epoch: None)
    mapped = numbers.map(lambda n: -n)
    mapped.connect(mapped).process(Pairs()).to_spark(lambda df, epoch: None)
    assert run(env, [5]) == [(1, -5), (1, 5), (2, -5), (2, 5)]


def test_unions_are_inputs_like_other_streams(env: Env) -> None:
    one, two = env.from_collection([1]), env.from_collection([2])
    tens, minus = one.map(lambda n: n * 10), one.map(lambda n: -n)
    one.union(two).connect(tens.union(minus)).process(Pairs()).to_spark(lambda df, epoch: None)
    assert run(env, [1, Second(2)]) == [(1, 1), (1, 2), (2, -1), (2, 10)]


def test_streams_of_one_stage_are_connected_in_it(env: Env) -> None:
    numbers = env.from_collection([1]).map(int)
    tens, minus = numbers.map(lambda n: n * 10), numbers.map(lambda n: -n)
    tens.connect(minus).process(Pairs()).to_spark(lambda df, epoch: None)
    minus.connect(tens).process(Pairs()).to_spark(lambda df, epoch: None)
    (stage,) = build(env).stages
    assert [o.config.get("second_inputs") for o in stage.operators] == [None, None, None, [2], [1]]
    assert run(env, [1]) == [(1, -1), (1, 10), (2, -1), (2, 10)]
    assert len(build(env, chaining=False).stages) == 5


def test_a_watermark_is_the_lower_one_of_both_streams(env: Env) -> None:
    one, two = env.from_collection([1]), env.from_collection([2])
    one.connect(two).process(Pairs()).to_spark(lambda df, epoch: None)
    (stage,) = build(env).stages
    assert stage.operators[0].inputs == (-1, -2)  # the chain takes the minimum over the inputs


def test_b13_a_keyed_function_needs_two_keyed_streams(env: Env) -> None:
    one, two = env.from_collection([1], Types.LONG()), env.from_collection(["a"], Types.STRING())
    with pytest.raises(
        UsageError, match=r"KeyedPairs is a KeyedCoProcessFunction.*neither stream has one; write first"
    ):
        one.connect(two).process(KeyedPairs())
    with pytest.raises(UsageError, match="the stream of STRING has none"):
        one.key_by(str, Types.STRING()).connect(two).process(KeyedPairs())


def test_b13_keys_of_different_types_are_refused(env: Env) -> None:
    one, two = env.from_collection([1]), env.from_collection(["a"])
    with pytest.raises(TypeMismatchError, match=r"must be of one type: key_by\(.*\) has LONG, key_by\(.*\) has STR"):
        one.key_by(int, Types.LONG()).connect(two.key_by(str, Types.STRING()))


def test_what_is_no_function_on_two_streams_is_refused(env: Env) -> None:
    connected = env.from_collection([1]).connect(env.from_collection([2]))
    assert isinstance(connected, ConnectedStreams)
    with pytest.raises(TypeError, match="must be a CoMapFunction, not an object of type function"):
        connected.map(lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a CoFlatMapFunction"):
        connected.flat_map(PairMap())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"CoProcessFunction or KeyedCoProcessFunction, not the class Pairs \(did you"):
        connected.process(Pairs)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="connect\\(\\) takes a stream"):
        env.from_collection([1]).connect([2])  # type: ignore[call-overload]


def test_a_function_that_cannot_be_called_is_refused(env: Env) -> None:
    class Wrong(CoMapFunction):
        def map1(self, value: Any, more: Any) -> Any: ...  # type: ignore[override]
        def map2(self, value: Any) -> Any: ...

    class Yields(CoMapFunction):
        def map1(self, value: Any) -> Any:
            yield value

        def map2(self, value: Any) -> Any: ...

    class Forgets(KeyedPairs):
        def process_element2(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(1)

    connected = env.from_collection([1]).connect(env.from_collection([2]))
    with pytest.raises(ArgumentError, match=r"Wrong.map1.* takes \(self, value, more\), but map\(\) calls it"):
        connected.map(Wrong())
    with pytest.raises(ArgumentError, match=r"Yields.map1.* yields, but map\(\) takes one result"):
        connected.map(Yields())
    with pytest.raises(UsageError, match="Forgets registers timers but has no on_timer"):
        connected.key_by(str, str).process(Forgets())
