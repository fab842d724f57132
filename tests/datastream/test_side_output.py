"""`OutputTag` and `get_side_output`: what they add to the program, and what is refused."""

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from penstock.errors import TypeMismatchError, UsageError, UserFunctionError
from penstock.graph.job_graph import JobGraph
from penstock.graph.plan_json import plan_json
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.testing import Harness

Env = StreamExecutionEnvironment
LATE = OutputTag("late", "name string, amount long")


class Aside(ProcessFunction):
    """Everything goes aside."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield LATE, value


def build(env: Env, **settings: Any) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(2, **settings))


def test_tags_are_equal_by_their_id_also_after_pickling() -> None:
    assert OutputTag("late") == OutputTag("late", Types.LONG()) != OutputTag("early")
    assert len({OutputTag("late"), copy.copy(LATE), pickle.loads(pickle.dumps(LATE))}) == 1
    assert pickle.loads(pickle.dumps(LATE)).type_info == LATE.type_info
    assert OutputTag("late") != "late" and "OutputTag('late'" in repr(LATE)


def test_the_type_of_a_tag_is_declared_in_any_form_and_a_list_is_a_row() -> None:
    assert OutputTag("t", [Types.STRING(), Types.LONG()]).type_info == Types.ROW([Types.STRING(), Types.LONG()])
    assert OutputTag("t", "bigint").type_info == Types.LONG()


def test_a_tag_without_an_id_and_one_with_something_else_for_a_type_are_refused() -> None:
    for empty in (None, ""):
        with pytest.raises(ValueError, match="tag_id cannot be None or empty string"):
            OutputTag(empty)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is text, not 5"):
        OutputTag(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="type_info must be None, list or TypeInformation"):
        OutputTag("late", 5)


def test_a_side_output_runs_in_the_subtasks_of_its_operator_whatever_the_settings_are(env: Env) -> None:
    main = env.from_collection([1]).process(Aside()).set_parallelism(3).disable_chaining()
    main.get_side_output(LATE).set_parallelism(1).map(str).set_parallelism(3)
    for chaining in (True, False):
        first, second = build(env, chaining=chaining).stages
        assert [(o.kind, o.inputs) for o in first.operators] == [("process", (-1,)), ("side_output", (0,))]
        assert (first.parallelism, first.name) == (3, "PROCESS")
        assert [(edge.source.position, edge.record_type) for edge in first.outputs] == [(1, LATE.type_info)]  # type: ignore[union-attr]
        assert [o.kind for o in second.operators] == ["map"]


def test_operators_after_a_side_output_are_chained_to_it(env: Env) -> None:
    main = env.from_collection([1]).process(Aside())
    main.get_side_output(LATE).map(str)
    main.map(str)
    (stage,) = build(env).stages
    assert [(o.kind, o.inputs) for o in stage.operators] == [
        ("process", (-1,)),
        ("side_output", (0,)),
        ("map", (1,)),
        ("map", (0,)),
    ]


def test_a_side_output_needs_no_uid_and_is_no_operator_of_a_snapshot(env: Env) -> None:
    main = env.from_collection([1]).uid("numbers").process(Aside()).uid("aside")
    main.get_side_output(LATE).print().uid("print")
    (stage,) = build(env, generate_uids=False).stages
    assert stage.uids == ("aside", "print")


def test_the_plan_shows_the_operator_before_what_reads_its_side_output(env: Env) -> None:
    main = env.from_collection([1]).process(Aside()).name("aside")
    main.get_side_output(LATE).print()
    nodes = json.loads(plan_json(build(env)))["nodes"]
    assert [node["type"] for node in nodes[1:]] == ["aside", "Sink: Print to Std. Out"]
    assert nodes[2]["predecessors"][0]["id"] == nodes[1]["id"]


def test_the_uid_of_what_reads_a_side_output_depends_on_the_tag(env: Env) -> None:
    main = env.from_collection([1]).process(Aside())
    for tag in (LATE, OutputTag("early")):
        main.get_side_output(tag).map(str)
    (stage,) = build(env).stages
    assert len({operator.uid for operator in stage.operators}) == 5


def test_records_of_a_row_type_are_rows(env: Env) -> None:
    main = env.from_collection([("a", 1)]).process(Aside())
    main.get_side_output(LATE).map(lambda row: (row.name, row.amount)).to_spark(lambda df, epoch: None)
    assert Harness(build(env)).feed([("a", 1), Row("b", 2)]).output == [("a", 1), ("b", 2)]


def test_a_record_that_does_not_fit_the_type_of_its_tag_names_operator_and_tag(env: Env) -> None:
    main = env.from_collection([1]).process(Aside()).name("aside")
    main.get_side_output(LATE).map(lambda row: row.name)
    with pytest.raises(UserFunctionError, match=r"aside \(side output 'late'\)"):
        Harness(build(env)).feed([5])


def test_only_the_stream_of_an_operator_has_side_outputs(env: Env) -> None:
    numbers = env.from_collection([1])
    operator = numbers.process(Aside())
    for stream in (
        numbers,
        operator.key_by(str),
        operator.union(numbers.map(str)),
        operator.rebalance(),
        operator.get_side_output(LATE),
    ):
        with pytest.raises(UsageError, match="needs the stream of an operator"):
            stream.get_side_output(LATE)
    with pytest.raises(TypeError, match="takes an OutputTag, not 'late'"):
        operator.get_side_output("late")  # type: ignore[arg-type]


def test_one_id_with_two_types_is_refused(env: Env) -> None:
    operator = env.from_collection([1]).process(Aside()).name("aside")
    operator.get_side_output(LATE)
    operator.get_side_output(OutputTag("late", "name string, amount long"))
    with pytest.raises(TypeMismatchError, match="matching id was already requested with a different type.*'aside'"):
        operator.get_side_output(OutputTag("late", Types.LONG()))
