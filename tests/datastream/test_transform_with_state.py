"""`transform_with_state`: what is accepted, and what is refused when the program is built."""

from typing import Any

import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.keyed_stream import KeyedStream
from penstock.errors import ArgumentError, UsageError
from penstock.graph.pickling import loads
from penstock.graph.runtime_mode import choose_batch
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import OperatorSpec
from penstock.model.execution import RuntimeExecutionMode
from penstock.spark.stateful_processors import ProcessorSettings, SparkProcessorFunction

Env = StreamExecutionEnvironment
OUTPUT = "key string, n bigint"


class Nothing(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return iter(())


@pytest.fixture
def keyed(env: Env) -> KeyedStream:
    return env.from_collection([("a", 1)], "key string, value int").key_by("key")


def test_the_operator_is_keyed_and_has_the_types_of_its_streams(keyed: KeyedStream) -> None:
    stream = keyed.transform_with_state(Nothing(), OUTPUT, "Update", "ProcessingTime")
    (plan,) = build_job_graph(keyed.get_execution_environment()._graph, GraphSettings(2)).stages[-1].operators
    settings = loads(plan.function).settings
    assert (plan.kind, plan.keyed, plan.name) == ("keyed_epoch", True, "TransformWithState")
    assert (settings.form, settings.time_mode) == ("rows", "ProcessingTime")
    assert settings.input_type == keyed.get_type() and settings.output_type == stream.get_type() == plan.output_type
    assert settings.key_types == (Types.STRING(),)


def test_the_names_of_sparks_parameters_are_accepted(keyed: KeyedStream) -> None:
    schema = StructType([StructField("n", LongType())])
    stream = keyed.transform_with_state_in_pandas(
        statefulProcessor=Nothing(), outputStructType=schema, outputMode="Append", timeMode="none", initialState=None
    )
    assert stream.get_type().text == 'ROW<"n" LONG>'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"processor": Nothing}, "a StatefulProcessor is required, not the class Nothing"),
        ({"output_type": None}, "needs the fields of its results; write output_type="),
        ({"output_type": "bigint"}, "needs the fields of its results"),
        ({"output_mode": "Complete"}, "output_mode='Complete'; it is 'Append' or 'Update'"),
        ({"time_mode": "Wall"}, "it is 'None', 'ProcessingTime' or 'EventTime'"),
        ({"time_mode": "EventTime"}, r"time_mode='EventTime' needs event time; write from_dataframe\(df, event_time="),
        ({"eventTimeColumnName": "at"}, r"call assign_timestamps_and_watermarks\(…\) on its result"),
        ({"timemode": "None"}, "no parameter 'timemode'"),
        ({"initial_state": [("a", 1)]}, "initial_state= takes a batch DataFrame"),
    ],
)
def test_wrong_use_is_refused_when_the_program_is_built(
    keyed: KeyedStream, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((ArgumentError, UsageError), match=message):
        keyed.transform_with_state(**{"processor": Nothing(), "output_type": OUTPUT, **arguments})


def test_records_without_named_fields_are_refused(env: Env) -> None:
    with pytest.raises(UsageError, match="needs rows with named fields, the records are TAGGED"):
        env.from_collection([("a", 1)]).key_by(lambda r: r[0]).transform_with_state(Nothing(), OUTPUT)


def test_event_time_may_come_from_timestamps_that_were_assigned(env: Env) -> None:
    rows = env.from_collection([("a", 1)], "key string, value int")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.value)
    keyed = rows.assign_timestamps_and_watermarks(strategy).key_by("key")
    keyed.transform_with_state(Nothing(), OUTPUT, time_mode="EventTime")


def test_an_initial_state_is_refused_in_batch_mode(keyed: KeyedStream) -> None:
    settings = ProcessorSettings(initial_rows=(("a", ("a", 1)),))
    function = SparkProcessorFunction(Nothing(), settings)
    graph = keyed.get_execution_environment()._graph
    graph.add("operator", "Seeded", [keyed._node.id], OperatorSpec("keyed_epoch", function), keyed.get_type())
    with pytest.raises(UsageError, match="'Seeded'.* has an initial_state=, which batch mode does not load"):
        choose_batch(graph.to_execute(), RuntimeExecutionMode.BATCH)
    assert not choose_batch(graph.to_execute(), RuntimeExecutionMode.STREAMING)
