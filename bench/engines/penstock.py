"""Penstock: functions on records, HashMap backend, checkpoints every 5 s."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.engine import PROGRAMS, Engine, Round, common_options, standalone_options
from bench.inputs import Input
from bench.venvs import Venv

# The versions of Spark's own engine, so that the two differ in nothing but the engine.
VENV = Venv("penstock", ("pyspark==4.3.0", "pyarrow==26.0.1"), project=Path(__file__).parents[2])
REPEATED_BATCHES = 40
"""Before the measured ones: the JVM compiles for half a minute, and takes a quarter of both cores for it."""
STANDALONE = ("w7", "w8")
"""Their programs make the rows themselves."""
TASKMANAGER = "penstock.runtime.taskmanager"


def commands(round_: Round) -> list[list[str]]:
    """The job's driver; Spark and the TaskManagers are below it."""
    program = [str(round_.python), str(PROGRAMS / f"{round_.program}_penstock.py")]
    if round_.program in STANDALONE:
        return [[*program, *standalone_options(round_), *common_options(round_)]]
    files = ["--files-per-trigger", str(round_.files_per_trigger)]
    if round_.input is not None:
        return [[*program, *input_options(round_.input), *files, *query_options(round_), *common_options(round_)]]
    data = ["--data", str(round_.data / "parquet"), "--rows", str(round_.rows)]
    repeated = ["--repeated-batches", str(REPEATED_BATCHES)]
    return [[*program, *data, *files, *repeated, *common_options(round_)]]


def input_options(own: Input) -> list[str]:
    """The folder, and what is expected."""
    expected = own.expected
    return [
        *("--input", str(own.folder)),
        *("--rows", str(expected.rows)),
        *("--rows-out", str(expected.rows_out)),
        *("--inner-rows", str(expected.inner_rows)),
        *("--closing-rows", str(expected.closing_rows)),
    ]


def query_options(round_: Round) -> list[str]:
    """Which query of the workload."""
    return ["--query", round_.query] if round_.query else []


ENGINE = Engine(
    name="penstock",
    venv=VENV,
    commands=commands,
    warmup_batches=REPEATED_BATCHES,
    repeated_batches=REPEATED_BATCHES,
    workloads=("w1", "w2", "w3", "w4", "w6_q5", "w6_q7", "w6_q8", "w6_q11", "w7", "w8", "w9"),
    reads_dataset=("w1", "w2", "w9"),
    state_process=TASKMANAGER,
)


def variant(name: str, *options: str, **changes: Any) -> Engine:
    """Penstock under another name, its programs with more options; `changes` are fields of `Engine`.

    Used in a module of that name: `ENGINE = penstock.variant("penstock_packed", "--packed", workloads=("w1",))`.
    """

    def with_options(round_: Round) -> list[list[str]]:
        return [[*command, *options] for command in commands(round_)]

    return replace(ENGINE, name=name, commands=with_options, **changes)
