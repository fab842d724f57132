"""Runs a query on Spark's own engine to the end of its input."""

import argparse
import time
from pathlib import Path

from batch_log import BatchLog
from w1_spark_tws_row import describe, make_session

POLL_S = 0.1


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--files-per-trigger", type=int, required=True)
    parser.add_argument("--closing-rows", type=int, required=True, help="rows that only let windows fire")
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--query", default="")
    parser.add_argument("--api", choices=("row", "pandas"), default="row", help="of transformWithState")
    return parser.parse_args()


def read_stream(spark, args, name, schema):
    """A stream of the input."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", args.files_per_trigger)
    return reader.parquet(str(args.input / name))


def follow(query, log):
    """Write down each batch as it ends, until the input is used up."""
    seen = -1
    active = True
    while active:
        active = query.isActive
        for progress in query.recentProgress:
            if progress["batchId"] > seen:
                seen = progress["batchId"]
                log.add(describe(progress))
        time.sleep(POLL_S)
    if query.exception() is not None:
        raise query.exception()


def run(build):
    """Run the query that `build(spark, args)` makes."""
    args = parse_arguments()
    spark = make_session(args.parallelism)
    writer = build(spark, args).writeStream.format("noop").outputMode("append")
    query = writer.option("checkpointLocation", str(args.work / "checkpoints")).trigger(availableNow=True).start()
    with BatchLog(args.events, args.closing_rows) as log:
        follow(query, log)
    spark.stop()
