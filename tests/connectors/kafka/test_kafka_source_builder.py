"""The builder of a Kafka source: PyFlink's names, and what is refused before a job starts."""

import pytest

from penstock.common import Types
from penstock.common.serialization import ByteArraySchema, SimpleStringSchema
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from penstock.errors import ArgumentError, ConfigurationError, UsageError


def builder() -> KafkaSourceBuilder:
    return KafkaSource.builder().set_bootstrap_servers("b:1").set_value_only_deserializer(SimpleStringSchema())


def test_a_source_reads_committed_records_from_the_start_without_an_end() -> None:
    source = builder().set_topics("a", "b").set_group_id("g").build()
    assert source.settings == {"bootstrap.servers": "b:1", "isolation.level": "read_committed", "group.id": "g"}
    assert (source.topics, source.starting.kind, source.bounded) == (("a", "b"), "earliest", False)
    assert source.commits_offsets and source.delivery.is_exact


def test_properties_may_name_brokers_group_and_isolation() -> None:
    properties = {"bootstrap.servers": "c:1", "group.id": "h", "isolation.level": "read_uncommitted"}
    source = (
        KafkaSource.builder()
        .set_properties({**properties, "commit.offsets.on.checkpoint": "false", "partition.discovery.interval.ms": "0"})
        .set_value_only_deserializer(ByteArraySchema())
        .set_topic_pattern("a.*")
        .build()
    )
    assert source.servers == "c:1" and source.group_id == "h"
    assert not source.commits_offsets and source.discovery_s is None
    assert source.settings["isolation.level"] == "read_uncommitted" and not source.delivery.is_exact


def test_a_source_that_may_skip_records_says_so() -> None:
    assert builder().set_topics("a").set_fail_on_data_loss(False).build().delivery.may_lose


def test_metadata_are_fields_of_the_records() -> None:
    source = builder().set_topics("a").set_metadata("key", "offset").build()
    assert source.record_type.get_field_names() == ["value", "key", "offset"]


def test_an_end_makes_a_source_bounded() -> None:
    end = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("a", 0): 5}, KafkaOffsetResetStrategy.LATEST)
    bounded = builder().set_topics("a").set_bounded(end).build()
    assert bounded.bounded and bounded.stopping == end
    assert not builder().set_topics("a").set_unbounded(end).build().bounded


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: KafkaSource.builder().build(), UsageError, "set_bootstrap_servers"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("b").build(), UsageError, "set_value_only_deserializer"),
        (lambda: builder().build(), UsageError, "set_topics"),
        (lambda: builder().set_topics("a").set_topic_pattern("b"), UsageError, "either topics"),
        (lambda: builder().set_topic_pattern("("), UsageError, "not a regular expression"),
        (lambda: builder().set_metadata("size"), UsageError, "no 'size'; it has 'key'"),
        (lambda: builder().set_value_only_deserializer(str), ArgumentError, "not a DeserializationSchema"),  # type: ignore[arg-type]
        (lambda: builder().set_bounded("latest"), ArgumentError, "not a KafkaOffsetsInitializer"),  # type: ignore[arg-type]
        (lambda: KafkaOffsetsInitializer.offsets({("a", 0): 1}), ArgumentError, "KafkaTopicPartition"),  # type: ignore[dict-item]
        (lambda: KafkaTopicPartition("a", -1), ArgumentError, "a partition is a topic and a number"),
        (
            lambda: builder().set_topics("a").set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(),
            UsageError,
            "set_group_id",
        ),
        (
            lambda: builder().set_topics("a").set_property("ssl.truststore.location", "x").build(),
            ConfigurationError,
            "PEM",
        ),
    ],
)
def test_what_cannot_work_is_refused(build: object, error: type[Exception], message: str) -> None:
    assert callable(build)
    with pytest.raises(error, match=message):
        build()


def test_the_type_of_the_records_is_that_of_the_schema() -> None:
    assert builder().set_topics("a").build().record_type == Types.STRING()
