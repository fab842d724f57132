"""Rows that are made at a fixed rate, as a Python data source of Spark: number, key, and when it was made.

Row `number` is made at `start_us + number / rate`, whoever reads it and whenever, so a delay of the reader counts.
"""

import os
from pathlib import Path

import pyarrow as pa
from latency_log import now_us
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

SCHEMA = "number bigint, key bigint, made_us bigint"
START_DELAY_S = 15
"""Between the start of the session and the first row."""
BATCH_ROWS = 10_000


class Numbers(InputPartition):
    """Rows start … end - 1."""

    def __init__(self, start, end):
        self.start = start
        self.end = end


class RateReader(DataSourceStreamReader):
    def __init__(self, options):
        names = ("start_us", "rows", "keys", "rate", "parallelism")
        self.start_us, self.rows, self.keys, self.rate, self.parallelism = (int(options[name]) for name in names)

    def initialOffset(self):
        return {"rows": 0}

    def latestOffset(self, start=None, limit=None):
        due = (now_us() - self.start_us) * self.rate // 1_000_000
        return {"rows": max(0, min(self.rows, due))}

    def partitions(self, start, end):
        first, behind, parts = start["rows"], end["rows"], self.parallelism
        bounds = [first + (behind - first) * part // parts for part in range(parts + 1)]
        return [Numbers(*pair) for pair in zip(bounds, bounds[1:], strict=False) if pair[0] < pair[1]]

    def read(self, partition):
        for first in range(partition.start, partition.end, BATCH_ROWS):
            numbers = range(first, min(first + BATCH_ROWS, partition.end))
            columns = [
                numbers,
                [number * 7919 % self.keys for number in numbers],
                [self.start_us + number * 1_000_000 // self.rate for number in numbers],
            ]
            arrays = [pa.array(column, pa.int64()) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=["number", "key", "made_us"])

    def commit(self, end):
        pass


class RateRows(DataSource):
    @classmethod
    def name(cls):
        return "bench_rate"

    def schema(self):
        return SCHEMA

    def streamReader(self, schema):
        return RateReader(self.options)


def prepare_workers():
    """Let Spark's Python workers import this module; before the session is made."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def read_rows(spark, args):
    """The rows as a stream."""
    spark.dataSource.register(RateRows)
    options = {
        "start_us": now_us() + START_DELAY_S * 1_000_000,
        "rows": args.rows,
        "keys": args.keys,
        "rate": args.rows_per_s,
        "parallelism": args.parallelism,
    }
    return spark.readStream.format("bench_rate").options(**options).load()
