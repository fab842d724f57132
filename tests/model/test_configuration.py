import copy
import pickle

import pytest

from penstock.errors import ConfigurationError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from penstock.model.execution_config import ExecutionConfig
from penstock.model.option import Option
from penstock.model.option_types import Integer, Milliseconds
from penstock.model.options.catalogue import check_setting

TIMEOUT = Option("x.timeout", Milliseconds(least=10), 5000, "An option.", old_keys=("x.older", "x.oldest"))
COUNT: Option[int | None] = Option("x.count", Integer(), None, "An option.")


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


def test_an_option_is_read_under_its_key_then_under_old_names_then_from_its_default():
    assert Configuration().get(TIMEOUT) == 5000 and Configuration().get(COUNT) is None
    settings = {"x.oldest": "1s"}
    assert Configuration.from_dict(settings).get(TIMEOUT) == 1000
    assert Configuration.from_dict(settings | {"x.older": "2s"}).get(TIMEOUT) == 2000
    assert Configuration.from_dict(settings | {"x.timeout": "3s"}).get(TIMEOUT) == 3000


def test_an_option_is_set_as_text_that_gives_the_value_back():
    configuration = Configuration().set(TIMEOUT, 120_000).set(COUNT, 7)
    assert configuration.to_dict() == {"x.timeout": "2 min", "x.count": "7"}
    assert configuration.get(TIMEOUT) == 120_000 and configuration.get(COUNT) == 7


def test_an_option_with_a_value_that_is_not_allowed_is_an_error_that_names_the_key_as_it_was_written():
    with pytest.raises(ConfigurationError, match="^x.timeout: give 10 ms or more, not '5'$"):
        Configuration.from_dict({"x.timeout": "5"}).get(TIMEOUT)
    with pytest.raises(ConfigurationError, match="^x.older: 'soon' is not a duration"):
        Configuration.from_dict({"x.older": "soon"}).get(TIMEOUT)


def test_configurations_are_merged_copied_and_compared():
    first = Configuration.from_dict({"a": 1, "b": "x"})
    second = Configuration(first)
    assert first == second and first != Configuration() and first != {"a": "1"}
    second.add_all(Configuration.from_dict({"c": True}), prefix="p.")
    assert second.key_set() == {"a", "b", "p.c"} and first.key_set() == {"a", "b"}
    assert second.contains_key("a") and "p.c" in second
    assert second.remove_config("a") and not second.remove_config("a")
    second.set_bytearray("bytes", bytearray(b"\x01"))
    target: dict[str, object] = {}
    second.add_all_to_dict(target)
    assert target == {"b": "x", "p.c": True, "bytes": bytearray(b"\x01")} and second.remove_config("bytes")
    assert second.to_dict() == {"b": "x", "p.c": "true"}
    assert copy.deepcopy(second) == pickle.loads(pickle.dumps(second)) == second
    assert str(second) == "{b=x, p.c=true}" and "p.c" in repr(second)


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
    for key, value in configuration.to_dict().items():
        check_setting(key, value, "the program")
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
