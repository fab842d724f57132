"""Keyed streams: operators with state, aggregates, and what belongs elsewhere."""

from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.datastream import FilterFunction, KeySelector, ProcessFunction, StreamExecutionEnvironment
from penstock.datastream.keyed_stream import KeyedStream
from penstock.errors import UsageError
from penstock.graph.pickling import loads
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.model.types import TAGGED, TypeInformation
from tests.datastream.test_data_stream import RunningTotal

Env = StreamExecutionEnvironment


@pytest.fixture
def keyed(env: Env) -> KeyedStream:
    rows = env.from_collection([("a", 1)], Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()]))
    return rows.key_by("key")


def operators(stream: KeyedStream) -> Any:
    job = build_job_graph(stream.get_execution_environment()._graph, GraphSettings(2))
    return job.stages[-1].operators


def fold(stream: KeyedStream, *records: Any) -> Any:
    """What the only reduce of the stream makes of the records."""
    function = loads(operators(stream)[0].function)
    result = records[0]
    for record in records[1:]:
        result = function.reduce(result, record)
    return result


def test_operators_of_a_keyed_stream_run_with_its_key(keyed: KeyedStream):
    class Some(FilterFunction):
        def filter(self, value: Any) -> bool:
            return True

    keyed.map(str, Types.STRING())
    keyed.flat_map(lambda value: [value])
    keyed.filter(Some())
    keyed.process(RunningTotal())
    keyed.reduce(max)
    plans = operators(keyed)
    assert [plan.kind for plan in plans] == [
        "keyed_map",
        "keyed_flat_map",
        "keyed_filter",
        "keyed_process",
        "reduce",
    ]
    assert all(plan.keyed and plan.key_types == (Types.STRING(),) for plan in plans)
    assert [plan.name for plan in plans] == ["Map", "FlatMap", "Filter", "KEYED PROCESS", "Reduce"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", ("a", 6)),
        ("min", ("a", 1)),
        ("max", ("a", 3)),
        ("min_by", ("b", 1)),
        ("max_by", ("c", 3)),
    ],
)
def test_aggregates_work_on_rows_by_name_and_by_position(keyed: KeyedStream, method: str, expected: Any):
    getattr(keyed, method)("value")
    rows = [Row(key="a", value=2), Row(key="b", value=1), Row(key="c", value=3)]
    assert fold(keyed, *rows) == expected
    assert fold(keyed, *rows)["key"] == expected[0]
    assert fold(keyed, ("a", 2), ("b", 1), ("c", 3)) == expected


def test_an_aggregate_is_a_reduce_with_its_own_state(keyed: KeyedStream):
    keyed.sum(1)
    (plan,) = operators(keyed)
    assert (plan.kind, plan.config, plan.name) == ("reduce", {"state": "_reduce"}, "Sum")
    assert plan.output_type == keyed.get_type()


def test_aggregates_on_plain_values_use_the_value(env: Env):
    numbers = env.from_collection([3, 1, 2], Types.LONG()).key_by(lambda n: 0)
    numbers.min()
    assert fold(numbers, 3, 1, 2) == 1


def test_a_field_to_aggregate_must_exist(keyed: KeyedStream):
    with pytest.raises(UsageError, match="no field 'total'"):
        keyed.sum("total")
    with pytest.raises(UsageError, match="no field 5"):
        keyed.max(5)
    with pytest.raises(TypeError, match="The field position must be of int or str type"):
        keyed.min_by(None)  # type: ignore[arg-type]


def test_an_untyped_column_is_no_key(env: Env):
    """Its values are stored with all that is visible of them: 1.5 and 1.50, or 0.0 and -0.0, would be two keys."""
    rows = env.from_collection([(1, 2)], Types.ROW_NAMED(["key", "value"], [None, Types.INT()]))
    with pytest.raises(UsageError, match=r"column 'key' is untyped.*key_by\(lambda row: row\['key'\]\)"):
        rows.key_by("value", "key")
    assert rows.key_by(lambda row: row["key"]).get_type() == rows.get_type()


class Initial(KeySelector):
    def open(self, runtime_context: Any) -> None:
        self.length = 1

    def get_key(self, value: Any) -> Any:
        return value[0][: self.length]


