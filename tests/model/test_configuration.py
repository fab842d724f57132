import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigurationError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.execution import ExecutionConfig, JobStatus
from penstock.model.options import (
    OLD_KEYS,
    OPTIONS,
    check_setting,
    find_option,
    ignored_settings,
    load_configuration,
    parse_duration_ms,
    parse_size_bytes,
    read_yaml,
)


def test_settings_are_written_and_read_by_type():
    configuration = Configuration()
    configuration.set_string("s", "x").set_integer("i", 5).set_float("f", 0.5).set_boolean("b", True)
    configuration.set_bytearray("y", bytearray(b"\x00\xff"))
    assert configuration.get_string("s", "") == "x" and configuration.get_integer("i", 0) == 5
    assert configuration.get_float("f", 0.0) == 0.5 and configuration.get_boolean("b", False) is True
    assert configuration.get_bytearray("y", bytearray()) == b"\x00\xff"
    assert configuration.to_dict()["b"] == "true"
    absent = "absent"
    assert configuration.get_string(absent, "d") == "d" and configuration.get_integer(absent, 1) == 1
    assert configuration.get_float(absent, 1.5) == 1.5 and configuration.get_boolean(absent, True) is True
    assert configuration.get_bytearray(absent, bytearray(b"d")) == b"d"


def test_settings_of_another_form_are_errors_that_name_the_key():
    configuration = Configuration.from_dict({"x": "many"})
    for read in (configuration.get_integer, configuration.get_float, configuration.get_boolean):
        with pytest.raises(ConfigurationError, match="x is 'many'"):
            read("x", False)
    for key, value in (("", "x"), ("x", None), ("x", [1])):
        with pytest.raises(ConfigurationError):
            Configuration.from_dict({key: value})


def test_configurations_are_merged_copied_and_compared():
    first = Configuration.from_dict({"a": 1, "b": "x"})
    second = Configuration(first)
    assert first == second and first != Configuration() and first != {"a": "1"}
    second.add_all(Configuration.from_dict({"c": True}), prefix="p.")
    assert second.key_set() == {"a", "b", "p.c"} and first.key_set() == {"a", "b"}
    assert second.contains_key("a") and "p.c" in second
    assert second.remove_config("a") and not second.remove_config("a")
    target: dict[str, str] = {}
    second.add_all_to_dict(target)
    assert target == second.to_dict() == {"b": "x", "p.c": "true"}
    assert copy.deepcopy(second) == pickle.loads(pickle.dumps(second)) == second
    assert str(second) == "{b=x, p.c=true}" and "p.c" in repr(second)


@given(st.integers(0, 10**6), st.sampled_from([("ms", 1), (" s", 1000), ("min", 60_000), (" h", 3_600_000), ("", 1)]))
def test_durations_are_milliseconds(number, unit):
    assert parse_duration_ms(f"{number}{unit[0]}") == number * unit[1]


def test_durations_and_sizes_in_other_words():
    assert [parse_duration_ms(text) for text in ("5 seconds", "1 day", "2500 us", 7, " 3 S ")] == [
        5_000,
        86_400_000,
        2,
        7,
        3_000,
    ]
    assert [parse_size_bytes(text) for text in ("20kb", "1 GiB", "5", 9, "1 mb")] == [20480, 1 << 30, 5, 9, 1 << 20]
    for wrong in ("fast", "-5s", "5 parsecs", "", "1.5s", True, "5s 3"):
        with pytest.raises(ConfigurationError, match="is not a duration such as '5s'"):
            parse_duration_ms(wrong)
    with pytest.raises(ConfigurationError, match="is not a size"):
        parse_size_bytes("big")


def test_the_program_wins_over_the_command_line_and_that_over_the_file(tmp_path: Path):
    file = tmp_path / "penstock.yaml"
    file.write_text("parallelism.default: 1\npipeline:\n  max-parallelism: 64\n  name: file\nspark.x: 1\n")
    overrides = {"parallelism.default": "2", "pipeline.name": "flag", "spark.master": "local[2]"}
    merged = load_configuration(Configuration.from_dict({"pipeline.name": "program"}), overrides, file)
    assert merged.to_dict() == {
        "parallelism.default": "2",
        "pipeline.max-parallelism": "64",
        "pipeline.name": "program",
        "spark.x": "1",
        "spark.master": "local[2]",
    }
    assert load_configuration(Configuration(), {}, tmp_path / "missing.yaml").to_dict() == {}


def test_an_unknown_key_is_an_error_that_suggests_the_nearest():
    with pytest.raises(ConfigurationError, match="did you mean 'execution.checkpointing.interval'"):
        load_configuration(Configuration(), {"execution.checkpointing.intervall": "5s"}, None)
    with pytest.raises(ConfigurationError, match="no configuration key 'zzz' .from -D.; see"):
        load_configuration(Configuration(), {"zzz": "5s"}, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.interval", "soon"),
        ("execution.checkpointing.mode", "twice"),
        ("execution.checkpointing.num-retained", "two"),
        ("execution.checkpointing.incremental", "maybe"),
        ("execution.checkpointing.data-inline-threshold", "small"),
        ("restart-strategy.exponential-delay.jitter-factor", "some"),
        ("penstock.event-time.null", "ignore"),
    ],
)
def test_a_value_of_the_wrong_form_is_an_error_that_names_key_and_origin(key, value):
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(Configuration(), {key: value}, None)
    assert str(caught.value).startswith(f"{key} (from -D): {value!r} is not")


