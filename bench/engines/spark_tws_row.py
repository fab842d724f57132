"""Spark's own `transformWithState` on rows, RocksDB state store. It is slow, so two steady batches must do."""

from bench.engine import PROGRAMS, Engine, Round, common_options, standalone_options
from bench.venvs import Venv

VENV = Venv("spark", ("pyspark==4.3.0", "pyarrow==26.0.1", "pandas==3.1.1", "protobuf==7.36.2"))
STEADY_BATCHES = 2
WARMUP_BATCHES = 1


def commands_on_input(round_: Round, program: str, *options: str) -> list[list[str]]:
    """The driver of a query that reads an input to its end."""
    assert round_.input is not None
    return [
        [
            str(round_.python),
            str(PROGRAMS / program),
            *("--input", str(round_.input.folder)),
            *("--files-per-trigger", str(round_.files_per_trigger)),
            *("--closing-rows", str(round_.input.expected.closing_rows)),
            *(["--query", round_.query] if round_.query else []),
            *common_options(round_),
            *options,
        ]
    ]


def commands(round_: Round) -> list[list[str]]:
    """The driver of the query; Spark is below it."""
    if round_.input is not None:
        return commands_on_input(round_, f"{round_.program}_spark_tws.py", "--api", "row")
    if round_.program == "w8":
        program = [str(round_.python), str(PROGRAMS / "w8_spark_tws.py")]
        return [[*program, *standalone_options(round_), *common_options(round_)]]
    return [
        [
            str(round_.python),
            str(PROGRAMS / "w1_spark_tws_row.py"),
            *("--data", str(round_.data / "parquet")),
            *("--files-per-trigger", str(round_.files_per_trigger)),
            *("--batches", str(WARMUP_BATCHES + STEADY_BATCHES)),
            *common_options(round_),
        ]
    ]


ENGINE = Engine(
    name="spark_tws_row",
    venv=VENV,
    commands=commands,
    warmup_batches=WARMUP_BATCHES,
    steady_batches=STEADY_BATCHES,
    workloads=("w1", "w3", "w8"),
    reads_dataset=("w1",),
    notes={
        "w1": "reads and writes a key's state once per batch, not once per row; two batches",
        "w3": "reads and writes a key's state once per batch, not once per row; two batches",
    },
    typical_s=200.0,
)
