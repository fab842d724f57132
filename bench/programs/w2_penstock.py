"""Workload W2 on Penstock: count and sum per key in tumbling windows of 10 s.

A last row far in the future lets every window fire. The run counts only if there is a result for each key and window.
"""

import argparse
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from epoch_log import committed_epochs
from w1_penstock import configure

from penstock.common import Time, Types
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import AggregateFunction, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

WINDOW_MS = 10_000
DAY_MS = 86_400_000


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


def build(env: StreamExecutionEnvironment, args: argparse.Namespace) -> None:
    rows = (
        env.spark.readStream.schema("key string, ts bigint, value double")
        .option("maxFilesPerTrigger", args.files_per_trigger)
        .parquet(str(args.work / "input"))
    )
    timed = rows.selectExpr("key", "timestamp_millis(ts) as at", "value")
    events = env.from_dataframe(timed, event_time="at", max_out_of_orderness="6 seconds")
    windows = events.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    pair = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    totals = windows.aggregate(CountAndSum(), accumulator_type=pair, output_type=pair)
    totals.uid("count-and-sum").sink_to(DiscardingSink()).uid("discard")


def write_input(args: argparse.Namespace) -> tuple[int, int]:
    """Earlier copies of the files, the files themselves, and the last row; rows of the copies, and all windows."""
    folder = args.work / "input"
    folder.mkdir()
    files = sorted(args.data.glob("*.parquet"))
    tables = [pq.read_table(file) for file in files]
    times = [table["ts"] for table in tables]
    first, last = min(pc.min(ts).as_py() for ts in times), max(pc.max(ts).as_py() for ts in times)
    span_ms = (last - first) // WINDOW_MS * WINDOW_MS + 2 * WINDOW_MS
    count = args.repeated_batches * args.files_per_trigger
    cycles = -(-count // len(files))
    modified_s = int(files[0].stat().st_mtime) - count - 1
    repeated = windows = 0
    seen: dict[int, list[pa.Table]] = {}
    for index in range(cycles * len(files) - count, (cycles + 1) * len(files)):
        cycle, number = divmod(index, len(files))
        shifted = pc.subtract(times[number], (cycles - cycle) * span_ms)
        table = tables[number].set_column(1, "ts", shifted)
        path = folder / f"part-{index:05d}.parquet"
        pq.write_table(table, path)
        modified_s += 1
        os.utime(path, (modified_s, modified_s))
        repeated += table.num_rows if cycle < cycles else 0
        starts = pc.divide(shifted, WINDOW_MS)
        seen.setdefault(cycle, []).append(pa.table({"key": table["key"], "window": starts}))
    for parts in seen.values():
        windows += pa.concat_tables(parts).group_by(["key", "window"]).aggregate([]).num_rows
    end = pa.table({"key": ["end"], "ts": pa.array([last + DAY_MS], pa.int64()), "value": [0.0]})
    pq.write_table(end, folder / "part-99999.parquet")
    os.utime(folder / "part-99999.parquet", (modified_s + 1, modified_s + 1))
    return repeated, windows


def main() -> None:
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
    args.passthrough = False

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
