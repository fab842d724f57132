"""KafkaSource on a real broker and a real Spark: each committed record once, whatever lies between them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.file.file_sink import FileSink
from penstock.datastream import JobClient, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ConnectorRefusedError, PenstockError, RecordsLostError
from penstock.services import RunningService
from tests.kafka_topics import Topic
from tests.spark.jobs import Jobs, read_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
NO_TIME = WatermarkStrategy.no_watermarks()
LATEST = KafkaOffsetsInitializer.latest()


def reading(topic: Topic) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers(topic.address).set_topics(topic.name)
    return builder.set_value_only_deserializer(SimpleStringSchema())


def collected(environment: StreamExecutionEnvironment, source: KafkaSource) -> "Counter[Any]":
    return Counter(environment.from_source(source, NO_TIME, "topic").execute_and_collect("kafka"))


def test_q4_only_committed_records_are_read_each_once_in_epochs_of_limited_size(
    kafka: RunningService, jobs: Jobs
) -> None:
    """A sample for every day; the others are in `make test-e2e`."""
    topic = Topic(kafka.address, 3)
    topic.transaction([(n % 3, f'{{"n": {n}}}') for n in range(300)], "commit")
    topic.transaction([(n % 3, '{"n": -1}') for n in range(50)], "abort")
    topic.transaction([(0, '{"n": 300}')], "commit")
    topic.transaction([(2, '{"n": -2}')], "abort")  # the last offsets of a partition hold no record
    open_one = topic.transaction([(1, '{"n": -3}')], "open")
    settings = {"execution.checkpointing.interval": "1 s", "penstock.epoch.max-rows": "100"}
    schema = JsonRowDeserializationSchema.builder().type_info("n bigint").build()
    source = reading(topic).set_value_only_deserializer(schema).set_metadata("partition", "offset").set_group_id("g")
    found = collected(jobs.environment(2, settings), source.set_bounded(LATEST).build())
    assert len(open_one) == 0  # nothing waits in the producer; its transaction stays open with the broker
    assert found == Counter({Row(n=row.n, partition=row.partition, offset=row.offset): 1 for row in found})
    assert sorted(row.n for row in found) == list(range(301))
    assert all(row.n % 3 == row.partition for row in found)
    # Offsets of commit markers count too: three partitions, the last transaction of partition 1 is left out.
    assert min(topic.committed("g", 3)) > 100


class Total(KeyedProcessFunction):
    """The sum of each key's numbers."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0) + int(value)
        self.total.update(total)
        yield int(value), total


def start(jobs: Jobs, source: KafkaSource, parallelism: int, **settings: str) -> JobClient:
    values = {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}
    environment = jobs.environment(parallelism, {"execution.checkpointing.interval": "1 s", **values})
    stream = environment.from_source(source, NO_TIME, "topic").uid("topic")
    totals = stream.key_by(lambda value: int(value) % 5, Types.LONG()).process(Total(), "n bigint, total bigint")
    out = FileSink.for_row_format(str(jobs.folder / "out"), "json").build()
    totals.uid("total").sink_to(out).uid("out")
    return environment.execute_async("totals")


def numbers(jobs: Jobs) -> "Counter[int]":
    return Counter(row["n"] for row in read_json(jobs.folder / "out"))


@pytest.mark.e2e
def test_a_savepoint_is_restored_at_another_parallelism_with_partitions_added_meanwhile(
    kafka: RunningService, spark: SparkSession, tmp_path: Path
) -> None:
    jobs = Jobs(spark, tmp_path)
    topic = Topic(kafka.address, 2)
    source = reading(topic).set_property("partition.discovery.interval.ms", "500").build()
    topic.fill((n % 2, n) for n in range(100))
    client = start(jobs, source, 2)
    wait_until(lambda: sum(numbers(jobs).values()) == 100)
    topic.add_partitions(3)  # while the job runs
    topic.fill((2, n) for n in range(100, 150))
    wait_until(lambda: sum(numbers(jobs).values()) == 150)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    topic.add_partitions(5)  # while it does not
    topic.fill((n % 5, n) for n in range(150, 300))
    client = start(jobs, source, 3, execution_savepoint_path=path)
    wait_until(lambda: sum(numbers(jobs).values()) >= 300)
    topic.fill((n % 5, n) for n in range(300, 320))
    wait_until(lambda: sum(numbers(jobs).values()) >= 320)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert numbers(jobs) == Counter(range(320))
    totals = {row["n"] % 5: row["total"] for row in sorted(read_json(tmp_path / "out"), key=lambda row: row["total"])}
    assert totals == {key: sum(n for n in range(320) if n % 5 == key) for key in range(5)}


