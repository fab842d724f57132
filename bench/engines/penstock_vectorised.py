"""Penstock's built-in aggregates of columns: what it costs to call no function for each record."""

from dataclasses import replace

from bench.engine import PROGRAMS, Round
from bench.engines import penstock


def commands(round_: Round) -> list[list[str]]:
    """Penstock's command with another program."""
    program = str(PROGRAMS / f"{round_.workload}_penstock_vectorised.py")
    return [[command[0], program, *command[2:]] for command in penstock.commands(round_)]


ENGINE = replace(
    penstock.ENGINE, name="penstock_vectorised", commands=commands, workloads=("w1", "w2"), by_default=False
)
