"""A job that changes from Spark's Kafka connector to ours, and back, by savepoints: no gap, nothing twice.

At each change it also gets another parallelism, and the topic more partitions.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.kafka_read import JARS
from penstock.services import RunningService, cache_folder
from penstock.services.maven import fetch_jars
from tests.kafka_topics import Topic
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.e2e, pytest.mark.timeout(1200)]
READERS = (("spark", 2, 2), ("penstock", 3, 4), ("spark", 1, 5))
"""Connector, parallelism and partitions of the topic, one after the other."""
PER_ROUND, KEYS = 600, 7
PROGRAM = """
import sys

from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import SimpleStringSchema
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.kafka import KafkaSource
from penstock.datastream.state import ValueStateDescriptor


class Total(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, number, ctx):
        total = (self.total.value() or 0) + number
        self.total.update(total)
        yield number, total


reader, brokers, topic, out = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1_000)
if reader == "spark":
    frame = env.spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    frame = frame.option("subscribe", topic).option("startingOffsets", "earliest").load()
    stream = env.from_dataframe(frame.selectExpr("cast(value as string) as value"))
else:
    source = KafkaSource.builder().set_bootstrap_servers(brokers).set_topics(topic)
    source = source.set_value_only_deserializer(SimpleStringSchema()).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers = stream.uid("numbers").map(lambda r: int(r if isinstance(r, str) else r[0]), Types.LONG())
totals = numbers.key_by(lambda n: n % 7, Types.LONG()).process(Total(), "n bigint, total bigint").uid("total")
totals.sink_to(FileSink.for_row_format(out, "json").build()).uid("out")
env.execute("numbers")
"""


def rows(folder: Path) -> list[dict[str, int]]:
    files = [path for path in folder.glob("*") if not path.name.startswith((".", "_"))]
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def penstock(folder: Path, *arguments: str) -> list[str]:
    settings = [f"-Dpenstock.registry.dir={folder / 'registry'}"]
    return [sys.executable, "-m", "penstock", arguments[0], *settings, *arguments[1:]]


def start(folder: Path, reader: str, parallelism: int, arguments: list[str]) -> "subprocess.Popen[bytes]":
    jars = fetch_jars(JARS, cache_folder() / "spark-kafka-4.2.0", transitive=False)
    settings = [f"-Dspark.jars={','.join(map(str, jars))}", "-Dspark.master=local[2,4]"]
    settings.append(f"-Dexecution.checkpointing.dir={folder / 'checkpoints'}")
    command = penstock(folder, "run", "-p", str(parallelism), *settings, *arguments)
    with open(folder / f"{reader}-{parallelism}.txt", "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)


def stop(folder: Path) -> str:
    """The savepoint."""
    command = penstock(folder, "stop", "numbers", "-p", str(folder / "savepoints"), "--json")
    stopped = subprocess.run(command, capture_output=True, text=True, check=True)
    return next(str(word) for word in json.loads(stopped.stdout).values() if "savepoint-" in str(word))


def await_rows(job: "subprocess.Popen[bytes]", out: Path, count: int, log: Path) -> None:
    wait_until(lambda: len(rows(out)) >= count or job.poll() is not None)
    assert job.poll() is None, log.read_text("utf-8")


def test_a_savepoint_of_one_connector_is_continued_by_the_other_at_another_parallelism_with_more_partitions(
    kafka: RunningService, tmp_path: Path
) -> None:
    program = tmp_path / "number_totals.py"
    program.write_text(PROGRAM, encoding="utf-8")
    start_from: list[str] = []
    out, sent = tmp_path / "out", 0
    topic = Topic(kafka.address, 2)
    for reader, parallelism, partitions in READERS:
        if partitions > 2:
            topic.add_partitions(partitions)  # while the job does not run
        topic.fill((n % partitions, n) for n in range(sent, sent + PER_ROUND))
        sent += PER_ROUND
        arguments = [*start_from, str(program), reader, kafka.address, topic.name, str(out)]
        job = start(tmp_path, reader, parallelism, arguments)
        try:
            await_rows(job, out, sent, tmp_path / f"{reader}-{parallelism}.txt")
            if (reader, parallelism, partitions) != READERS[-1]:  # some of these, or none, are in the savepoint
                topic.fill((n % partitions, n) for n in range(sent, sent + PER_ROUND))
                sent += PER_ROUND
            start_from = ["-s", stop(tmp_path)]
            job.wait()
        finally:
            job.kill()
            job.wait()
    found = rows(out)
    assert Counter(row["n"] for row in found) == Counter(range(sent))
    totals = {row["n"] % KEYS: row["total"] for row in sorted(found, key=lambda row: row["total"])}
    assert totals == {key: sum(n for n in range(sent) if n % KEYS == key) for key in range(KEYS)}
