"""Subtasks, key groups, owners, and the plan as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.graph.execution_graph import assign_subtasks
from penstock.graph.plan_json import plan_json
from penstock.model.ids import StageId, SubtaskId
from tests.graph.programs import Program


def two_stages() -> Program:
    p = Program()
    p.print(p.process(p.key_by_function(p.where(p.source()), str.upper)))
    return p


@given(parallelism=st.integers(1, 40), max_parallelism=st.integers(40, 300), task_managers=st.integers(1, 12))
def test_every_key_group_has_one_subtask_and_every_subtask_one_owner(
    parallelism: int, max_parallelism: int, task_managers: int
):
    names = [f"tm{index}" for index in range(task_managers)]
    graph = assign_subtasks(two_stages().build(parallelism, max_parallelism=max_parallelism), names)
    for stage in ("s0", "s1"):
        ranges = [subtask.key_groups for subtask in graph.subtasks if subtask.id.stage == stage]
        groups = [group for first, last in ranges for group in range(first, last + 1)]
        assert groups == list(range(max_parallelism))
    assert sum(len(graph.of_task_manager(name)) for name in names) == len(graph.owners) == 2 * parallelism


def test_the_same_index_of_every_stage_is_on_one_task_manager():
    owners = assign_subtasks(two_stages().build(3), ["a", "b"]).owners
    assert [owners[SubtaskId(StageId("s0"), index)] for index in range(3)] == ["a", "b", "a"]
    assert [owners[SubtaskId(StageId("s1"), index)] for index in range(3)] == ["a", "b", "a"]


def test_a_job_needs_a_task_manager():
    with pytest.raises(UsageError, match="no TaskManager"):
        assign_subtasks(two_stages().build(), [])


def test_v1_the_plan_lists_nodes_with_predecessors_and_stages_with_chained_names():
    plan = json.loads(plan_json(two_stages().build(3)))
    source, selector, process, sink = plan["nodes"]
    assert source["pact"] == "Data Source" and "predecessors" not in source
    assert selector["contents"] == "Key By: str.upper (in Python)"
    assert selector["predecessors"][0]["jvm"] == ["where(amount > 0)"]
    assert process["predecessors"] == [{"id": selector["id"], "ship_strategy": "HASH", "side": "second"}]
    assert process["parallelism"] == 3 and process["type"] == "KEYED PROCESS"
    assert sink["pact"] == "Data Sink" and sink["predecessors"][0]["ship_strategy"] == "FORWARD"
    assert [stage["name"] for stage in plan["stages"]] == ["Key By", "KEYED PROCESS -> Print"]
    assert [stage["inputs"] for stage in plan["stages"]] == [["source 0"], ["s0"]]


def test_v1_the_plan_is_json_and_a_python_literal():
    text = plan_json(two_stages().build(3))
    assert isinstance(text, str)
    assert eval(text) == json.loads(text)
    assert [stage["keyed"] for stage in eval(text)["stages"]] == [0, 1]


def test_v1_a_key_of_columns_is_a_note_on_the_edge():
    p = Program()
    p.to_spark(p.process(p.key_by(p.source(), "customer", "amount")))
    source, process, sink = json.loads(plan_json(p.build()))["nodes"]
    assert process["predecessors"][0] == {
        "id": source["id"],
        "ship_strategy": "HASH",
        "side": "second",
        "key": "customer, amount",
    }
    assert sink["type"] == "Sink: Spark" and sink["predecessors"][0]["id"] == process["id"]


def test_v1_a_change_of_parallelism_shows_as_rebalance():
    p = Program()
    p.map(p.map(p.source()), parallelism=5)
    last = json.loads(plan_json(p.build()))["nodes"][-1]
    assert last["predecessors"][0]["ship_strategy"] == "REBALANCE" and last["parallelism"] == 5


def test_v1_what_a_selector_stage_passes_on_comes_from_its_source():
    p = Program()
    source = p.source()
    p.process(p.key_by_function(source))
    p.map(source).chain_before = False
    plan = json.loads(plan_json(p.build()))
    assert plan["nodes"][-1]["predecessors"][0]["id"] == plan["nodes"][0]["id"]
