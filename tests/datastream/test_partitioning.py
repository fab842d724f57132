"""Partitioning: which subtask of the next operator a record goes to, and what is refused."""

import json
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import (
    MapFunction,
    Partitioner,
    RuntimeExecutionMode,
    SinkFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from penstock.errors import UsageError, UserFunctionError
from penstock.graph.job_graph import JobGraph
from penstock.graph.plan_json import plan_json
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.testing import CHECKPOINT, CRASH, Harness

Env = StreamExecutionEnvironment


class Where(MapFunction):
    """Each record with the index of its subtask."""

    def open(self, runtime_context: Any) -> None:
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return self.index, value


class ByLength(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return len(key) % num_partitions


def build(env: Env, **settings: Any) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(3, **settings))


def run(env: Env, stream: Any, items: list[Any]) -> list[Any]:
    stream.map(Where()).to_spark(lambda df, epoch: None)
    return sorted(Harness(build(env)).feed(items).output)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_partitioner_chooses_the_subtask_of_each_record(env: Env, mapped: bool) -> None:
    names = env.from_collection(["a"])
    stream = names.map(str) if mapped else names
    chosen = stream.partition_custom(ByLength(), lambda name: name * 2)
    assert run(env, chosen, ["a", "bb", "ccc", CHECKPOINT, "d", CRASH]) == [(0, "ccc"), (1, "bb"), (2, "a"), (2, "d")]
    first, second = build(env).stages
    assert second.inputs[0].partitioning == "custom" and not second.keyed
    assert first.outputs == second.inputs


def test_a_partitioner_can_be_a_function_and_is_told_the_parallelism_of_the_next_operator(env: Env) -> None:
    counts = env.from_collection([1]).partition_custom(lambda key, count: count - 1, lambda value: value)
    counts.map(Where()).set_parallelism(5).to_spark(lambda df, epoch: None)
    assert Harness(build(env)).feed([7, 8]).output == [(4, 7), (4, 8)]


@pytest.mark.parametrize(("returned", "shown"), [(3, "3"), (-1, "-1"), (True, "True"), ("a", "'a'")])
def test_a_partitioner_that_returns_no_subtask_is_an_error_with_the_record(env: Env, returned: Any, shown: str) -> None:
    stream = env.from_collection([1]).partition_custom(lambda key, count: returned, lambda value: value)
    with pytest.raises(UserFunctionError, match=rf"returned {shown}; it must return a number from 0 to 2") as caught:
        run(env, stream, [17])
    assert "record: 17" in str(caught.value) and "partition_custom" in str(caught.value)


def test_what_is_no_partitioner_is_refused(env: Env) -> None:
    stream = env.from_collection([1])
    with pytest.raises(TypeError, match="must be a Partitioner or a callable function, not None"):
        stream.partition_custom(None, lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a KeySelector or a callable function"):
        stream.partition_custom(ByLength(), "name")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="calls it with two arguments"):
        stream.partition_custom(lambda key: 0, lambda value: value)  # type: ignore[arg-type, misc]

    class Opened(ByLength):
        def open(self, runtime_context: Any) -> None: ...

    with pytest.raises(UsageError, match=r"Opened.open\(\) would never be called.*in __init__"):
        stream.partition_custom(Opened(), lambda value: value)


def test_global_sends_every_record_to_the_first_subtask(env: Env) -> None:
    assert run(env, env.from_collection([1]).map(int).global_(), [1, 2, 3]) == [(0, 1), (0, 2), (0, 3)]


def test_broadcast_sends_every_record_to_every_subtask(env: Env) -> None:
    assert run(env, env.from_collection([1]).broadcast(), [5]) == [(0, 5), (1, 5), (2, 5)]


def test_forward_keeps_records_in_their_subtask_and_operators_chained(env: Env) -> None:
    env.from_collection([1]).map(int).forward().map(str).rebalance().forward().map(str)
    (stage,) = build(env).stages  # as in Flink, the last call decides
    assert [operator.name for operator in stage.operators] == ["Map", "Map", "Map"]


def test_forward_refuses_another_parallelism(env: Env) -> None:
    env.from_collection([1]).map(int).set_parallelism(2).forward().map(str).set_parallelism(3)
    with pytest.raises(
        UsageError, match=r"does not allow change of parallelism.* has 2, the one after it 3 \(created at"
    ):
        build(env)


def test_the_plan_shows_what_the_program_asked_for(env: Env) -> None:
    strategies = ("rebalance", "rescale", "shuffle", "forward", "broadcast", "global_")
    for method in strategies:
        getattr(env.from_collection([1]).map(int).disable_chaining(), method)().map(str)
    env.from_collection([1]).map(int).partition_custom(ByLength(), str).map(str)
    env.from_collection([1]).map(int).key_by(str, Types.STRING()).map(str)
    nodes = json.loads(plan_json(build(env)))["nodes"]
    shown = [node["predecessors"][0]["ship_strategy"] for node in nodes if node.get("predecessors")]
    expected = ["REBALANCE", "RESCALE", "SHUFFLE", "FORWARD", "BROADCAST", "GLOBAL", "CUSTOM", "HASH"]
    assert [strategy for strategy in shown if strategy != "FORWARD"] == [s for s in expected if s != "FORWARD"]


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_slot_sharing_groups_have_no_effect_which_is_said_once(env: Env, mode: RuntimeExecutionMode) -> None:
    stream = env.from_collection([1]).map(int).uid("a").slot_sharing_group("one")
    stream.map(str).slot_sharing_group(SlotSharingGroup.builder("two").build()).uid("b")
    warnings = build_job_graph(env._graph, GraphSettings(2, mode=mode)).warnings
    said = [line for line in warnings if "slot_sharing_group" in line]
    assert said == ["slot_sharing_group() has no effect: Spark places the tasks"]


class Discards(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        pass


@pytest.mark.parametrize("write", [lambda s: s.add_sink(Discards()), lambda s: s.print()], ids=["add_sink", "print"])
def test_the_records_of_a_key_go_to_one_subtask_of_a_sink(env: Env, write: Any) -> None:
    write(env.from_collection([1], Types.LONG()).key_by(lambda value: value, Types.LONG()))
    assert build(env).stages[-1].inputs[0].partitioning == "key"
