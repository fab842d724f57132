"""Workload W1 on Penstock with `keyed.running`, which aggregates columns."""

import argparse

from w1_penstock import main

from penstock.connectors.discard import DiscardingSink
from penstock.datastream import StreamExecutionEnvironment, agg


def build(env: StreamExecutionEnvironment, args: argparse.Namespace) -> None:
    events = env.from_dataframe(
        env.spark.readStream.schema("key string, ts bigint, value double")
        .option("maxFilesPerTrigger", args.files_per_trigger)
        .parquet(str(args.work / "input"))
    )
    totals = events.key_by("key").running(n=agg.count(), total=agg.sum("value"))
    totals.uid("count-and-sum").sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    main(build)
