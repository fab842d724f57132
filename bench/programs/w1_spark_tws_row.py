"""Workload W1 on Spark's `transformWithState`: stops after the given number of batches."""

import argparse
import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

Total = Row("key", "n", "total")


class CountAndSum(StatefulProcessor):
    """Reads the state once and writes it once per key and batch, however many rows the key has."""

    def init(self, handle):
        self.totals = handle.getValueState("totals", "n bigint, total double")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.totals.get() or (0, 0.0)
        for row in rows:
            n += 1
            total += row.value
            yield Total(key[0], n, total)
        self.totals.update((n, total))

    def close(self):
        pass


def make_session(parallelism):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "6g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(parallelism),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    spark = SparkSession.builder.master(f"local[{parallelism}]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start_query(spark, args):
    events = (
        spark.readStream.schema("key string, ts bigint, value double")
        .option("maxFilesPerTrigger", args.files_per_trigger)
        .parquet(str(args.data))
    )
    totals = events.groupBy("key").transformWithState(
        statefulProcessor=CountAndSum(),
        outputStructType="key string, n bigint, total double",
        outputMode="Append",
        timeMode="None",
    )
    return (
        totals.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(args.work / "checkpoints"))
        .trigger(availableNow=True)
        .start()
    )


def describe(progress):
    started_ms = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp() * 1000
    return {
        "rows": progress["numInputRows"],
        "rows_out": progress["sink"]["numOutputRows"],
        "started_ms": started_ms,
        "finished_ms": started_ms + progress["durationMs"]["triggerExecution"],
    }


def follow(query, batches, events):
    """Write down each batch as it ends, until there are enough or the input is used up."""
    seen = -1
    while True:
        active = query.isActive
        for progress in query.recentProgress:
            if seen < progress["batchId"] < batches and progress["numInputRows"]:
                seen = progress["batchId"]
                events.write(json.dumps(describe(progress)) + "\n")
                events.flush()
        if seen == batches - 1 or not active:
            return
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--files-per-trigger", type=int, required=True)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()

    spark = make_session(args.parallelism)
    query = start_query(spark, args)
    with args.events.open("w") as events:
        follow(query, args.batches, events)
    if query.exception() is not None:
        raise query.exception()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
