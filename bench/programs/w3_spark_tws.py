"""Workload W3 on Spark's `transformWithState`, with rows or with DataFrames of pandas."""

import spark_run
from pyspark.sql.streaming import StatefulProcessor

SCHEMA = "key string, ts bigint, value double"


class FirstOfKey(StatefulProcessor):
    """Passes the first row of a key on, as a row or as a frame of one row."""

    def __init__(self, pandas):
        self.pandas = pandas

    def init(self, handle):
        self.seen = handle.getValueState("seen", "seen boolean")

    def handleInputRows(self, key, rows, timerValues):
        if not self.seen.exists():
            self.seen.update((True,))
            first = next(iter(rows))
            yield first.head(1) if self.pandas else first

    def close(self):
        pass


def build(spark, args):
    keyed = spark_run.read_stream(spark, args, "events", SCHEMA).groupBy("key")
    transform = keyed.transformWithStateInPandas if args.api == "pandas" else keyed.transformWithState
    return transform(
        statefulProcessor=FirstOfKey(args.api == "pandas"),
        outputStructType=SCHEMA,
        outputMode="Append",
        timeMode="None",
    )


if __name__ == "__main__":
    spark_run.run(build)
