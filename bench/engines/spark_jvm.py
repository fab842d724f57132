"""Spark's own window aggregation in the JVM, RocksDB state store: no Python touches a row."""

from bench.engine import PARALLELISM, PROGRAMS, Engine, Round
from bench.engines.spark_tws_row import VENV

REPEATED_BATCHES = 10
"""Before the measured ones. Fewer than for Penstock, because its batches take longer."""


def commands(round_: Round) -> list[list[str]]:
    """The driver of the query; Spark is below it."""
    return [
        [
            str(round_.python),
            str(PROGRAMS / f"{round_.workload}_spark_jvm.py"),
            *("--data", str(round_.data / "parquet")),
            *("--files-per-trigger", str(round_.files_per_trigger)),
            *("--rows", str(round_.rows)),
            *("--parallelism", str(PARALLELISM)),
            *("--repeated-batches", str(REPEATED_BATCHES)),
            *("--work", str(round_.work)),
            *("--events", str(round_.events())),
        ]
    ]


ENGINE = Engine(
    name="spark_jvm",
    venv=VENV,
    commands=commands,
    warmup_batches=REPEATED_BATCHES,
    repeated_batches=REPEATED_BATCHES,
    workloads=("w2",),
)
