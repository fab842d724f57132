"""Workload W9 on Penstock: two exchanges in sequence. Rows of the running totals go on to sums by their count."""

import argparse

import w1_penstock

from penstock.common import Types
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor


class Sum(KeyedProcessFunction):
    """The sum of all totals with the same count."""

    def open(self, ctx: RuntimeContext) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", Types.DOUBLE()))

    def process_element(self, row, ctx):
        total = (self.sum.value() or 0.0) + row.total
        self.sum.update(total)
        yield row.n, total


def build(env: StreamExecutionEnvironment, args: argparse.Namespace) -> None:
    events = env.from_dataframe(
        env.spark.readStream.schema("key string, ts bigint, value double")
        .option("maxFilesPerTrigger", args.files_per_trigger)
        .parquet(str(args.work / "input"))
    )
    counted = events.key_by("key").process(w1_penstock.CountAndSum(), output_type="key string, n bigint, total double")
    sums = counted.uid("count-and-sum").key_by("n").process(Sum(), output_type="n bigint, total double").uid("sums")
    sums.sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    w1_penstock.main(build, "bench-w9")
