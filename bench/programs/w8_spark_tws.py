"""Workload W8 on Spark's `transformWithState`; the latency is taken where the rows of a batch reach the driver."""

import argparse
from pathlib import Path

import rate_rows
from latency_log import LatencyLog, sum_up, wait_for_rows
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from w1_spark_tws_row import make_session

Made = Row("number", "made_us")


class Count(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key, rows, timerValues):
        count = (self.count.get() or (0,))[0]
        for row in rows:
            count += 1
            yield Made(row.number, row.made_us)
        self.count.update((count,))

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rows-per-s", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()

    rate_rows.prepare_workers()
    spark = make_session(args.parallelism)
    log = LatencyLog(args.work)
    counts = (
        rate_rows.read_rows(spark, args)
        .groupBy("key")
        .transformWithState(Count(), "number bigint, made_us bigint", outputMode="Append", timeMode="None")
    )

    def write(frame, batch_id):
        table = frame.toArrow()
        log.add(zip(table["number"].to_pylist(), table["made_us"].to_pylist(), strict=True))

    query = counts.writeStream.foreachBatch(write).option("checkpointLocation", str(args.work / "checkpoints")).start()
    wait_for_rows(args.work, args.rows)
    query.stop()
    log.close()
    sum_up(args.work, args.events, args.rows)
    spark.stop()


if __name__ == "__main__":
    main()
