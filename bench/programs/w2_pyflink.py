"""Workload W2 on PyFlink: count and sum per key in tumbling windows of 10 s.

The clock starts with the first record that is parsed and stops when the job has ended, so the start of the JVM and of
the job is left out. `rows_out` are the rows of all windows together.
"""

import argparse
import json
import os
import sysconfig
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.window import TumblingEventTimeWindows


class Parse(MapFunction):
    """The fields of a line. Notes when the first one came."""

    def __init__(self, work):
        self.work = work

    def open(self, ctx: RuntimeContext):
        self.started = Path(self.work, f"started-{uuid.uuid4().hex}")
        self.first = True

    def map(self, line):
        if self.first:
            self.first = False
            self.started.write_text(str(time.time() * 1000))
        key, ts, value = line.split(",")
        return key, int(ts), float(value)


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class CountAndSum(AggregateFunction):
    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class CountRows(MapFunction):
    """Passes results on and notes at the end how many rows they stand for."""

    def __init__(self, work):
        self.work = work

    def open(self, ctx: RuntimeContext):
        self.counted = Path(self.work, f"rows-out-{uuid.uuid4().hex}")
        self.rows = 0

    def map(self, totals):
        self.rows += totals[0]
        return totals

    def close(self):
        self.counted.write_text(str(self.rows))


def write_input(args):
    """The first files as lines: a file for each reader, with alternate rows. How many rows they have."""
    folder = args.work / "input"
    folder.mkdir()
    table = pa.concat_tables(pq.read_table(file) for file in sorted(args.data.glob("*.parquet"))[: args.files])
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    for index in range(args.parallelism):
        rows = table.take(list(range(index, table.num_rows, args.parallelism)))
        pa_csv.write_csv(rows, folder / f"part-{index}.csv", options)
    return table.num_rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--mode", choices=("thread", "process"), required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()

    rows = write_input(args)
    # Embedded Python does not see the packages of a virtual environment by itself.
    os.environ["PYTHONPATH"] = sysconfig.get_paths()["purelib"]
    settings = Configuration()
    settings.set_string("python.execution-mode", args.mode)
    settings.set_string("restart-strategy.type", "none")
    settings.set_string("execution.checkpointing.dir", (args.work / "checkpoints").as_uri())
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(args.parallelism)
    env.enable_checkpointing(5_000)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(args.work / "input")).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    event = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
    pair = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    # The readers are not in step: a minute is enough that no row is late, as for the other engines.
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1))
    events = lines.map(Parse(str(args.work)), event).assign_timestamps_and_watermarks(
        watermarks.with_timestamp_assigner(EventTime())
    )
    windows = events.key_by(lambda value: value[0], Types.STRING()).window(
        TumblingEventTimeWindows.of(Time.seconds(10))
    )
    totals = windows.aggregate(CountAndSum(), accumulator_type=pair, output_type=pair)
    totals.map(CountRows(str(args.work)), pair).filter(lambda totals: False).print()
    env.execute("bench-w2")
    finished_ms = time.time() * 1000
    started_ms = min(float(path.read_text()) for path in args.work.glob("started-*"))
    rows_out = sum(int(path.read_text()) for path in args.work.glob("rows-out-*"))
    span = {"rows": rows, "rows_out": rows_out, "started_ms": started_ms, "finished_ms": finished_ms}
    args.events.write_text(json.dumps(span) + "\n")


if __name__ == "__main__":
    main()
