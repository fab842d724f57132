"""Penstock: a `KeyedProcessFunction` with one ValueState, HashMap backend, checkpoints every 5 s."""

from pathlib import Path

from bench.engine import PARALLELISM, PROGRAMS, Engine, Round
from bench.venvs import Venv

# The versions of Spark's own engine, so that the two differ in nothing but the engine.
VENV = Venv("penstock", ("pyspark==4.3.0", "pyarrow==26.0.1"), project=Path(__file__).parents[2])
REPEATED_BATCHES = 40
"""Before the measured ones: the JVM compiles for half a minute, and takes a quarter of both cores for it."""


def commands(round_: Round) -> list[list[str]]:
    """The job's driver; Spark and the TaskManagers are below it."""
    return [
        [
            str(round_.python),
            str(PROGRAMS / f"{round_.workload}_penstock.py"),
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
    name="penstock",
    venv=VENV,
    commands=commands,
    warmup_batches=REPEATED_BATCHES,
    repeated_batches=REPEATED_BATCHES,
    workloads=("w1", "w2", "w9"),
)
