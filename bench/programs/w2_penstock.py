"""Workload W2 on Penstock: count and sum per key in tumbling windows of 10 s.

A last row far in the future lets every window fire. The run counts only if there is a result for each key and window.
"""

import argparse
import json
import os
from pathlib import Path

from epoch_log import committed_epochs
from w1_penstock import configure
from w2_input import WINDOW_MS, write_input

from penstock.common import Time, Types
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import AggregateFunction, DataStream, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows


class CountAndSum(AggregateFunction):
    """The accumulator is its own result."""

    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value.value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def timed_events(env: StreamExecutionEnvironment, args: argparse.Namespace) -> DataStream:
    """The input, with event time."""
    rows = (
        env.spark.readStream.schema("key string, ts bigint, value double")
        .option("maxFilesPerTrigger", args.files_per_trigger)
        .parquet(str(args.work / "input"))
    )
    timed = rows.selectExpr("key", "timestamp_millis(ts) as at", "value")
    return env.from_dataframe(timed, event_time="at", max_out_of_orderness="6 seconds")


def build(env: StreamExecutionEnvironment, args: argparse.Namespace) -> None:
    windows = timed_events(env, args).key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    pair = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    totals = windows.aggregate(CountAndSum(), accumulator_type=pair, output_type=pair)
    totals.uid("count-and-sum").sink_to(DiscardingSink()).uid("discard")


def main(build=build) -> None:
    """Run the program that `build` makes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--files-per-trigger", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--repeated-batches", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--checkpoints", default="5s", help="how often, or none")
    args = parser.parse_args()
    args.passthrough = args.queryable = args.without_server = False

    epoch_log = args.work / "epochs.jsonl"
    os.environ["PENSTOCK_EPOCH_LOG"] = str(epoch_log)
    repeated, windows = write_input(args)
    env = StreamExecutionEnvironment.get_execution_environment(configure(args))
    build(env, args)
    job = env.execute_async("bench-w2")

    def is_running() -> bool:
        return not job.get_job_status().result().is_globally_terminal_state()

    batches: list[dict] = []
    results = seen = 0
    for epoch in committed_epochs(epoch_log, is_running):
        results += epoch.get("rows_out", 0)
        if epoch["rows"] > 1:
            batches.append({name: epoch[name] for name in ("rows", "started_ms", "finished_ms")})
            seen += epoch["rows"]
        elif batches:  # the last row, or nothing: windows fire
            batches[-1]["finished_ms"] = epoch["finished_ms"]
        if results >= windows:
            break
    if results != windows or seen != args.rows + repeated:
        raise SystemExit(f"{results} windows of {windows}, {seen} rows of {args.rows + repeated}")
    args.events.write_text("".join(json.dumps(batch) + "\n" for batch in batches))
    job.cancel().result()


if __name__ == "__main__":
    main()
