"""What the reader of a topic plans, without a broker."""

from collections.abc import Iterable
from typing import Any, cast

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.kafka.kafka_topics import KafkaTopics
from penstock.connectors.kafka.partition_offsets import Offsets, Partition
from penstock.spark.kafka_stream import KafkaStreamReader


class Topics:
    """A broker whose partitions come and go; each has ten records."""

    def __init__(self, *known: Partition) -> None:
        self.known = list(known)

    def partitions(self) -> list[Partition]:
        return self.known

    def first_offsets(self, partitions: Iterable[Partition]) -> Offsets:
        return dict.fromkeys(partitions, 0)

    def progress(self, start: Offsets) -> tuple[Offsets, Offsets]:
        found = [partition for partition in start if partition in self.known]
        return {partition: start[partition] for partition in found}, dict.fromkeys(found, 10)


def reader(topics: Topics) -> KafkaStreamReader:
    builder = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topic_pattern("t.*")
    builder.set_fail_on_data_loss(False)
    made = KafkaStreamReader(builder.set_value_only_deserializer(SimpleStringSchema()).build(), 100, None)
    made._topics = cast(KafkaTopics, topics)
    return made


def ranges(made: KafkaStreamReader, start: Any, end: Any) -> list[tuple[str, int, int]]:
    found = [cast(Any, partition).wanted for partition in made.partitions(start, end)]
    return [(wanted.topic, wanted.start, wanted.end) for wanted in found]


def test_a_topic_that_is_away_for_a_moment_is_not_read_again_when_it_is_back() -> None:
    topics = Topics(("ta", 0), ("tb", 0))
    made, start = reader(topics), {"ta": {"0": 4}, "tb": {"0": 7}}
    topics.known.remove(("tb", 0))  # the broker that answers does not know it yet
    end = made.latestOffset(start)
    assert ranges(made, start, end) == [("ta", 4, 10)]
    topics.known.append(("tb", 0))
    assert ranges(made, end, made.latestOffset(end)) == [("tb", 7, 10)]


def test_a_topic_that_appears_is_read_from_its_first_record_in_the_next_epoch() -> None:
    topics = Topics(("ta", 0), ("tb", 0))
    made = reader(topics)
    end = made.latestOffset({"ta": {"0": 4}})
    assert end == {"ta": {"0": 10}, "tb": {"0": 0}}
    assert ranges(made, end, made.latestOffset(end)) == [("tb", 0, 10)]
