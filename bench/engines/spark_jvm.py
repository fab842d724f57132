"""Spark's own operators in the JVM, RocksDB state store: no Python touches a row."""

from bench.engine import PROGRAMS, Engine, Round, common_options
from bench.engines.spark_tws_row import VENV, commands_on_input

REPEATED_BATCHES = 10
"""Before the measured ones. Fewer than for Penstock, because its batches take longer."""
WORKLOADS = ("w2", "w3", "w4", "w6_q5", "w6_q7", "w6_q8", "w6_q11")


def commands(round_: Round) -> list[list[str]]:
    """The driver of the query; Spark is below it."""
    program = f"{round_.program}_spark_jvm.py"
    if round_.input is not None:
        return commands_on_input(round_, program)
    return [
        [
            str(round_.python),
            str(PROGRAMS / program),
            *("--data", str(round_.data / "parquet")),
            *("--files-per-trigger", str(round_.files_per_trigger)),
            *("--rows", str(round_.rows)),
            *("--repeated-batches", str(REPEATED_BATCHES)),
            *common_options(round_),
        ]
    ]


ENGINE = Engine(
    name="spark_jvm",
    venv=VENV,
    commands=commands,
    warmup_batches=REPEATED_BATCHES,
    repeated_batches=REPEATED_BATCHES,
    workloads=WORKLOADS,
    reads_dataset=("w2",),
    notes=dict.fromkeys(WORKLOADS, "no Python: what Spark offers as an operator"),
)
