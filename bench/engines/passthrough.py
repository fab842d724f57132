"""Penstock's plan with TaskManagers that return their input: the ceiling of the data path."""

from bench.engine import Engine, Round
from bench.engines import penstock


def commands(round_: Round) -> list[list[str]]:
    """Penstock's command with the functions switched off."""
    return [[*command, "--passthrough"] for command in penstock.commands(round_)]


ENGINE = Engine(
    name="passthrough",
    venv=penstock.VENV,
    commands=commands,
    warmup_batches=penstock.REPEATED_BATCHES,
    repeated_batches=penstock.REPEATED_BATCHES,
)
