"""The environment: sources, settings, execution."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.control.submission import Submission, submitted
from penstock.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    JobClient,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import ArgumentError, ConfigurationError, TypeMismatchError, UsageError
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import EventTime
from penstock.model.execution import JobStatus
from penstock.model.time import TimeSpan, milliseconds
from penstock.model.types import resolve_type

Env = StreamExecutionEnvironment


def test_a_dataframe_must_be_streaming(env: Env, frame: Any):
    env.from_dataframe(type(frame)(isStreaming=False)).map(str)
    with pytest.raises(UsageError, match=r"is not streaming; read it with env\.spark\.readStream.*or, if every source"):
        env.execute("static")
    with pytest.raises(TypeError, match="takes a Spark DataFrame, not an object of type list"):
        env.from_dataframe([1])


def test_spark_connect_is_refused_with_a_way_out(env: Env, spark: Any):
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(UsageError, match=r"belongs to Spark Connect.*without \.remote"):
        env.from_dataframe(connect)
    with pytest.raises(UsageError, match="the session belongs to Spark Connect"):
        Env.get_execution_environment(spark=connect)


def test_event_time_names_a_timestamp_column(env: Env, frame: Any):
    stream = env.from_dataframe(frame, event_time="at", max_out_of_orderness=Duration.of_seconds(3), name="orders")
    assert stream._node.payload.event_time == EventTime("at", 3000)
    assert stream.get_name() == "orders"
    with pytest.raises(UsageError, match="no column 'when' for the event time; the DataFrame has 'customer'"):
        env.from_dataframe(frame, event_time="when")
    with pytest.raises(UsageError, match="'customer' is of type STRING; use a timestamp"):
        env.from_dataframe(frame, event_time="customer")
    with pytest.raises(UsageError, match="has no effect without event_time="):
        env.from_dataframe(frame, max_out_of_orderness=5)


@pytest.mark.parametrize(
    "span", ["5 seconds", "5s", 5000, Duration.of_seconds(5), Time.seconds(5), timedelta(seconds=5)]
)
def test_a_span_of_time_is_taken_in_every_form(span: Any):
    assert milliseconds(span) == 5000


def test_a_duration_is_not_negative():
    with pytest.raises(UsageError, match="negative duration"):
        milliseconds(timedelta(seconds=-1))
    with pytest.raises(UsageError, match="is not a duration"):
        milliseconds("soon")
    with pytest.raises(UsageError, match="is not a duration"):
        milliseconds(2.5)  # type: ignore[arg-type]


def test_a_collection_is_read_at_once(env: Env):
    stream = env.from_collection((n for n in (1, 2)), Types.LONG())
    assert stream._node.payload.object.records == (1, 2)
    assert stream._node.payload.bounded
    for wrong in ("text", 3, {"a": 1}, None):
        with pytest.raises(TypeError, match="takes a list of records"):
            env.from_collection(wrong)  # type: ignore[arg-type]


def test_a_connector_is_a_source_and_says_its_type(env: Env, tmp_path: Path):
    numbers = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")
    assert (numbers.get_type(), numbers.get_name()) == (Types.LONG(), "numbers")
    files = FileSource.of(tmp_path, "json", "a bigint")
    assert env.add_source(files).get_type() == resolve_type("a bigint")
    with pytest.raises(TypeMismatchError, match="type_info is STRING, but the source's records are LONG"):
        env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "n", Types.STRING())
    with pytest.raises(TypeError, match="not a source: an object of type FakeFrame.*from_dataframe"):
        env.from_source(type("FakeFrame", (), {})(), WatermarkStrategy.no_watermarks(), "n")


def test_a_watermark_strategy_with_an_assigner_follows_the_source(env: Env):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    source = NumberSequenceSource(1, 9)
    assert env.from_source(source, strategy, "n")._node.kind == "source"
    assigned = strategy.with_timestamp_assigner(lambda value, timestamp: value)
    assert env.from_source(source, assigned, "n")._node.payload.kind == "timestamps"


def test_execute_hands_graph_settings_name_and_session_to_the_job_manager(env: Env, spark: Any):
    env.from_collection([1]).print()
    assert env.execute("totals") == "result"
    (job,) = spark.jobs
    assert job.name == "totals" and job.spark is spark
    assert [stage.parallelism for stage in job.graph.stages] == [2]
    assert job.configuration.get_integer("parallelism.default", 0) == 2


def test_what_was_executed_is_not_executed_again(env: Env, spark: Any):
    mapped = env.from_collection([1]).map(str)
    mapped.print()
    env.execute("first")
    with pytest.raises(UsageError, match="No operators defined in streaming topology"):
        env.execute("second")
    mapped.print()
    env.execute("third")
    assert [job.name for job in spark.jobs] == ["first", "third"]
    assert spark.jobs[1].graph.stages[0].name == "Map -> Print to Std. Out"


def test_execute_async_gives_a_client_that_shows_the_job(env: Env):
    env.from_collection([1]).print()
    client = env.execute_async("totals")
    assert isinstance(client, JobClient)
    assert client.get_job_id() == "0123456789abcdef0123456789abcdef"
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.get_job_execution_result().result(5) == "result"
    assert client.get_accumulators().result() == {}
    assert repr(client) == "<JobClient 0123456789abcdef0123456789abcdef RUNNING>"


def test_n2_n3_a_client_takes_savepoints(env: Env, spark: Any):
    env.from_collection([1]).print()
    client = env.execute_async("totals")
    assert client.trigger_savepoint("sp").result(5) == "sp/savepoint"
    assert client.trigger_savepoint(format_type="NATIVE").result(5) == "default/savepoint"
    assert client.stop_with_savepoint(True, "sp").result(5) == "sp/savepoint"
    requests = spark.jobs[0].savepoints
    assert [(request.format, request.then, request.drain) for request in requests] == [
        ("canonical", "go_on", False),
        ("native", "go_on", False),
        ("canonical", "stop", True),
    ]
    with pytest.raises(UsageError, match="choose 'canonical' or 'native'"):
        client.stop_with_savepoint(False, format_type="pickle")


def test_a_future_gives_the_error_of_its_work(env: Env, spark: Any):
    env.from_collection([1]).print()
    client = env.execute_async("totals")
    spark.jobs[0].wait = lambda: (_ for _ in ()).throw(ValueError("broken"))
    future = client.get_job_execution_result()
    assert isinstance(future.exception(), ValueError) and future.done()
    assert not future.cancel() and not future.cancelled()
    with pytest.raises(ValueError, match="broken"):
        future.result()


def test_cancelling_reaches_the_job(env: Env, spark: Any):
    env.from_collection([1]).print()
    env.execute_async("totals").cancel().result()
    assert spark.jobs[0].cancelled == 1


def test_execute_and_collect_iterates_over_the_records_and_ends_the_job(env: Env, spark: Any):
    spark.records = [1, 2, 3]
    with env.from_collection([1, 2, 3]).execute_and_collect("c") as records:  # type: ignore[union-attr]
        assert next(records) == 1
        assert list(records) == [2, 3]
    assert spark.jobs[0].cancelled == 1
    assert list(records) == []
    records.close()
    assert spark.jobs[0].cancelled == 1


def test_execute_and_collect_with_a_limit_is_a_list(env: Env, spark: Any):
    spark.records = [1, 2, 3]
    assert env.from_collection([1, 2, 3]).execute_and_collect(limit=2) == [1, 2]
    assert spark.jobs[0].cancelled == 1


def test_v1_the_execution_plan_is_json_and_runs_nothing(env: Env, spark: Any):
    env.from_collection([1], Types.LONG()).map(str).map(str).print()
    plan = json.loads(env.get_execution_plan())
    assert [node["type"] for node in plan["nodes"]] == [
        "Source: Collection Source",
        "Map",
        "Map",
        "Sink: Print to Std. Out",
    ]
    assert plan["stages"][0]["name"] == "Map -> Map -> Print to Std. Out"
    assert spark.jobs == []
    env.execute("still there")


def test_the_session_is_made_once_from_the_spark_settings(spark: Any):
    configuration = Configuration().set_string("spark.executor.memory", "1g").set_integer("parallelism.default", 3)
    env = Env.get_execution_environment(configuration)
    assert env.spark is spark and spark.settings == {"spark.executor.memory": "1g"}
    assert env.spark is env.spark


def test_a_session_that_is_handed_in_is_used(spark: Any):
    env = Env.get_execution_environment(spark=spark)
    assert env.spark is spark and spark.settings == {}
    assert env.get_parallelism() == 6


@pytest.mark.parametrize(("master", "expected"), [("local", 1), ("local[3]", 3), ("local[5,4]", 5)])
def test_parallelism_is_the_number_of_cores(spark: Any, master: str, expected: int):
    assert (
        Env.get_execution_environment(Configuration().set_string("spark.master", master)).get_parallelism() == expected
    )


def test_parallelism_on_a_cluster_is_what_spark_says(spark: Any):
    env = Env.get_execution_environment(Configuration().set_string("spark.master", "spark://host:7077"))
    assert env.get_parallelism() == 6


def test_parallelism_without_a_master_is_that_of_the_machine(spark: Any):
    assert Env.get_execution_environment().get_parallelism() >= 1


def test_the_program_wins_over_flags_and_flags_over_the_file(spark: Any, tmp_path: Path):
    (tmp_path / "penstock.yaml").write_text("parallelism.default: 3\npipeline.max-parallelism: 77\n", encoding="utf-8")
    env = Env.get_execution_environment()
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 77)
    flags = Submission(tmp_path / "job.py", overrides={"pipeline.max-parallelism": "99"}, parallelism=4)
    with submitted(flags):
        assert (env.get_parallelism(), env.get_max_parallelism()) == (4, 99)
        env.set_parallelism(5).set_max_parallelism(11)
        assert (env.get_parallelism(), env.get_max_parallelism()) == (5, 11)


def test_an_unknown_key_is_an_error_that_suggests_the_nearest(env: Env):
    env.configure(Configuration().set_string("paralelism.default", "2"))
    with pytest.raises(ConfigurationError, match=r"did you mean 'parallelism\.default'"):
        env.get_parallelism()


def test_a_job_is_called_after_the_program_the_flag_the_setting_or_the_file(spark: Any, tmp_path: Path):
    env = Env.get_execution_environment(Configuration().set_integer("parallelism.default", 1))

    def name_of(given: str | None) -> str:
        env.from_collection([1]).print()
        env.execute(given)
        return str(spark.jobs[-1].name)

    with submitted(Submission(tmp_path / "totals.py")):
        assert name_of(None) == "totals"
        env.configure(Configuration().set_string("pipeline.name", "from-setting"))
        assert name_of(None) == "from-setting"
    with submitted(Submission(tmp_path / "totals.py", name="from-flag")):
        assert name_of(None) == "from-flag"
        assert name_of("from-program") == "from-program"


def test_max_parallelism_has_limits(env: Env):
    assert env.get_max_parallelism() == -1
    for wrong in (0, 32769, "8", True):
        with pytest.raises(UsageError, match="max parallelism"):
            env.set_max_parallelism(wrong)  # type: ignore[arg-type]


def test_v2_chaining_can_be_switched_off_for_the_job(env: Env, spark: Any):
    assert env.is_chaining_enabled()
    env.disable_operator_chaining().from_collection([1]).map(str).map(str)
    env.execute("unchained")
    assert not env.is_chaining_enabled()
    assert len(spark.jobs[0].graph.stages) == 2


def test_generated_uids_can_be_forbidden(env: Env):
    env.get_config().disable_auto_generated_uids()
    env.from_collection([1]).map(str)
    with pytest.raises(UsageError, match="auto generated UIDs have been disabled"):
        env.get_execution_plan()


def test_w1_batch_mode_is_chosen_or_found_out(env: Env, spark: Any, frame: Any):
    modes = RuntimeExecutionMode
    for mode, bounded in [(modes.STREAMING, False), (modes.BATCH, True), (modes.AUTOMATIC, True)]:
        assert env.set_runtime_mode(mode) is env
        env.from_collection([1]).map(str)
        env.execute("bounded")
        assert spark.jobs[-1].graph.batch is bounded
    env.from_collection([1]).map(str)
    env.from_dataframe(frame).map(str)
    env.execute("unbounded")
    assert spark.jobs[-1].graph.batch is False
    with pytest.raises(ArgumentError, match="give a RuntimeExecutionMode, not 'BATCH'"):
        env.set_runtime_mode("BATCH")  # type: ignore[arg-type]


def test_w1_the_option_sets_the_mode_too(spark: Any):
    configuration = Configuration.from_dict({"execution.runtime-mode": "automatic"})
    env = Env.get_execution_environment(configuration)
    env.from_collection([1]).map(str)
    env.execute("automatic")
    assert spark.jobs[-1].graph.batch


def test_w1_batch_mode_refuses_a_source_that_never_ends(env: Env, frame: Any):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_dataframe(frame, name="orders").map(str)
    with pytest.raises(UsageError, match=r"source 'orders' \(.*\) never ends.*bounded source.*AUTOMATIC or STREAMING"):
        env.execute("endless")


def test_w1_a_static_dataframe_needs_batch_mode(env: Env, spark: Any, frame: Any):
    static = type(frame)(isStreaming=False)
    env.from_dataframe(static, name="prices").map(str)
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC).execute("static")
    assert spark.jobs[-1].graph.batch and spark.jobs[-1].graph.bounded
    env.from_dataframe(static, name="prices").map(str)
    env.from_dataframe(frame, name="orders").map(str)
    with pytest.raises(UsageError, match="source 'prices' .* is not streaming beside 'orders' .* which never ends"):
        env.execute("mixed")


def test_w3_a_reduce_has_another_operator_in_batch_mode(env: Env, spark: Any):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([("a", 1)], "name string, price bigint").key_by("name").sum("price").print()
    env.execute("sums")
    (stage,) = spark.jobs[-1].graph.stages
    assert stage.batch and [operator.kind for operator in stage.operators] == ["final_reduce", "sink"]
    assert stage.operators[0].keyed


def test_settings_without_effect_are_accepted(env: Env):
    assert env.is_changelog_state_backend_enabled() is None
    assert env.set_buffer_timeout(5).register_slot_sharing_group("a").enable_changelog_state_backend(True) is env
    assert env.get_buffer_timeout() == 5 and env.is_changelog_state_backend_enabled() is True
    env.set_python_executable(sys.executable)  # the one that is used: nothing to say
    env.from_collection([1]).map(str).set_buffer_timeout(7).print()
    assert build_job_graph(env._graph, GraphSettings()).warnings == (
        "set_buffer_timeout() has no effect: records travel with their epoch, not in network buffers",
        "register_slot_sharing_group() has no effect: Spark places the tasks",
        "enable_changelog_state_backend() has no effect: checkpoints of both backends are already incremental",
    )
    assert env.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is False
    env.close()


@pytest.mark.parametrize(
    ("method", "arguments", "instead"),
    [
        ("set_python_requirements", ["r.txt", "cache"], "install the packages where"),
        ("add_python_archive", ["a.zip", "data"], "set spark.archives"),
        ("set_python_executable", ["/other/python3"], "in that of PYSPARK_PYTHON"),
        ("register_cached_file", ["a", "b"], "reads the file itself"),
    ],
)
def test_what_pyflink_gives_to_its_workers_is_accepted_with_a_line(
    env: Env, method: str, arguments: list[Any], instead: str
):
    getattr(env, method)(*arguments)
    env.from_collection([1]).map(str).print()
    (line,) = build_job_graph(env._graph, GraphSettings()).warnings
    assert line.startswith(f"{method}() has no effect: ") and instead in line


@pytest.mark.parametrize("key", ["execution.buffer-timeout.interval", "execution.buffer-timeout"])
def test_the_buffer_timeout_is_what_was_configured(env: Env, key: str):
    assert env.get_buffer_timeout() == 100
    env.configure(Configuration().set_string(key, "1 min"))
    assert env.get_buffer_timeout() == 60_000


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("create_input", [None]),
    ],
)
def test_what_is_not_there_says_so_and_what_to_do_instead(env: Env, method: str, arguments: list[Any]):
    with pytest.raises(UsageError, match=rf"{method}\(\) is not available; \w+"):
        getattr(env, method)(*arguments)


def test_jars_are_those_of_the_spark_session(env: Env):
    env.add_jars("a.jar", "file:///b.jar")
    env.add_classpaths("c.jar")
    assert env._configuration.get_string("spark.jars", "") == "a.jar,file:///b.jar,c.jar"
    with pytest.raises(UsageError, match="after the Spark session was created"):
        Env(Configuration(), spark=object()).add_jars("a.jar")


def test_the_default_local_parallelism_is_used_unless_the_program_sets_one():
    env = Env(Configuration())
    env.set_default_local_parallelism(3)
    assert env.get_default_local_parallelism() == env.get_parallelism() == 3
    env.set_parallelism(2).set_default_local_parallelism(5)
    assert (env.get_default_local_parallelism(), env.get_parallelism()) == (5, 2)
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()


def test_a_python_file_becomes_importable(env: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = tmp_path / "a_module_of_the_job.py"
    module.write_text("", encoding="utf-8")
    env.add_python_file(str(module))
    env.add_python_file(str(tmp_path))
    assert sys.path.count(str(tmp_path)) == 1
    with pytest.raises(UsageError, match="no file or folder"):
        env.add_python_file(str(tmp_path / "missing.py"))


def test_k1_checkpointing_is_off_until_it_is_enabled(env: Env):
    assert env.get_checkpoint_interval() == -1
    assert not env.get_checkpoint_config().is_checkpointing_enabled()
    assert env.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE) is env
    assert env.get_checkpoint_interval() == 5000
    assert env.get_checkpointing_mode() is env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    with pytest.raises(UsageError, match="Checkpoint interval must be larger than or equal to 10 ms"):
        env.enable_checkpointing(5)


@pytest.mark.parametrize("interval", ["5s", "5000 ms", Duration.of_seconds(5), Time.seconds(5), timedelta(seconds=5)])
def test_a_checkpoint_interval_is_taken_in_every_form(env: Env, interval: TimeSpan):
    assert env.enable_checkpointing(interval).get_checkpoint_interval() == 5000
    with pytest.raises(UsageError, match="Checkpoint interval must be larger than or equal to 10 ms"):
        env.enable_checkpointing("5 ms")
    with pytest.raises(UsageError, match="'soon' is not a duration such as '5s'"):
        env.enable_checkpointing("soon")


def test_checkpoint_settings_have_flink_s_defaults(env: Env):
    config = env.get_checkpoint_config()
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0 and config.is_fail_on_checkpointing_errors()
    retention = config.get_externalized_checkpoint_retention()
    assert retention is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled() and not config.is_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == Duration.of_millis(0)


def test_checkpoint_settings_are_settings_of_the_environment(env: Env):
    config = env.get_checkpoint_config()
    config.set_checkpoint_interval(1000).set_checkpoint_timeout(300_000).set_min_pause_between_checkpoints(500)
    config.set_max_concurrent_checkpoints(2).set_tolerable_checkpoint_failure_number(3)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    config.enable_unaligned_checkpoints().set_alignment_timeout(Duration.of_minutes(1))
    config.set_force_unaligned_checkpoints().set_checkpoint_storage_dir("/data/checkpoints")
    again = env.get_checkpoint_config()
    assert (again.get_checkpoint_timeout(), again.get_min_pause_between_checkpoints()) == (300_000, 500)
    assert (again.get_max_concurrent_checkpoints(), again.get_tolerable_checkpoint_failure_number()) == (2, 3)
    assert again.is_externalized_checkpoints_enabled()
    assert env.is_unaligned_checkpoints_enabled() and env.is_force_unaligned_checkpoints()
    assert again.get_aligned_checkpoint_timeout() == Duration.of_minutes(1)
    assert not again.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert not again.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()


def test_checkpoint_settings_of_flags_are_seen(env: Env, tmp_path: Path):
    with submitted(Submission(tmp_path / "job.py", overrides={"execution.checkpointing.interval": "5s"})):
        assert env.get_checkpoint_interval() == 5000


def test_checkpoint_settings_are_checked(env: Env):
    config = env.get_checkpoint_config()
    with pytest.raises(UsageError, match="timeout must be larger than or equal to 10 ms"):
        config.set_checkpoint_timeout(1)
    with pytest.raises(UsageError, match="The maximum number of concurrent attempts must be at least one"):
        config.set_max_concurrent_checkpoints(0)
    with pytest.raises(TypeError, match="CheckpointingMode"):
        config.set_checkpointing_mode("EXACTLY_ONCE")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ExternalizedCheckpointRetention"):
        config.set_externalized_checkpoint_retention("RETAIN")  # type: ignore[arg-type]


def test_the_savepoint_folder_is_kept(env: Env):
    assert env.get_default_savepoint_directory() is None
    assert (
        env.set_default_savepoint_directory("/data/savepoints").get_default_savepoint_directory() == "/data/savepoints"
    )


def test_an_environment_takes_a_copy_of_its_configuration(spark: Any):
    configuration = Configuration().set_integer("parallelism.default", 3)
    env = Env.get_execution_environment(configuration)
    env.set_parallelism(4)
    assert configuration.get_integer("parallelism.default", 0) == 3
