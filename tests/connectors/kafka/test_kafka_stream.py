"""What the reader of a topic plans, without a broker."""

from collections.abc import Iterable
from typing import Any, cast

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka.kafka_source import KafkaOffsetsInitializer, KafkaSource
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

    def stop_offsets(self) -> Offsets:
        return dict.fromkeys(self.known, 10)

    def progress(self, start: Offsets) -> tuple[Offsets, Offsets]:
        """A position behind the end is that of a topic that was deleted and created again."""
        found = [partition for partition in start if partition in self.known]
        positions = {partition: start[partition] if start[partition] <= 10 else 0 for partition in found}
        return positions, dict.fromkeys(found, 10)


def reader(topics: Topics, stopping: KafkaOffsetsInitializer | None = None) -> KafkaStreamReader:
    builder = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topic_pattern("t.*")
    builder.set_fail_on_data_loss(False)
    if stopping is not None:
        builder.set_bounded(stopping)
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


def test_a_bounded_source_reads_partitions_that_were_added_while_the_job_was_stopped() -> None:
    made = reader(Topics(("ta", 0), ("ta", 1)), KafkaOffsetsInitializer.latest())
    end = made.latestOffset({"ta": {"0": 4}})  # of a savepoint from before
    assert end == {"ta": {"0": 10, "1": 0}}
    assert ranges(made, end, made.latestOffset(end)) == [("ta", 0, 10)]


def test_a_bounded_source_leaves_partitions_out_that_are_added_after_its_start() -> None:
    topics = Topics(("ta", 0))
    made = reader(topics, KafkaOffsetsInitializer.latest())
    made.prepareForTriggerAvailableNow()
    topics.known.append(("ta", 1))
    assert made.latestOffset({"ta": {"0": 4}}) == {"ta": {"0": 10}}


def test_a_partition_that_was_cut_is_not_read_again_where_loss_is_accepted() -> None:
    """An election can cut its end. It looks like a topic that was created again, and at most once holds for both."""
    made = reader(Topics(("ta", 0), ("tb", 0)))
    start = {"ta": {"0": 4}, "tb": {"0": 70}}
    end = made.latestOffset(start)
    assert end == {"ta": {"0": 10}, "tb": {"0": 10}}
    assert ranges(made, start, end) == [("ta", 4, 10)]
    assert ranges(made, end, made.latestOffset(end)) == []


def test_a_query_that_continues_reads_on_where_it_was_if_spark_names_no_start() -> None:
    """PySpark 4.1 only asks for the partitions of an empty range, at the position in its log."""
    made = reader(Topics(("ta", 0), ("ta", 1)))
    logged = {"ta": {"0": 7, "1": 5}}  # partition 1 was added after the job's start
    assert made.partitions(logged, logged) == []
    assert ranges(made, logged, made.latestOffset()) == [("ta", 7, 10), ("ta", 5, 10)]
