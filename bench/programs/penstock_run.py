"""Runs a program on Penstock to the end of its input. The file source never ends, so the job is cancelled then."""

import argparse
import os
import time
from pathlib import Path

from batch_log import BatchLog
from epoch_log import BATCH_FIELDS, committed_epochs

from penstock.common import Configuration
from penstock.datastream import DataStream, StreamExecutionEnvironment

IDLE_LIMIT_S = 60.0
"""How long results may be missing after the last row."""


def parse_arguments() -> argparse.Namespace:
    """The options that `bench/engines/penstock.py` gives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--files-per-trigger", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rows-out", type=int, required=True)
    parser.add_argument("--inner-rows", type=int, required=True, help="results between the steps of the program")
    parser.add_argument("--closing-rows", type=int, required=True, help="rows that only let windows fire")
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--query", default="")
    parser.add_argument("--checkpoints", default="5s", help="how often, or none")
    parser.add_argument("--backend", default="hashmap")
    return parser.parse_args()


def configure(args: argparse.Namespace) -> Configuration:
    """Everything below the work folder; state and checkpoints as the options say."""
    return Configuration.from_dict(
        {
            "parallelism.default": str(args.parallelism),
            **({} if args.checkpoints == "none" else {"execution.checkpointing.interval": args.checkpoints}),
            "execution.checkpointing.dir": str(args.work / "checkpoints"),
            "state.backend.type": args.backend,
            "state.backend.rocksdb.localdir": str(args.work / "rocksdb"),
            "penstock.registry.dir": str(args.work / "registry"),
            "spark.master": f"local[{args.parallelism},4]",
            "spark.driver.memory": "6g",
            "spark.ui.enabled": "false",
        }
    )


def read_stream(env, args: argparse.Namespace, name: str, schema: str, lateness: str | None = None) -> DataStream:
    """A stream of the input; with a lateness its column `ts` becomes the event time `at`."""
    reader = env.spark.readStream.schema(schema).option("maxFilesPerTrigger", args.files_per_trigger)
    rows = reader.parquet(str(args.input / name))
    if lateness is None:
        return env.from_dataframe(rows, name=name).uid(name)
    columns = [column.split()[0] for column in schema.split(", ")]
    timed = rows.selectExpr(*("timestamp_millis(ts) as at" if column == "ts" else column for column in columns))
    return env.from_dataframe(timed, event_time="at", max_out_of_orderness=lateness, name=name).uid(name)


def run(build) -> None:
    """Run the program that `build(env, args)` makes."""
    args = parse_arguments()
    epoch_log = args.work / "epochs.jsonl"
    os.environ["PENSTOCK_EPOCH_LOG"] = str(epoch_log)
    env = StreamExecutionEnvironment.get_execution_environment(configure(args))
    build(env, args)
    job = env.execute_async("bench")
    changed = [time.monotonic()]

    def is_running() -> bool:
        if log.rows >= args.rows and time.monotonic() - changed[0] > IDLE_LIMIT_S:
            return False
        return not job.get_job_status().result().is_globally_terminal_state()

    with BatchLog(args.events, args.closing_rows) as log:
        for epoch in committed_epochs(epoch_log, is_running):
            if epoch["rows"] or epoch["rows_out"]:
                changed[0] = time.monotonic()
            log.add({name: epoch[name] for name in BATCH_FIELDS})
            if log.rows >= args.rows and log.rows_out >= args.rows_out + args.inner_rows:
                break
        if log.rows < args.rows:
            job.get_job_execution_result().result()
            raise SystemExit(f"the job ended after {log.rows} of {args.rows} rows")
        log.take_back(args.inner_rows)
    job.cancel().result()
