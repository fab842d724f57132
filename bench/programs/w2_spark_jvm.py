"""Workload W2 on Spark's own windows: the aggregation runs in the JVM, with state in RocksDB and no Python."""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import functions as F
from w1_spark_tws_row import describe, make_session
from w2_input import write_input


def start_query(spark, args):
    events = (
        spark.readStream.schema("key string, ts bigint, value double")
        .option("maxFilesPerTrigger", args.files_per_trigger)
        .parquet(str(args.work / "input"))
        .selectExpr("key", "timestamp_millis(ts) as at", "value")
        .withWatermark("at", "6 seconds")
    )
    totals = events.groupBy("key", F.window("at", "10 seconds")).agg(F.count("*").alias("n"), F.sum("value"))
    return (
        totals.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(args.work / "checkpoints"))
        .trigger(availableNow=True)
        .start()
    )


def read_batches(query):
    """Batches with rows, the last until its windows have fired, and how many windows have fired."""
    batches, windows, seen = [], 0, -1
    active = True
    while active:
        active = query.isActive
        for progress in query.recentProgress:
            if progress["batchId"] <= seen:
                continue
            seen = progress["batchId"]
            batch = describe(progress)
            windows += batch.pop("rows_out")
            if batch["rows"] > 1:
                batches.append(batch)
            elif batches:  # the last row, or nothing: windows fire
                batches[-1]["finished_ms"] = batch["finished_ms"]
        time.sleep(0.1)
    return batches, windows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--files-per-trigger", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--repeated-batches", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()

    repeated, expected = write_input(args)
    spark = make_session(args.parallelism)
    query = start_query(spark, args)
    batches, windows = read_batches(query)
    if query.exception() is not None:
        raise query.exception()
    rows = sum(batch["rows"] for batch in batches)
    if windows != expected or rows != args.rows + repeated:
        raise SystemExit(f"{windows} windows of {expected}, {rows} rows of {args.rows + repeated}")
    args.events.write_text("".join(json.dumps(batch) + "\n" for batch in batches))
    spark.stop()


if __name__ == "__main__":
    main()
