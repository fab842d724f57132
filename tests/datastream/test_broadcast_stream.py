"""Broadcast streams: what they add to the program, and what is refused."""

import json
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.errors import UsageError
from penstock.graph.job_graph import JobGraph
from penstock.graph.pickling import loads
from penstock.graph.plan_json import plan_json
from penstock.graph.stages import GraphSettings, build_job_graph

Env = StreamExecutionEnvironment
RULES = MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE())
MORE = MapStateDescriptor("more")


class Plain(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


class Keyed(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None


def build(env: Env, parallelism: int = 2) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(parallelism))


def rules(env: Env) -> Any:
    return env.from_collection([("a", 1.0)], "name string, limit double")


def test_c4_a_keyed_stream_beside_a_broadcast_one_is_one_keyed_stage(env: Env, frame: Any):
    orders = env.from_dataframe(frame).uid("orders")
    stream = orders.key_by("customer").connect(rules(env).broadcast(RULES, MORE))
    stream.process(Keyed(), "customer string").uid("limits").print()
    job = build(env)
    (stage,) = job.stages
    assert [edge.partitioning for edge in stage.inputs] == ["key", "broadcast"]
    assert stage.key_types == (Types.STRING(),)
    operator = stage.operators[0]
    assert (operator.kind, operator.inputs, operator.keyed) == ("keyed_broadcast", (-1, -2), True)
    assert operator.config["broadcast_inputs"] == [-2]
    assert [descriptor.name for descriptor in loads(operator.config["descriptors"])] == ["rules", "more"]
    assert job.warnings == ()


def test_c4_a_stream_without_a_key_has_a_fixed_number_of_subtasks(env: Env, frame: Any):
    orders = env.from_dataframe(frame).map(lambda order: order.customer, Types.STRING())
    orders.connect(rules(env).broadcast(RULES)).process(Plain()).set_parallelism(3).print()
    first, second, _ = build(env).stages
    assert (first.name, first.parallelism, second.parallelism, second.keyed) == ("Map", 2, 3, False)
    assert [edge.partitioning for edge in second.inputs] == ["rebalance", "broadcast"]
    assert second.operators[0].kind == "broadcast"


def test_c4_every_part_of_a_union_is_broadcast(env: Env, frame: Any):
    both = rules(env).union(rules(env).map(lambda rule: rule, "name string, limit double"))
    env.from_dataframe(frame).connect(both.broadcast(RULES)).process(Plain()).print()
    stage = build(env).stages[-1]
    assert [edge.partitioning for edge in stage.inputs] == ["forward", "broadcast", "broadcast"]
    assert stage.operators[0].config["broadcast_inputs"] == [-2, -3]


def test_a_broadcast_without_states_gives_every_record_to_every_subtask(env: Env):
    rules(env).broadcast().map(lambda rule: rule.name).print()
    (stage,) = build(env).stages
    assert stage.inputs[0].partitioning == "broadcast"
    assert stage.operators[0].inputs == (-1,)


def test_the_plan_shows_the_broadcast(env: Env, frame: Any):
    env.from_dataframe(frame).connect(rules(env).broadcast(RULES)).process(Plain()).print()
    nodes = json.loads(plan_json(build(env)))["nodes"]
    (operator,) = [node for node in nodes if node["type"] == "Co-Process-Broadcast"]
    assert [edge["ship_strategy"] for edge in operator["predecessors"]] == ["FORWARD", "BROADCAST"]


def test_functions_with_operator_state_are_asked_for_a_uid(env: Env, frame: Any):
    class Counting(MapFunction, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None: ...

        def map(self, value: Any) -> Any: ...

        def snapshot_state(self, context: Any) -> None: ...

    orders = env.from_dataframe(frame).uid("orders")
    orders.map(Counting()).print()
    orders.connect(rules(env).broadcast(RULES)).process(Plain()).print()
    assert [warning.split(" (")[0] for warning in build(env).warnings] == [
        "operator 'Map'",
        "operator 'Co-Process-Broadcast'",
    ]


def test_the_function_must_be_of_the_kind_of_the_stream(env: Env, frame: Any):
    orders, broadcast = env.from_dataframe(frame), rules(env).broadcast(RULES)
    with pytest.raises(TypeError, match="BroadcastProcessFunction is required on a stream without a key.*type Keyed"):
        orders.connect(broadcast).process(Keyed())
    with pytest.raises(TypeError, match="KeyedBroadcastProcessFunction is required on a keyed stream.*type Plain"):
        orders.key_by("customer").connect(broadcast).process(Plain())


def test_c7_a_time_to_live_is_refused_where_it_is_declared(env: Env):
    descriptor = MapStateDescriptor("rules")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(UsageError, match="'rules' has a time to live, which only keyed state can have"):
        rules(env).broadcast(descriptor)


def test_what_cannot_be_broadcast_or_connected_says_why(env: Env, frame: Any):
    with pytest.raises(TypeError, match=r"broadcast\(\) takes MapStateDescriptors"):
        rules(env).broadcast(ValueStateDescriptor("rules"))
    with pytest.raises(UsageError, match="two broadcast states have the same name"):
        rules(env).broadcast(RULES, RULES)
    with pytest.raises(UsageError, match="Cannot override partitioning for KeyedStream"):
        rules(env).key_by("name").broadcast(RULES)
    other = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(UsageError, match="of another environment"):
        rules(env).connect(rules(other).broadcast(RULES))