def test_words_are_taken_in_pyflinks_spelling_too():
    for mode in ("EXACTLY_ONCE", "exactly-once", "AT_LEAST_ONCE"):
        check_setting("execution.checkpointing.mode", mode, "-D")


@pytest.mark.parametrize("old", sorted(OLD_KEYS))
def test_old_keys_become_the_new_ones(old):
    value = {"state.backend": "rocksdb", "restart-strategy": "none"}.get(old)
    for new in OLD_KEYS[old]:
        form = OPTIONS[new].form
        value = value or {"bool": "true", "size": "1 kb", "int": "3", "duration": "1s", "text": "x"}.get(form)
        value = value or form.split("|")[0]
    assert value is not None
    merged = load_configuration(Configuration.from_dict({old: value}), {}, None)
    assert merged.key_set() == set(OLD_KEYS[old])


def test_a_new_key_wins_over_its_old_name_and_old_backends_have_new_names():
    settings = {"execution.checkpointing.dir": "new", "state.checkpoints.dir": "old", "state.backend": "jobmanager"}
    merged = load_configuration(Configuration.from_dict(settings), {}, None)
    assert merged.to_dict() == {
        "execution.checkpointing.dir": "new",
        "state.backend.type": "hashmap",
        "execution.checkpointing.storage": "jobmanager",
    }


def test_an_old_name_in_the_program_wins_over_the_new_one_on_the_command_line():
    program = Configuration.from_dict({"state.checkpoints.dir": "program"})
    merged = load_configuration(program, {"execution.checkpointing.dir": "flag"}, None)
    assert merged.get_string("execution.checkpointing.dir", "") == "program"


def test_keys_without_a_meaning_here_are_accepted_with_one_line_each():
    settings = {"python.execution-mode": "thread", "metrics.reporter": "x", "parallelism.default": "2"}
    merged = load_configuration(Configuration.from_dict(settings), {}, None)
    lines = ignored_settings(merged)
    assert [line.split()[0] for line in lines] == ["metrics.reporter", "python.execution-mode"]
    assert all(" has no effect here: " in line for line in lines)


def test_every_option_is_found_by_its_key():
    for key, option in OPTIONS.items():
        assert find_option(key) is option and option.about
    assert find_option("pipeline.global-job-parameters.x") is not None
    assert find_option("nonsense") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n- b\n", "holds a list"),
        ("a: [", "not readable YAML"),
        ("a:\n", "has no value"),
        ("x: !!python/name:os.system\n", "YAML"),
    ],
)
def test_a_file_that_is_not_settings_is_an_error(tmp_path: Path, text, problem):
    file = tmp_path / "penstock.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=problem):
        read_yaml(file)


def test_a_file_may_nest_and_list(tmp_path: Path):
    file = tmp_path / "penstock.yaml"
    file.write_text("a:\n  b: true\n  c: [1, 2]\nd.e: 5s\n")
    assert read_yaml(file) == {"a.b": "true", "a.c": "1;2", "d.e": "5s"}
    file.write_text("")
    assert read_yaml(file) == {} == read_yaml(None)
    file.write_text("".join(f"{' ' * n}a:\n" for n in range(30)) + " " * 30 + "b: 1\n")
    with pytest.raises(ConfigurationError, match="nested"):
        read_yaml(file)


def test_the_execution_config_writes_into_the_configuration():
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert (config.get_parallelism(), config.get_max_parallelism(), config.get_auto_watermark_interval()) == (
        -1,
        -1,
        200,
    )
    config.set_parallelism(3).set_max_parallelism(64).set_auto_watermark_interval(50)
    config.set_global_job_parameters({"a": 1}).set_use_snapshot_compression(True).disable_auto_generated_uids()
    assert (config.get_parallelism(), config.get_max_parallelism(), config.get_auto_watermark_interval()) == (3, 64, 50)
    assert config.get_global_job_parameters() == {"a": "1"} and config.is_use_snapshot_compression()
    assert not config.has_auto_generated_uids_enabled()
    assert config.enable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert not config.disable_object_reuse().is_object_reuse_enabled()
    load_configuration(configuration, {}, None)
    with pytest.raises(UsageError, match="0 or more"):
        config.set_auto_watermark_interval(-1)


def test_p7_job_statuses_know_when_they_are_the_end():
    terminal = {status.name for status in JobStatus if status.is_terminal_state()}
    final = {status.name for status in JobStatus if status.is_globally_terminal_state()}
    assert terminal == {"FAILED", "CANCELED", "FINISHED", "SUSPENDED"}
    assert final == {"FAILED", "CANCELED", "FINISHED"}
    assert {"INITIALIZING", "CREATED", "RUNNING", "FAILING", "RESTARTING", "CANCELLING", "RECONCILING"} <= set(
        JobStatus.__members__
    )
