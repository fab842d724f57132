"""The small classes of PyFlink's settings: execution, restarts, options of one's own, slots, memory."""

import io
from datetime import timedelta
from typing import IO

import pytest

from penstock.common import (
    ConfigOptions,
    Configuration,
    ExecutionConfig,
    InputDependencyConstraint,
    JobExecutionResult,
    RestartStrategies,
    TypeSerializer,
)
from penstock.datastream import MemorySize, SlotSharingGroup
from penstock.errors import UsageError
from penstock.model.options.catalogue import settings_without_effect


@pytest.mark.parametrize(
    ("enable", "disable", "shown", "at_first"),
    [
        ("enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled", True),
        ("enable_force_kryo", "disable_force_kryo", "is_force_kryo_enabled", False),
        ("disable_generic_types", "enable_generic_types", "has_generic_types_disabled", False),
        ("enable_force_avro", "disable_force_avro", "is_force_avro_enabled", False),
    ],
)
def test_switches_of_the_jvm_are_kept(enable: str, disable: str, shown: str, at_first: bool) -> None:
    config = ExecutionConfig()
    assert getattr(config, shown)() is at_first
    assert getattr(config, enable)() is config and getattr(config, shown)()
    assert getattr(config, disable)() is config and not getattr(config, shown)()


def test_intervals_of_the_jvm_are_kept() -> None:
    config = ExecutionConfig()
    found = config.get_latency_tracking_interval(), config.get_task_cancellation_interval()
    assert (*found, config.get_task_cancellation_timeout()) == (0, 30_000, 180_000)
    config.set_latency_tracking_interval(5).set_task_cancellation_interval(6).set_task_cancellation_timeout(7)
    found = config.get_latency_tracking_interval(), config.get_task_cancellation_interval()
    assert (*found, config.get_task_cancellation_timeout()) == (5, 6, 7)
    with pytest.raises(UsageError, match="timeout of -1 ms"):
        config.set_task_cancellation_timeout(-1)


def test_no_java_classes_are_registered() -> None:
    config = ExecutionConfig()
    assert config.get_default_kryo_serializer_classes() == {}
    assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []


def test_a_setting_without_effect_is_said_to_have_none() -> None:
    configuration = Configuration()
    ExecutionConfig(configuration).enable_force_kryo().disable_closure_cleaner()
    assert [note.split()[0] for note in settings_without_effect(configuration)] == [
        "pipeline.closure-cleaner-level",
        "pipeline.force-kryo",
    ]


def test_configurations_are_equal_by_their_settings() -> None:
    one, other = ExecutionConfig(), ExecutionConfig()
    assert one == other and hash(one) == hash(other)
    one.set_parallelism(3)
    assert one != other and hash(one) != hash(other)
    assert ExecutionConfig.PARALLELISM_UNKNOWN == -2


@pytest.mark.parametrize("text", ["[a, b]", "- a\n- b", "a;b", "['a', \"b\"]"])
def test_a_list_in_a_setting(text: str) -> None:
    assert Configuration.parse_list_value(text) == ["a", "b"]


def test_a_list_without_yaml() -> None:
    assert Configuration.parse_list_value(None) == [] == Configuration.parse_list_value("", False)
    assert Configuration.parse_list_value("[a, b]", False) == ["[a, b]"]


@pytest.mark.parametrize(
    ("kind", "default", "given", "text"),
    [
        ("boolean_type", False, True, "true"),
        ("int_type", 1, 2, "2"),
        ("long_type", 1, 2**40, str(2**40)),
        ("float_type", 0.5, 1.5, "1.5"),
        ("double_type", 0.5, 1.5, "1.5"),
        ("string_type", "a", "b", "b"),
    ],
)
def test_an_option_of_ones_own(kind: str, default: object, given: object, text: str) -> None:
    option = getattr(ConfigOptions.key("my.key"), kind)().default_value(default)
    configuration = Configuration()
    assert configuration.get(option) == default
    assert configuration.set(option, given).get(option) == given
    assert configuration.to_dict() == {"my.key": text}
    assert Configuration().get(getattr(ConfigOptions.key("my.key"), kind)().no_default_value()) is None


