"""Spark's own `transformWithState` on rows, RocksDB state store. It is slow, so two steady batches must do."""

from bench.engine import PARALLELISM, PROGRAMS, Engine, Round
from bench.venvs import Venv

VENV = Venv("spark", ("pyspark==4.3.0", "pyarrow==26.0.1", "pandas==3.1.1", "protobuf==7.36.2"))
STEADY_BATCHES = 2
WARMUP_BATCHES = 1


def commands(round_: Round) -> list[list[str]]:
    """The driver of the query; Spark is below it."""
    return [
        [
            str(round_.python),
            str(PROGRAMS / "w1_spark_tws_row.py"),
            *("--data", str(round_.data / "parquet")),
            *("--files-per-trigger", str(round_.files_per_trigger)),
            *("--batches", str(WARMUP_BATCHES + STEADY_BATCHES)),
            *("--parallelism", str(PARALLELISM)),
            *("--work", str(round_.work)),
            *("--events", str(round_.events())),
        ]
    ]


ENGINE = Engine(
    name="spark_tws_row",
    venv=VENV,
    commands=commands,
    warmup_batches=WARMUP_BATCHES,
    steady_batches=STEADY_BATCHES,
)