@pytest.mark.parametrize(
    ("key", "key_type", "found"),
    [
        (("key",), Types.STRING(), "ada"),
        (("key", "value"), Types.TUPLE([Types.STRING(), Types.INT()]), ("ada", 3)),
        ((lambda row: row[1] % 2, Types.LONG()), Types.LONG(), 1),
        ((Initial(),), TAGGED, "a"),
    ],
    ids=["a column", "columns", "a function", "a selector"],
)
def test_collected_records_come_with_their_key(
    env: Env, spark: Any, key: tuple[Any, ...], key_type: TypeInformation, found: Any
):
    kind = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])
    spark.records = ["what Spark returns"]
    collected = env.from_collection([("ada", 3)], kind).key_by(*key).execute_and_collect("pairs", limit=1)
    assert collected == ["what Spark returns"]
    with_key, _ = spark.jobs[-1].graph.stages[0].operators
    assert with_key.output_type == Types.ROW([key_type, kind])
    function = loads(with_key.function)
    function.open(None)
    pair = function.map(Row(key="ada", value=3))
    function.close()
    assert pair == (found, ("ada", 3)) and repr(pair).startswith("Row(f0=")


def test_process_needs_a_keyed_process_function(keyed: KeyedStream):
    class Plain(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    for given, name in (
        (Plain(), "an object of type Plain"),
        (RunningTotal, r"the class RunningTotal \(did you mean RunningTotal\(\)\?\)"),
        (None, "None"),
        (str, "the class str"),
    ):
        with pytest.raises(TypeError, match=f"KeyedProcessFunction is required for KeyedStream. The input is {name}"):
            keyed.process(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("name", ["x"], "Set name for KeyedStream is not supported"),
        ("get_name", [], "Get name of KeyedStream is not supported"),
        ("uid", ["x"], "Set uid for KeyedStream is not supported"),
        ("set_uid_hash", ["x"], "Set uid hash for KeyedStream is not supported"),
        ("set_parallelism", [2], "Set parallelism for KeyedStream is not supported"),
        ("set_max_parallelism", [2], "Set max parallelism for KeyedStream is not supported"),
        ("force_non_parallel", [], "Set force non-parallel for KeyedStream is not supported"),
        ("set_buffer_timeout", [2], "Set buffer timeout for KeyedStream is not supported"),
        ("start_new_chain", [], "Start new chain for KeyedStream is not supported"),
        ("disable_chaining", [], "Disable chaining for KeyedStream is not supported"),
        ("slot_sharing_group", ["x"], "Setting slot sharing group for KeyedStream is not supported"),
        ("cache", [], "Cache for KeyedStream is not supported"),
        ("shuffle", [], "Cannot override partitioning for KeyedStream."),
        ("rescale", [], "Cannot override partitioning for KeyedStream."),
        ("rebalance", [], "Cannot override partitioning for KeyedStream."),
        ("forward", [], "Cannot override partitioning for KeyedStream."),
        ("broadcast", [], "Cannot override partitioning for KeyedStream."),
        ("partition_custom", [None, None], "Cannot override partitioning for KeyedStream."),
    ],
)
def test_what_belongs_to_an_operator_is_refused_as_in_pyflink(
    keyed: KeyedStream, method: str, arguments: list[Any], text: str
):
    with pytest.raises(UsageError, match=text):
        getattr(keyed, method)(*arguments)


def test_keying_again_replaces_the_key(keyed: KeyedStream):
    keyed.key_by("value").process(RunningTotal())
    job = build_job_graph(keyed.get_execution_environment()._graph, GraphSettings(2))
    (stage,) = job.stages
    assert stage.key_types == (Types.INT(),)


def test_printing_a_keyed_stream_prints_its_records_in_its_stage(keyed: KeyedStream):
    keyed.print()
    (plan,) = operators(keyed)
    assert (plan.kind, plan.inputs, plan.keyed) == ("sink", (-1,), False)


def test_projecting_a_keyed_stream_leaves_the_key(keyed: KeyedStream):
    assert keyed.project(1).get_type() == Types.ROW_NAMED(["value"], [Types.INT()])
