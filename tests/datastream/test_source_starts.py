"""Whether a source begins at the same records again, for a job that restarts without a position."""

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.serialization import SimpleStringSchema
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from tests.datastream.conftest import FakeFrame

EVENT_TIME = WatermarkStrategy.for_monotonous_timestamps()
LATEST = KafkaOffsetResetStrategy.LATEST
PARTITION = KafkaTopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), True),
        (KafkaOffsetsInitializer.timestamp(5), True),
        (KafkaOffsetsInitializer.committed_offsets(), True),
        (KafkaOffsetsInitializer.offsets({PARTITION: 3}), True),
        (KafkaOffsetsInitializer.latest(), False),
        (KafkaOffsetsInitializer.committed_offsets(LATEST), False),
        (KafkaOffsetsInitializer.offsets({PARTITION: 3}, LATEST), False),
    ],
)
def test_a_kafka_source_may_begin_behind_the_newest_records(
    env: StreamExecutionEnvironment, starting: KafkaOffsetsInitializer, *, expected: bool
) -> None:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("b:1")
        .set_topics("orders")
        .set_group_id("g")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_starting_offsets(starting)
        .build()
    )
    for strategy in (WatermarkStrategy.no_watermarks(), EVENT_TIME):
        env.from_source(source, strategy, "orders")
    found = [node.payload.fixed_start for node in env._graph.nodes if node.kind == "source"]
    assert found == [expected, expected]


def test_other_sources_begin_where_they_began(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")
    assert numbers._node.payload.fixed_start
    for is_fixed in (True, False):
        stream = env.from_dataframe(FakeFrame(fixed_start=is_fixed))
        assert stream._node.payload.fixed_start is is_fixed