@pytest.mark.e2e
def test_a_source_behind_a_union_of_two_folders_has_a_log_and_offsets_of_its_own(
    kafka: RunningService, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark counts streams, of which the union has two."""
    jobs = Jobs(spark, tmp_path)
    topic = Topic(kafka.address, 1)
    source = reading(topic).set_group_id(topic.name).build()
    folders = [tmp_path / "a", tmp_path / "b"]

    def start_both(settings: dict[str, str]) -> JobClient:
        environment = jobs.environment(2, {"execution.checkpointing.interval": "1 s", **settings})
        files = jobs.json_stream("n bigint", folders[0]).union(jobs.json_stream("n bigint", folders[1]))
        rows = environment.from_dataframe(files).uid("files")
        messages = environment.from_source(source, NO_TIME, "topic").uid("topic")
        found = messages.map(lambda value: Row(n=int(value)), "n bigint").uid("numbers").union(rows)
        out = FileSink.for_row_format(str(tmp_path / "out"), "json").build()
        found.map(lambda row: Row(n=row.n), "n bigint").uid("all").sink_to(out).uid("out")
        return environment.execute_async("both")

    def fill(first: int) -> None:
        topic.fill((0, n) for n in range(first, first + 10))
        for place, folder in enumerate(folders):
            rows = [{"n": n} for n in range(first + 10 * (place + 1), first + 10 * (place + 2))]
            jobs.write_json(f"{first}.json", rows, folder)

    fill(0)
    client = start_both({})
    wait_until(lambda: sum(numbers(jobs).values()) == 30)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    fill(100)
    client = start_both({"execution.savepoint.path": path})
    wait_until(lambda: sum(numbers(jobs).values()) >= 60)
    wait_until(lambda: topic.committed(topic.name, 1) == [20])
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert numbers(jobs) == Counter([*range(30), *range(100, 130)])


@pytest.mark.e2e
def test_topics_that_match_a_pattern_are_read_when_they_appear(
    kafka: RunningService, spark: SparkSession, tmp_path: Path
) -> None:
    jobs = Jobs(spark, tmp_path)
    first = Topic(kafka.address, 1)
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topic_pattern(f"{first.name}(-[a-z]+)?")
    builder.set_value_only_deserializer(SimpleStringSchema()).set_property("partition.discovery.interval.ms", "500")
    first.fill((0, n) for n in range(10))
    client = start(jobs, builder.build(), 2)
    wait_until(lambda: sum(numbers(jobs).values()) == 10)
    Topic(kafka.address, 2, f"{first.name}-new").fill((n % 2, n) for n in range(10, 30))
    Topic(kafka.address, 1, f"{first.name}-7").fill((0, n) for n in range(30, 40))
    wait_until(lambda: sum(numbers(jobs).values()) >= 30)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert numbers(jobs) == Counter(range(30))


@pytest.mark.e2e
def test_a_partition_that_is_behind_holds_back_the_watermark(kafka: RunningService, jobs: Jobs) -> None:
    """Otherwise the windows of the first partition would be closed before the second one's records come."""
    topic = Topic(kafka.address, 2)
    topic.fill([(0, f"0,{1_000 * n}") for n in range(600, 800)] + [(1, f"1,{1_000 * n}") for n in range(200)])
    environment = jobs.environment(2, {"penstock.epoch.max-rows": "40"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, at: int(value.split(",")[1])
    )
    stream = environment.from_source(reading(topic).set_bounded(LATEST).build(), strategy, "topic")
    pairs = stream.map(lambda value: (value.split(",")[0], 1), "part string, n bigint")
    windows = pairs.key_by("part").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    counts = windows.reduce(lambda a, b: (a[0], a[1] + b[1]))
    found: Counter[str] = Counter()
    for part, n in counts.execute_and_collect("windows"):
        found[part] += n
    assert found == {"0": 200, "1": 200}


@pytest.mark.e2e
def test_where_a_source_starts_and_ends(kafka: RunningService, jobs: Jobs) -> None:
    topic = Topic(kafka.address, 2)
    topic.fill([(n % 2, n) for n in range(20)], times=[1_000 * (n + 1) for n in range(20)])
    zero, one = KafkaTopicPartition(topic.name, 0), KafkaTopicPartition(topic.name, 1)
    cases = [
        (KafkaOffsetsInitializer.timestamp(10_000), LATEST, range(9, 20)),
        (KafkaOffsetsInitializer.offsets({zero: 8, one: 9}), LATEST, [16, 18, 19]),
        (KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.offsets({zero: 2, one: 0}), [0, 2]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), LATEST, range(20)),
        (KafkaOffsetsInitializer.committed_offsets(), LATEST, []),  # the job before has told the group
    ]
    for starting, stopping, expected in cases:
        source = reading(topic).set_group_id(f"of-{topic.name}").set_starting_offsets(starting).set_bounded(stopping)
        if starting.kind != "committed":
            source.set_property("commit.offsets.on.checkpoint", "false")
        settings = {"execution.checkpointing.interval": "1 s"}
        assert collected(jobs.environment(2, settings), source.build()) == Counter(map(str, expected)), starting


@pytest.mark.e2e
def test_what_cannot_be_read_fails_at_once_with_the_reason(kafka: RunningService, jobs: Jobs) -> None:
    topic = Topic(kafka.address, 1)
    topic.fill((0, n) for n in range(10))
    partition = KafkaTopicPartition(topic.name, 0)
    wrong = [
        (reading(topic).set_topics("no-such-topic"), "there is no topic 'no-such-topic'"),
        (reading(topic).set_bootstrap_servers("127.0.0.1:1"), "nothing was started: check the address"),
        (
            reading(topic).set_bounded(KafkaOffsetsInitializer.offsets({partition: 11})),
            "stopping offset 11 .* 0 and 10",
        ),
        (reading(topic).set_starting_offsets(KafkaOffsetsInitializer.offsets({partition: 99})), "starting offset 99"),
        (
            reading(topic).set_group_id("new").set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()),
            "group 'new' has no committed offset",
        ),
    ]
    settings = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000"}
    for builder, message in wrong:
        with pytest.raises(PenstockError, match=message) as caught:
            collected(jobs.environment(1, settings), builder.build())
        assert isinstance(caught.value.__cause__ or caught.value, PenstockError | ConnectorRefusedError)


@pytest.mark.e2e
def test_records_that_are_deleted_before_they_are_read_fail_the_job(
    kafka: RunningService, spark: SparkSession, tmp_path: Path
) -> None:
    jobs = Jobs(spark, tmp_path)
    topic = Topic(kafka.address, 1)
    topic.fill((0, n) for n in range(10))
    client = start(jobs, reading(topic).build(), 1)
    wait_until(lambda: sum(numbers(jobs).values()) == 10)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    topic.fill((0, n) for n in range(10, 20))
    topic.delete_records(0, 15)
    with pytest.raises(PenstockError, match="records 10 to 14 were deleted before they were read"):
        start(jobs, reading(topic).build(), 1, execution_savepoint_path=path).get_job_execution_result().result()
    accepted = reading(topic).set_fail_on_data_loss(False).build()
    client = start(jobs, accepted, 1, execution_savepoint_path=path)
    wait_until(lambda: sum(numbers(jobs).values()) == 15)
    client.cancel().result()
    assert numbers(jobs) == Counter([*range(10), *range(15, 20)])
    assert RecordsLostError.retryable is False
