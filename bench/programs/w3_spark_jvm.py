"""Workload W3 on Spark's own `dropDuplicates`: no Python touches a row."""

import spark_run


def build(spark, args):
    events = spark_run.read_stream(spark, args, "events", "key string, ts bigint, value double")
    return events.dropDuplicates(["key"])


if __name__ == "__main__":
    spark_run.run(build)
