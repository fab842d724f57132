"""PyFlink in thread mode, its faster one: functions run in the JVM of the TaskManager; checkpoints every 5 s.

It is slow, so a run reads the first rows of the data only: those of two micro-batches of the engines on Spark.
"""

from bench.engine import PARALLELISM, PROGRAMS, Engine, Round
from bench.venvs import Venv

BATCHES = 2


def commands(round_: Round) -> list[list[str]]:
    """The client, which runs Flink in its own JVM."""
    return [
        [
            str(round_.python),
            str(PROGRAMS / f"{round_.workload}_pyflink.py"),
            *("--data", str(round_.data / "parquet")),
            *("--files", str(BATCHES * round_.files_per_trigger)),
            *("--mode", "thread"),
            *("--parallelism", str(PARALLELISM)),
            *("--work", str(round_.work)),
            *("--events", str(round_.events())),
        ]
    ]


ENGINE = Engine(
    name="pyflink_thread",
    venv=Venv("pyflink", ("apache-flink==2.3.0", "setuptools<81")),
    commands=commands,
    warmup_batches=0,
    steady_batches=BATCHES,
    workloads=("w2",),
)
