"""Bytewax with recovery: a snapshot of the state in SQLite every 5 s."""

from dataclasses import replace

from bench.engine import Round
from bench.engines import bytewax


def commands(round_: Round) -> list[list[str]]:
    """Bytewax's commands with a folder for snapshots."""
    return [[*command, "--recovery", str(round_.work / "recovery")] for command in bytewax.commands(round_)]


ENGINE = replace(
    bytewax.ENGINE,
    name="bytewax_recovery",
    commands=commands,
    workloads=("w1", "w3"),
    notes={},
    by_default=False,
    typical_s=60.0,
)
