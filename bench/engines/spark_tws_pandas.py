"""Spark's own `transformWithStateInPandas`, RocksDB state store. It is slow, so one batch after the first must do."""

from bench.engine import Engine, Round
from bench.engines.spark_tws_row import VENV, commands_on_input


def commands(round_: Round) -> list[list[str]]:
    """The driver of the query; Spark is below it."""
    return commands_on_input(round_, f"{round_.program}_spark_tws.py", "--api", "pandas")


ENGINE = Engine(
    name="spark_tws_pandas",
    venv=VENV,
    commands=commands,
    warmup_batches=1,
    steady_batches=1,
    workloads=("w1", "w3"),
    by_default=False,
    notes={
        "w1": "reads and writes a key's state once per batch, not once per row; one batch",
        "w3": "reads and writes a key's state once per batch, not once per row; one batch",
    },
    typical_s=400.0,
)
