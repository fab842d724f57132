"""Workload W1 on Spark's `transformWithStateInPandas`, which gets and returns DataFrames of pandas."""

import pandas as pd
import spark_run
from pyspark.sql.streaming import StatefulProcessor


class CountAndSum(StatefulProcessor):
    """Reads the state once and writes it once per key and batch, however many rows the key has."""

    def init(self, handle):
        self.totals = handle.getValueState("totals", "n bigint, total double")

    def handleInputRows(self, key, rows, timerValues):
        n, total = self.totals.get() or (0, 0.0)
        for frame in rows:
            sums = frame["value"].cumsum() + total
            count = len(frame)
            yield pd.DataFrame({"key": key[0], "n": range(n + 1, n + count + 1), "total": sums})
            n, total = n + count, float(sums.iloc[-1])
        self.totals.update((n, total))

    def close(self):
        pass


def build(spark, args):
    events = spark_run.read_stream(spark, args, "events", "key string, ts bigint, value double")
    return events.groupBy("key").transformWithStateInPandas(
        statefulProcessor=CountAndSum(),
        outputStructType="key string, n bigint, total double",
        outputMode="Append",
        timeMode="None",
    )


if __name__ == "__main__":
    spark_run.run(build)
