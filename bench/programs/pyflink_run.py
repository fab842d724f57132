"""Runs a program on PyFlink to the end of its input, in one JVM with the client.

The clock starts with the first line that is parsed and stops with the last result, so the start of the JVM and of the
job is left out. A line of the file of batches stands for rows that were read, or for results.
"""

import argparse
import json
import os
import sys
import sysconfig
import time
import uuid
from pathlib import Path

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

MARK_ROWS = 10_000


def now_ms():
    return time.time() * 1000


def write_line(work, batch):
    """Append a line to a file of this process's own."""
    path = Path(work, f"events-{uuid.uuid4().hex}.jsonl")
    path.write_text(json.dumps(batch) + "\n")


class Parse(MapFunction):
    """The fields of a line. Writes down every ten thousand rows."""

    def __init__(self, work, parse):
        self.work = work
        self.parse = parse

    def open(self, ctx: RuntimeContext):
        self.rows = 0
        self.started_ms = 0.0

    def map(self, line):
        if not self.rows:
            self.started_ms = now_ms()
        self.rows += 1
        if self.rows == MARK_ROWS:
            self.mark()
        return self.parse(line)

    def mark(self):
        batch = {"rows": self.rows, "rows_out": 0, "started_ms": self.started_ms, "finished_ms": now_ms()}
        write_line(self.work, batch)
        self.rows = 0

    def close(self):
        if self.rows:
            self.mark()


class CountResults(MapFunction):
    """Passes results on and writes down how many there were."""

    def __init__(self, work):
        self.work = work

    def open(self, ctx: RuntimeContext):
        self.results = 0
        self.first_ms = self.last_ms = 0.0

    def map(self, result):
        self.last_ms = now_ms()
        self.first_ms = self.first_ms or self.last_ms
        self.results += 1
        return result

    def close(self):
        batch = {"rows": 0, "rows_out": self.results, "started_ms": self.first_ms, "finished_ms": self.last_ms}
        if self.results:
            write_line(self.work, batch)


class EventTime(TimestampAssigner):
    def __init__(self, position):
        self.position = position

    def extract_timestamp(self, value, record_timestamp):
        return value[self.position]


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", type=Path, help="a folder for each stream")
    parser.add_argument("--mode", choices=("thread", "process"), required=True)
    parser.add_argument("--backend", default="hashmap")
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--query", default="")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--keys", type=int)
    parser.add_argument("--rows-per-s", type=int)
    return parser.parse_args()


def make_environment(args):
    # Embedded Python does not see the packages of a virtual environment, nor this folder, by itself.
    os.environ["PYTHONPATH"] = os.pathsep.join([sysconfig.get_paths()["purelib"], str(Path(__file__).parent)])
    settings = Configuration()
    for name, value in {
        "python.execution-mode": args.mode,
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "restart-strategy.type": "none",
        "execution.checkpointing.dir": (args.work / "checkpoints").as_uri(),
        "state.backend.type": args.backend,
        "state.backend.rocksdb.localdir": str(args.work / "rocksdb"),
        "taskmanager.memory.managed.size": "512m",  # 256 MB for each of two slots, as RocksDB has in Penstock
    }.items():
        settings.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(args.parallelism)
    env.enable_checkpointing(5_000)
    return env


def read_records(env, args, name, parse, record_type, time_position=None):
    """A stream of the input, parsed in Python; with event time if the position of its column is given."""
    folder = str(args.input / name)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), name)
    records = lines.map(Parse(str(args.work), parse), record_type)
    if time_position is None:
        return records
    # The readers are not in step: a minute is enough that no row is late, as for the other engines.
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1))
    return records.assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(EventTime(time_position)))


def run(build):
    """Run the program whose results are the stream `build(env, args)`, of the type that it returns too."""
    args = parse_arguments()
    env = make_environment(args)
    results, result_type = build(env, args)
    results.map(CountResults(str(args.work)), result_type).filter(lambda result: False).print()
    env.execute("bench")


LONG_PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])


def parse_event(line):
    key, ts, value = line.split(",")
    return key, int(ts), float(value)
