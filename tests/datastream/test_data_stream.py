"""Streams: what each call adds to the program, and what it refuses."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Duration, Row, TimestampAssigner, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction, ProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink
from penstock.errors import NotPicklableError, TypeMismatchError, UsageError
from penstock.graph.job_graph import JobGraph, StagePlan
from penstock.graph.pickling import loads
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.model.types import TAGGED, resolve_type

Env = StreamExecutionEnvironment


class RunningTotal(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.customer, value.amount


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def build(env: Env, parallelism: int = 2) -> JobGraph:
    return build_job_graph(env._graph, GraphSettings(parallelism))


def only_stage(env: Env) -> StagePlan:
    (stage,) = build(env).stages
    return stage


def function_of(env: Env, position: int = 0) -> Any:
    return loads(only_stage(env).operators[position].function)


def test_the_smallest_program_is_one_keyed_stage(env: Env, frame: Any):
    orders = env.from_dataframe(frame, event_time="at", max_out_of_orderness="5 seconds").uid("orders")
    totals = orders.key_by("customer").process(RunningTotal(), output_type="customer string, total double")
    totals.uid("running-total").print()
    stage = only_stage(env)
    assert stage.key_types == (Types.STRING(),)
    assert stage.operators[0].uid == "running-total" and stage.operators[0].explicit_uid
    assert stage.operators[0].output_type == resolve_type("customer string, total double")
    assert stage.watermark_generators[0].out_of_orderness_ms == 5000
    assert build(env).warnings == ()


def test_types_are_taken_in_every_form(env: Env):
    numbers = env.from_collection([1, 2], Types.LONG())
    assert numbers.get_type() == Types.LONG()
    assert numbers.map(str).get_type() == TAGGED
    assert numbers.map(str, Types.STRING()).get_type() == Types.STRING()
    assert numbers.flat_map(lambda n: [n], "a bigint").get_type() == resolve_type("a bigint")
    assert numbers.map(str, pa.schema([("s", pa.string())])).get_type() == resolve_type("s string")
    assert numbers.filter(bool).get_type() == Types.LONG()


def test_callables_and_function_objects_are_both_taken(env: Env):
    class Double(MapFunction):
        def map(self, value: Any) -> Any:
            return value * 2

    env.from_collection([1]).map(Double()).map(lambda n: n + 1).map(str)
    assert [function_of(env, index).map(3) for index in range(3)] == [6, 4, "3"]


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "key_by"])
def test_a_missing_function_is_a_type_error(env: Env, method: str):
    with pytest.raises(TypeError, match="or a callable function, not None"):
        getattr(env.from_collection([1]), method)(None)


def test_a_keyed_function_on_a_stream_without_key_says_key_by_first(env: Env):
    with pytest.raises(UsageError, match=r"RunningTotal is a KeyedProcessFunction.*\.key_by\("):
        env.from_collection([1]).process(RunningTotal())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a ProcessFunction"):
        env.from_collection([1]).process(lambda value: value)  # type: ignore[arg-type]


def test_key_by_columns_needs_named_columns(env: Env, frame: Any):
    with pytest.raises(UsageError, match="no column 'client' to key by; the records have 'customer', 'amount', 'at'"):
        env.from_dataframe(frame).key_by("client")
    with pytest.raises(UsageError, match="needs records with named columns.*output_type="):
        env.from_collection([1]).key_by("customer")
    with pytest.raises(TypeError, match="not 3 among the names"):
        env.from_dataframe(frame).key_by("customer", 3)


def test_key_by_several_columns_keeps_their_order(env: Env, frame: Any):
    env.from_dataframe(frame).key_by("amount", "customer", "at").process(RunningTotal())
    (edge,) = only_stage(env).inputs
    assert edge.key_columns == ("amount", "customer", "at")
    assert edge.key_types == (Types.DOUBLE(), Types.STRING(), Types.SQL_TIMESTAMP())


def test_key_by_a_function_takes_a_type_as_in_pyflink(env: Env):
    numbers = env.from_collection([1])
    numbers.key_by(lambda n: str(n), Types.STRING()).process(RunningTotal())
    numbers.key_by(lambda n: (n, n), key_type=Types.TUPLE([Types.INT(), Types.LONG()])).process(RunningTotal())
    numbers.key_by(lambda n: n).process(RunningTotal())
    keyed = [stage.key_types for stage in build(env).stages if stage.keyed]
    assert keyed == [(Types.STRING(),), (Types.INT(), Types.LONG()), (TAGGED,)]


def test_pickles_and_containers_cannot_be_keys(env: Env):
    numbers = env.from_collection([1])
    with pytest.raises(UsageError, match="equal keys may have different pickles"):
        numbers.key_by(lambda n: n, key_type=Types.PICKLED_BYTE_ARRAY())
    with pytest.raises(UsageError, match="cannot be a key"):
        numbers.key_by(lambda n: n, key_type=Types.LIST(Types.INT()))
    with pytest.raises(UsageError, match="return a tuple"):
        numbers.key_by(lambda n: n, None, "customer")


def test_sql_stays_in_the_jvm_and_changes_the_type(env: Env, frame: Any):
    orders = env.from_dataframe(frame)
    clean = orders.where("amount > 0").with_column("cents", "cast(amount * 100 as bigint)").select("customer", "cents")
    assert clean.get_type() == resolve_type("customer string, cents bigint")
    clean.to_spark(lambda df, epoch: None)
    job = build(env)
    assert job.stages == ()
    assert job.spark_sinks[0].edges[0].jvm_ops == (
        ("where", "amount > 0"),
        ("with_column", "cents", "cast(amount * 100 as bigint)"),
        ("select", "customer", "cents"),
    )


@pytest.mark.parametrize(
    ("method", "arguments", "instead"),
    [("where", ["a > 0"], "filter"), ("select", ["a"], "map"), ("with_column", ["a", "1"], "map")],
)
def test_sql_behind_python_is_refused_with_a_way_out(
    env: Env, frame: Any, method: str, arguments: list[str], instead: str
):
    for stream in (env.from_dataframe(frame).map(str), env.from_collection([1])):
        with pytest.raises(UsageError, match=rf"{method}\(\) is SQL in the JVM.*use {instead}\("):
            getattr(stream, method)(*arguments)


def test_sql_behind_key_by_is_refused(env: Env, frame: Any):
    with pytest.raises(UsageError, match=r"call it before key_by\(\)"):
        env.from_dataframe(frame).key_by("customer").where("amount > 0")


def test_sql_must_be_text(env: Env, frame: Any):
    with pytest.raises(TypeError, match="SQL as text"):
        env.from_dataframe(frame).where(lambda r: r.amount > 0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one column"):
        env.from_dataframe(frame).select()


def test_union_needs_one_type_and_one_environment(env: Env, frame: Any):
    numbers = env.from_collection([1], Types.LONG())
    with pytest.raises(TypeMismatchError, match="Cannot union streams of different types: LONG and STRING"):
        numbers.union(env.from_collection(["a"], Types.STRING()))
    other = Env.get_execution_environment().from_collection([1], Types.LONG())
    with pytest.raises(UsageError, match="streams of the same environment"):
        numbers.union(other)
    assert numbers.union() is numbers


def test_union_with_a_keyed_stream_takes_its_records(env: Env):
    numbers = env.from_collection([1], Types.LONG())
    keyed = env.from_collection([2], Types.LONG()).key_by(str)
    numbers.union(keyed).print()
    keyed.union(numbers).print()
    assert all(not stage.keyed and len(stage.inputs) == 2 for stage in build(env).stages)


def test_partitioning_methods_make_an_exchange(env: Env):
    for method in ("rebalance", "rescale", "shuffle"):
        getattr(env.from_collection([1]).map(str), method)().map(str)
    found = [stage.inputs[0].partitioning for stage in build(env).stages]
    assert found == ["forward", "rebalance", "forward", "rescale", "forward", "shuffle"]


def test_v2_names_parallelism_and_chaining_are_set_on_the_operator(env: Env):
    mapped = env.from_collection([1]).map(str)
    assert mapped.name("first").set_parallelism(3).set_description("d") is mapped
    mapped.map(str).name("second").set_parallelism(3).disable_chaining()
    mapped.map(str).name("third").set_parallelism(3).start_new_chain()
    assert mapped.get_name() == "first"
    assert [(stage.name, stage.parallelism) for stage in build(env).stages] == [
        ("first", 3),
        ("second", 3),
        ("third", 3),
    ]


def test_settings_that_spark_decides_are_accepted(env: Env):
    mapped = env.from_collection([1]).map(str)
    assert mapped.slot_sharing_group("a").set_buffer_timeout(5) is mapped


def test_an_operator_that_is_not_parallel_stays_so(env: Env):
    mapped = env.from_collection([1]).map(str).force_non_parallel()
    with pytest.raises(UsageError, match="its parallelism must be 1"):
        mapped.set_parallelism(2)
    assert only_stage(env).parallelism == 1


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2"])
def test_parallelism_must_be_a_positive_number(env: Env, value: Any):
    with pytest.raises(UsageError, match="it must be a whole number, 1 or more"):
        env.from_collection([1]).map(str).set_parallelism(value)
    with pytest.raises(UsageError, match="it must be a whole number, 1 or more"):
        env.set_parallelism(value)


def test_uids_belong_to_operators(env: Env, frame: Any):
    orders = env.from_dataframe(frame).uid("orders")
    with pytest.raises(UsageError, match="call it on the stream that the operator returned"):
        orders.where("amount > 0").uid("x")
    with pytest.raises(UsageError, match="call it on the stream"):
        orders.union(orders).set_parallelism(2)
    with pytest.raises(UsageError, match="uid '' cannot be used"):
        orders.map(str).uid("")
    orders.map(str).print().uid("out").name("Out")
    job = build(env)
    assert job.sources[0].uid == "orders" and job.sources[0].explicit_uid
    assert job.sinks[0].uid == "out" and job.sinks[0].name == "Out"


def test_o3_a_uid_hash_stands_in_for_a_uid(env: Env):
    env.from_collection([1]).map(str).set_uid_hash("a" * 32)
    assert only_stage(env).uids == ("a" * 32,)


def test_a_timestamp_assigner_makes_a_timestamps_operator(env: Env):
    class Second(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(Second())
    stream = env.from_collection([("a", 1)]).assign_timestamps_and_watermarks(strategy)
    stream.uid("times").map(str)
    stage = only_stage(env)
    assert [operator.kind for operator in stage.operators] == ["timestamps", "map"]
    assert loads(stage.operators[0].function).timestamp_assigner.extract_timestamp(("a", 7), 0) == 7
    assert stage.watermark_generators[0].uid == "times"
    with pytest.raises(TypeError, match="must be a WatermarkStrategy"):
        stream.assign_timestamps_and_watermarks(Second())  # type: ignore[arg-type]


def test_project_keeps_some_fields(env: Env, frame: Any):
    assert env.from_dataframe(frame).project(1, 0).get_type() == resolve_type("amount double, customer string")
    assert function_of(env).map(Row(customer="ada", amount=1.0, at=None)) == (1.0, "ada")


def test_sinks_are_checked(env: Env, tmp_path: Any):
    stream = env.from_collection([1])
    with pytest.raises(TypeError, match=r"call \.build\(\) on it"):
        stream.sink_to(FileSink.for_row_format(str(tmp_path), "json"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a sink, such as FileSink"):
        stream.sink_to(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a function of a DataFrame and an epoch"):
        stream.to_spark("table")  # type: ignore[arg-type]
    sink = FileSink.for_row_format(str(tmp_path), "json").build()
    stream.sink_to(sink)
    stream.add_sink(sink)
    assert [plan.spec.config for plan in build(env).sinks] == [sink, sink]


def test_print_keeps_its_identifier(env: Env):
    env.from_collection([1]).print("out")
    assert function_of(env).config == "out"


def test_a_function_that_cannot_be_sent_names_operator_and_variable(env: Env):
    guard = env
    env.from_collection([1]).map(lambda value: (guard, value)).name("Guarded")
    with pytest.raises(NotPicklableError, match="operator 'Guarded'.*'guard'.*cannot be used inside a function"):
        build(env)


def test_a_stream_cannot_be_used_inside_a_function(env: Env):
    stream = env.from_collection([1])
    stream.map(lambda value: stream.get_name())
    with pytest.raises(NotPicklableError, match="'stream'"):
        build(env)


def test_the_schema_is_that_of_the_records(env: Env, frame: Any, capsys: pytest.CaptureFixture[str]):
    orders = env.from_dataframe(frame)
    assert orders.schema.names == ["customer", "amount", "at"]
    assert env.from_collection([1], Types.LONG()).schema == pa.schema([("value", pa.int64())])
    orders.print_schema()
    env.from_collection([1]).print_schema()
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["root", " |-- customer: string", " |-- amount: double"]
    assert said[-1].startswith(" |-- value: untyped")


def test_a_stream_knows_its_environment(env: Env):
    stream = env.from_collection([1])
    assert stream.get_execution_environment() is env
    assert stream.get_execution_config() is env.get_config()
    assert repr(stream) == "<DataStream 'Collection Source' of TAGGED>"
    assert repr(stream.print()) == "<DataStreamSink 'Print to Std. Out'>"
