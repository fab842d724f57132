"""Penstock with a checkpoint every second, for the price of checkpoints."""

from dataclasses import replace

from bench.engine import Round
from bench.engines import penstock


def commands(round_: Round) -> list[list[str]]:
    """Penstock's command with another interval."""
    return [[*command, "--checkpoints", "1s"] for command in penstock.commands(round_)]


ENGINE = replace(penstock.ENGINE, name="penstock_every_second", commands=commands, warmup_batches=20, by_default=False)
