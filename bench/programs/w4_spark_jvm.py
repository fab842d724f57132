"""Workload W4 on Spark's own stream-stream join: no Python touches a row."""

import spark_run
from pyspark.sql import functions as F


def read_side(spark, args, name):
    rows = spark_run.read_stream(spark, args, name, "key string, ts bigint, value double")
    timed = rows.selectExpr(f"key as {name}_key", f"timestamp_millis(ts) as {name}_at", f"value as {name}_value")
    return timed.withWatermark(f"{name}_at", "6 seconds")


def build(spark, args):
    near = "left_key = right_key and right_at between left_at and left_at + interval 10 seconds"
    return read_side(spark, args, "left").join(read_side(spark, args, "right"), F.expr(near))


if __name__ == "__main__":
    spark_run.run(build)
