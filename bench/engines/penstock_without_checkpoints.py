"""Penstock without checkpoints, for the price of those that others take."""

from dataclasses import replace

from bench.engine import Round
from bench.engines import penstock


def commands(round_: Round) -> list[list[str]]:
    """Penstock's command with another interval."""
    return [[*command, "--checkpoints", "none"] for command in penstock.commands(round_)]


ENGINE = replace(
    penstock.ENGINE, name="penstock_without_checkpoints", commands=commands, warmup_batches=20, by_default=False
)
