"""The plan of programs written for PyFlink, and their records without a declared type. PyFlink 2.3 gave the same."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import compat
from penstock.common import Time, Types
from penstock.datastream import (
    CoMapFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import TumblingProcessingTimeWindows
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.testing import Harness

ROWS = Types.ROW([Types.INT(), Types.STRING()])
SOURCE: tuple[str, int, list[tuple[int, str]]] = ("Source: Collection Source", 1, [])
PRINT = "Sink: Print to Std. Out"


@pytest.fixture(autouse=True)
def pyflink() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@dataclass
class Point:
    x: int


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class Store(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        pass


class Pass(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def rows(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([(1, "a"), (2, "b")], ROWS)


def nodes(env: StreamExecutionEnvironment) -> list[tuple[str, int, list[tuple[int, str]]]]:
    plan = json.loads(env.get_execution_plan())["nodes"]
    assert [node["id"] for node in plan] == list(range(1, len(plan) + 1))
    edges = [[(edge["id"] - 1, edge["ship_strategy"]) for edge in node.get("predecessors", [])] for node in plan]
    return [(node["type"], node["parallelism"], edge) for node, edge in zip(plan, edges, strict=True)]


def test_a_key_in_python_is_an_operator_and_printing_a_map() -> None:
    env = environment()
    rows(env).key_by(lambda row: row[0]).map(lambda row: row).set_parallelism(3).name("My map").print()
    assert nodes(env) == [
        SOURCE,
        ("_stream_key_by_map_operator", 1, [(0, "FORWARD")]),
        ("My map", 3, [(1, "HASH")]),
        ("Map", 2, [(2, "REBALANCE")]),
        (PRINT, 2, [(3, "FORWARD")]),
    ]


def test_a_chain_of_python_operators_is_one_node() -> None:
    env = environment()
    rows(env).rebalance().map(lambda row: row[1]).set_parallelism(3).filter(bool).flat_map(lambda text: [text]).print()
    assert nodes(env) == [
        SOURCE,
        ("Map", 3, [(0, "REBALANCE")]),
        ("Filter, FlatMap, Map", 2, [(1, "REBALANCE")]),
        (PRINT, 2, [(2, "FORWARD")]),
    ]


def test_a_custom_partition_is_computed_before_and_dropped_after_the_exchange() -> None:
    env = environment()
    stream = rows(env).map(lambda row: row).partition_custom(lambda key, count: key % count, lambda row: row[0])
    stream.map(lambda row: row).set_parallelism(3).print()
    assert nodes(env) == [
        SOURCE,
        ("Map", 2, [(3, "REBALANCE")]),
        ("Map, _partition_custom_map_operator", 2, [(0, "REBALANCE")]),
        ("_keyed_stream_values_operator, Map", 3, [(2, "CUSTOM")]),
        (PRINT, 2, [(1, "FORWARD")]),
    ]


def test_a_keyed_stream_without_an_operator_gives_up_its_key_in_one() -> None:
    env = environment()
    numbers = [env.from_collection([1, 2], Types.INT()).key_by(lambda number: number) for _ in range(2)]
    numbers[0].union(numbers[1]).add_sink(Store()).name("My sink")
    values = [("_keyed_stream_values_operator", 2, [(edge, "HASH")]) for edge in (2, 4)]
    assert sorted(nodes(env)[6:]) == [("Sink: My sink", 2, [(3, "FORWARD"), (5, "FORWARD")])]
    assert [node for node in nodes(env) if node[0] == values[0][0]] == values
    env = environment()
    rows(env).key_by(lambda row: row[0]).print()
    assert [name for name, _, _ in nodes(env)] == [
        SOURCE[0],
        "_stream_key_by_map_operator",
        "_keyed_stream_values_operator, Map",
        PRINT,
    ]


def test_records_of_keyed_streams_pass_the_operator_that_gives_up_the_key() -> None:
    env = environment()
    keyed = env.from_collection([1, 2, 3], Types.INT()).key_by(lambda number: number)
    keyed.union(keyed).to_spark(lambda df, epoch: None)
    job = build_job_graph(env._graph, GraphSettings(2))
    assert not [line for line in job.warnings if "keeps state" in line]
    assert sorted(Harness(job).feed([1, 2, 3]).output) == [1, 1, 2, 2, 3, 3]


def test_a_sink_function_is_a_sink() -> None:
    env = environment()
    rows(env).add_sink(Store())
    assert nodes(env) == [SOURCE, ("Sink: Unnamed", 2, [(0, "REBALANCE")])]


def test_two_inputs_and_settings_of_chains() -> None:
    env = environment()
    rows(env).connect(rows(env)).map(Both()).print()
    assert nodes(env)[2] == ("Co-Map, Map", 2, [(0, "REBALANCE"), (1, "REBALANCE")])
    env = environment()
    first = rows(env).map(lambda row: row).name("m1").start_new_chain()
    first.map(lambda row: row).name("m2").disable_chaining().set_description("desc").print()
    assert [name for name, _, _ in nodes(env)] == [SOURCE[0], "m1", "m2", "Map", PRINT]
    assert json.loads(env.get_execution_plan())["nodes"][2]["contents"] == "desc"


def test_a_side_output_is_mapped() -> None:
    env = environment()
    stream = rows(env).process(Pass())
    stream.get_side_output(OutputTag("side", Types.STRING())).print()
    stream.print()
    shown = [(name, edges) for name, _, edges in nodes(env)]
    assert shown[1] == ("PROCESS", [(0, "REBALANCE")])
    assert sorted(name for name, _ in shown[2:]) == ["Map", "Map", PRINT, PRINT]


def test_windows_are_described_and_aggregates_are_reductions() -> None:
    env = environment()
    keyed = rows(env).key_by(lambda row: row[0])
    keyed.window(TumblingProcessingTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: a).print()
    keyed.sum(0).print()
    plan = json.loads(env.get_execution_plan())["nodes"]
    window = "Window(TumblingProcessingTimeWindows(1000, 0), ProcessingTimeTrigger, function)"
    assert window in [node["contents"] for node in plan]
    assert "Reduce, Map" in [node["type"] for node in plan]


def test_records_without_a_declared_type_may_be_objects_of_any_class() -> None:
    env = environment()
    stream = env.from_collection([Point(1), Point(2), Point(1)])
    assert stream.get_type() == Types.PICKLED_BYTE_ARRAY()
    counted = stream.map(lambda point: point).key_by(lambda point: point.x).reduce(lambda a, b: Point(a.x * 10))
    counted.map(lambda point: {point.x}).to_spark(lambda df, epoch: None)
    harness = Harness(build_job_graph(env._graph, GraphSettings(2)))
    assert sorted(map(str, harness.feed([Point(1), Point(2), Point(1)]).output)) == ["{10}", "{1}", "{2}"]
