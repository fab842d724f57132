"""PyFlink in process mode, its default: functions run in Python processes; checkpoints every 5 s.

It is slow, so a run reads the first rows of the data only: those of one micro-batch of the engines on Spark.
"""

from dataclasses import replace

from bench.engine import Round
from bench.engines import pyflink_thread


def commands(round_: Round) -> list[list[str]]:
    """The same program in the other mode."""
    return pyflink_thread.commands(round_, "process")


ENGINE = replace(
    pyflink_thread.ENGINE,
    name="pyflink_process",
    commands=commands,
    steady_batches=1,
    workloads=("w1", "w2", "w3"),
    by_default=False,
    typical_s=400.0,
)