def test_restart_strategies_are_classes_with_getters() -> None:
    fixed = RestartStrategies.fixed_delay_restart(4, timedelta(seconds=10))
    assert isinstance(fixed, RestartStrategies.FixedDelayRestartStrategyConfiguration)
    assert fixed.get_restart_attempts() == 4
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=10)
    rate = RestartStrategies.failure_rate_restart(5, 10_000, 5000)
    assert isinstance(rate, RestartStrategies.FailureRateRestartStrategyConfiguration)
    assert rate.get_max_failure_rate() == 5 and rate.get_failure_interval() == timedelta(seconds=10)
    assert rate.get_delay_between_attempts_interval() == timedelta(seconds=5)
    assert RestartStrategies.no_restart() == RestartStrategies.NoRestartStrategyConfiguration()
    assert RestartStrategies.fall_back_restart() == RestartStrategies.FallbackRestartStrategyConfiguration()


def test_a_slot_sharing_group_keeps_its_resources() -> None:
    group = (
        SlotSharingGroup.builder("io")
        .set_cpu_cores(1.5)
        .set_task_heap_memory(MemorySize.of_mebi_bytes(100))
        .set_task_off_heap_memory_mb(200)
        .set_managed_memory_mb(300)
        .set_external_resource("gpu", 2.0)
        .build()
    )
    assert group.get_name() == "io" and group.get_cpu_cores() == 1.5
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(100)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(200)
    assert group.get_managed_memory() == MemorySize(300 * 2**20)
    assert group.get_external_resources() == {"gpu": 2.0}
    assert SlotSharingGroup.builder("other").build().get_managed_memory() is None
    assert SlotSharingGroup.builder("a").build() == SlotSharingGroup.builder("a").build()


def test_the_resources_of_a_slot_sharing_group_are_checked() -> None:
    with pytest.raises(UsageError, match="0 cores"):
        SlotSharingGroup.builder("io").set_cpu_cores(0)
    with pytest.raises(UsageError, match="needs both set_cpu_cores"):
        SlotSharingGroup.builder("io").set_managed_memory(MemorySize(1)).build()
    with pytest.raises(UsageError, match="asks for no task heap memory"):
        SlotSharingGroup.builder("io").set_cpu_cores(1).set_task_heap_memory(MemorySize(0)).build()


def test_a_memory_size_in_every_unit() -> None:
    size = MemorySize.of_mebi_bytes(3 * 2**20)
    assert size.get_bytes() == 3 * 2**40 and size.get_kibi_bytes() == 3 * 2**30
    assert (size.get_mebi_bytes(), size.get_gibi_bytes(), size.get_tebi_bytes()) == (3 * 2**20, 3 * 2**10, 3)
    assert str(MemorySize(5)) == "5 bytes" and MemorySize(1) < MemorySize(2) <= MemorySize(2)


class Words(TypeSerializer[str]):
    def serialize(self, element: str, stream: IO[bytes]) -> None:
        stream.write(element.encode())

    def deserialize(self, stream: IO[bytes]) -> str:
        return stream.read().decode()


def test_a_type_serializer_of_ones_own() -> None:
    stream = io.BytesIO()
    Words().serialize("a", stream)
    stream.seek(0)
    assert Words().deserialize(stream) == "a"
    assert Words() == Words() != 5 and hash(Words()) == hash(Words()) and repr(Words()) == "Words()"


def test_there_are_no_accumulators() -> None:
    result = JobExecutionResult("a" * 32, "job", 1, 1, 5)
    assert result.get_all_accumulator_results() == {}
    assert result.get_accumulator_result("count") is None
    assert [member.name for member in InputDependencyConstraint] == ["ANY", "ALL"]
