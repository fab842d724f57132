"""Penstock, whose file source is packed: pyarrow reads the files, and the JVM only passes cells of bytes on."""

from dataclasses import replace

from bench.engine import Round
from bench.engines import penstock


def commands(round_: Round) -> list[list[str]]:
    """Penstock's command with a source of its own."""
    return [[*command, "--packed"] for command in penstock.commands(round_)]


ENGINE = replace(penstock.ENGINE, name="penstock_packed", commands=commands, by_default=False, workloads=("w1",))
