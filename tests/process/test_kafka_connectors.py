"""A job that changes from Spark's Kafka connector to ours, and back, by savepoints: no gap, nothing twice."""

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

pytestmark = [pytest.mark.process, pytest.mark.e2e]
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
totals = numbers.key_by(lambda n: n % 3, Types.LONG()).process(Total(), "n bigint, total bigint").uid("total")
totals.sink_to(FileSink.for_row_format(out, "json").build()).uid("out")
env.execute("numbers")
"""


def rows(folder: Path) -> list[dict[str, int]]:
    files = [path for path in folder.glob("*") if not path.name.startswith((".", "_"))]
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def penstock(folder: Path, *arguments: str) -> list[str]:
    settings = [f"-Dpenstock.registry.dir={folder / 'registry'}"]
    return [sys.executable, "-m", "penstock", arguments[0], *settings, *arguments[1:]]


def test_a_savepoint_of_one_connector_is_continued_by_the_other(kafka: RunningService, tmp_path: Path) -> None:
    jars = fetch_jars(JARS, cache_folder() / "spark-kafka-4.2.0", transitive=False)
    program = tmp_path / "number_totals.py"
    program.write_text(PROGRAM, encoding="utf-8")
    out, savepoint, sent = tmp_path / "out", "", 0
    topic = Topic(kafka.address, 2)
    for reader in ("spark", "penstock", "spark"):
        topic.fill((n % 2, n) for n in range(sent, sent + 60))
        sent += 60
        settings = [f"-Dspark.jars={','.join(map(str, jars))}", "-Dspark.master=local[2,4]"]
        settings.append(f"-Dexecution.checkpointing.dir={tmp_path / 'checkpoints'}")
        start = ["-s", savepoint] if savepoint else []
        arguments = [reader, kafka.address, topic.name, str(out)]
        with open(tmp_path / f"{reader}-{sent}.txt", "wb") as log:
            command = penstock(tmp_path, "run", "-p", "2", *settings, *start, str(program), *arguments)
            job = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        try:
            wait_until(lambda sent=sent, job=job: len(rows(out)) >= sent or job.poll() is not None)  # type: ignore[misc]
            assert job.poll() is None, Path(log.name).read_text("utf-8")
            stop = penstock(tmp_path, "stop", "numbers", "-p", str(tmp_path / "savepoints"), "--json")
            stopped = subprocess.run(stop, capture_output=True, text=True, check=True)
            savepoint = next(word for word in json.loads(stopped.stdout).values() if "savepoint-" in str(word))
            job.wait()
        finally:
            job.kill()
            job.wait()
    assert Counter(row["n"] for row in rows(out)) == Counter(range(sent))
