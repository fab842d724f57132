"""Mistakes in a program that are errors where they are made, not when the job runs."""

from typing import Any

import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from penstock.errors import ArgumentError, TypeMismatchError, UsageError
from penstock.graph.stages import GraphSettings, build_job_graph

ROW = "name string, price bigint"


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


class NoContext(KeyedProcessFunction):
    def process_element(self, v: Any) -> Any:  # type: ignore[override]
        yield v


class Keeps(MapFunction):
    def map(self, value: Any) -> Any:
        return value


def test_functions_are_checked_by_every_method_that_takes_one(env: StreamExecutionEnvironment) -> None:
    orders = env.from_collection([("ada", 1)], ROW)
    keyed = orders.key_by("name")
    two: Any = lambda a, b: a  # noqa: E731
    one: Any = lambda a: a  # noqa: E731
    calls = {
        "map": lambda: orders.map(two),
        "flat_map": lambda: orders.flat_map(two),
        "filter": lambda: orders.filter(two),
        "key_by": lambda: orders.key_by(two),
        "reduce": lambda: keyed.reduce(one),
        "process": lambda: keyed.process(NoContext()),
        "with_timestamp_assigner": lambda: orders.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(one)
        ),
    }
    for method, call in calls.items():
        with pytest.raises(ArgumentError, match=rf"but {method}\(\) calls it with"):
            call()
    for method in ("map", "flat_map", "filter"):
        with pytest.raises(ArgumentError, match=rf"but {method}\(\) calls it with one argument"):
            getattr(keyed, method)(two)


def test_a_writer_for_spark_takes_a_dataframe_and_an_epoch(env: StreamExecutionEnvironment) -> None:
    orders = env.from_collection([("ada", 1)], ROW)
    with pytest.raises(
        ArgumentError, match=r"takes \(df\), but to_spark\(\) calls it with two arguments, \(df, epoch\)"
    ):
        orders.to_spark(lambda df: None)  # type: ignore[arg-type,misc]


def test_a_class_instead_of_an_instance_is_recognized(env: StreamExecutionEnvironment) -> None:
    orders = env.from_collection([("ada", 1)], ROW)
    with pytest.raises(ArgumentError, match=r"not the class Keeps \(did you mean Keeps\(\)\?\)"):
        orders.map(Keeps)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"the class NoContext \(did you mean NoContext\(\)\?\)"):
        orders.key_by("name").process(NoContext)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("records", "type_info", "said"),
    [
        (
            [1, {1, 2}],
            None,
            r"^collection\[1\] is \{1, 2\}: a value of type set has no declared type and is not a plain Python value; "
            r"make it a tuple, list, dict, Row, text, number or date, or declare type_info=$",
        ),
        (
            [("ada", 1), ("bob", "2")],
            ROW,
            r"^collection\[1\] is \('bob', '2'\): value '2' of type str does not fit the declared type LONG; change "
            r"the record, or declare another type_info=$",
        ),
        ([("ada", 1), ("bob",)], ROW, r"collection\[1\] is \('bob',\): .*number of fields: 1 instead of 2"),
        ([1, 2**70], Types.LONG(), r"collection\[1\] is 1180591620717411303424: .*\(it is too large\)"),
        (
            [300],
            Types.BYTE(),
            r"collection\[0\] is 300: value 300 of type int does not fit the declared type BYTE \(it is too large\)",
        ),
        (["a", 1], Types.STRING(), r"collection\[1\] is 1: value 1 of type int does not fit the declared type STRING"),
        ([{"name": "ada", "cost": 1}], ROW, r"its keys are not exactly name, price"),
    ],
)
def test_a_collection_that_does_not_fit_its_type_names_the_record(
    env: StreamExecutionEnvironment, records: list[Any], type_info: Any, said: str
) -> None:
    with pytest.raises(TypeMismatchError, match=said) as caught:
        env.from_collection(records, type_info)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_an_empty_collection_needs_a_type(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(UsageError, match=r"no records, so their type is unknown; declare it.*Types.STRING\(\)"):
        env.from_collection([])
    assert env.from_collection([], Types.STRING()).get_type() == Types.STRING()


def test_a_collection_that_fits_is_accepted(env: StreamExecutionEnvironment) -> None:
    for records, type_info in (
        ([1, "a", None, ("b", 2.0), {"c": [1]}], None),
        ([("ada", 1), ["bob", 2], Row(price=3, name="cyd"), {"name": "dan", "price": 4}], ROW),
        ([{1, 2}, object], Types.PICKLED_BYTE_ARRAY()),
        ((number for number in range(3)), Types.INT()),
    ):
        env.from_collection(records, type_info)


def test_an_operator_knows_the_line_that_created_it(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("ada", 1)], ROW)
    stream = (
        stream
        .key_by(lambda row: row.name)
        .map(Keeps())
        .uid("keeps")
    )  # fmt: skip
    stream.print()
    job = build_job_graph(env._graph, GraphSettings())
    keyed = job.stages[-1]
    assert keyed.operators[0].created.startswith(f"{__file__}:") and ".map(Keeps())" in keyed.operators[0].created
    assert ".key_by(lambda row: row.name)" in keyed.inputs[0].created
    assert keyed.operators[1].created.endswith(": stream.print()")
