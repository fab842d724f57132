import pytest

from penstock.errors import UsageError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.model.functions import AggregateFunction, ReduceFunction
from penstock.model.time import Duration, Time
from penstock.model.types import TAGGED, Types

Strategies = StateTtlConfig.CleanupStrategies


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_descriptors_say_kind_and_types():
    value = ValueStateDescriptor("total", "double")
    assert (value.kind, value.get_name(), value.type_info, value.map_key_type) == (
        "value",
        "total",
        Types.DOUBLE(),
        None,
    )
    assert ValueStateDescriptor("untyped").type_info is TAGGED
    elements = ListStateDescriptor("list", Types.LONG())
    assert (elements.kind, elements.element_type, elements.value_type) == ("list", Types.LONG(), Types.LIST("bigint"))
    entries = MapStateDescriptor("map", Types.STRING(), Types.LONG())
    assert (entries.kind, entries.map_key_type, entries.value_type) == ("map", Types.STRING(), Types.LONG())
    assert entries.type_info == Types.MAP(Types.STRING(), Types.LONG())
    assert repr(value) == "ValueStateDescriptor('total', 'DOUBLE')"


def test_b5_a_reducing_state_takes_a_function_or_a_callable():
    assert ReducingStateDescriptor("r", Longest(), Types.STRING()).get_reduce_function().reduce("a", "bb") == "bb"
    plain = ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG())
    assert plain.kind == "reducing" and plain.get_reduce_function().reduce(1, 2) == 3
    with pytest.raises(TypeError, match="The input must be a ReduceFunction or a callable function!"):
        ReducingStateDescriptor("r", 5, Types.LONG())  # type: ignore[arg-type]


def test_b6_an_aggregating_state_stores_the_accumulator():
    accumulator = Types.TUPLE([Types.DOUBLE(), Types.LONG()])
    descriptor = AggregatingStateDescriptor("a", Average(), accumulator)
    assert (descriptor.kind, descriptor.value_type) == ("aggregating", accumulator)
    assert isinstance(descriptor.get_agg_function(), Average)
    with pytest.raises(TypeError, match="The input must be an AggregateFunction!"):
        AggregatingStateDescriptor("a", max, accumulator)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a/b", "a\x00b", "a\nb", "x" * 256, "ü" * 128, "_timers_event", 5, None])
def test_b_u4_names_that_cannot_name_a_state_are_refused_at_build_time(name):
    with pytest.raises(UsageError, match="name"):
        ValueStateDescriptor(name, Types.LONG())


def test_b_u4_ordinary_names_are_taken():
    for name in ("total", "Summe über alles", "x" * 255, "a.b-c_d", "日本"):
        assert ValueStateDescriptor(name).name == name


def test_a_map_key_cannot_be_pickled():
    with pytest.raises(UsageError, match="pickled"):
        MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), Types.LONG())


def test_d1_a_time_to_live_has_pyflinks_defaults():
    config = StateTtlConfig.new_builder(Time.hours(1)).build()
    assert config.get_ttl() == Time.hours(1) and config.is_enabled()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background() and not cleanup.in_full_snapshot()
    incremental, compaction = cleanup.get_incremental_cleanup_strategy(), None
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction is not None
    assert compaction.get_query_time_after_num_entries() == 1000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)


def test_d12_cleanup_in_background_can_be_switched_off_and_named_ways_stay():
    builder = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background()
    cleanup = builder.build().get_cleanup_strategies()
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None
    builder.cleanup_full_snapshot().cleanup_incrementally(10, True)
    builder.cleanup_in_rocksdb_compact_filter(7, Duration.of_days(1))
    cleanup = builder.build().get_cleanup_strategies()
    assert cleanup.in_full_snapshot() and not cleanup.is_cleanup_in_background()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert incremental is not None and incremental.get_cleanup_size() == 10
    compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction is not None and compaction.get_periodic_compaction_time() == Duration.of_days(1)


def test_d3_to_d7_every_setting_of_a_time_to_live():
    builder = StateTtlConfig.Builder(Time.seconds(1)).set_ttl(Time.seconds(2)).use_processing_time()
    config = builder.update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().build()
    assert config.get_ttl() == Time.seconds(2)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    config = builder.update_ttl_on_create_and_write().never_return_expired().build()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    disabled = builder.set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    assert not disabled.is_enabled()


def test_a_time_to_live_must_be_positive_and_a_config():
    with pytest.raises(UsageError, match="positive"):
        StateTtlConfig.new_builder(Time.seconds(0)).build()
    with pytest.raises(UsageError, match="positive"):
        StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(0, False)
    descriptor = ValueStateDescriptor("x")
    with pytest.raises(TypeError, match="StateTtlConfig"):
        descriptor.enable_time_to_live(Time.seconds(1))  # type: ignore[arg-type]
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    descriptor.enable_time_to_live(config)
    assert descriptor.ttl_config is config
