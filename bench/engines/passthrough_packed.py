"""A packed source with TaskManagers that return their input: the ceiling of that path."""

from dataclasses import replace

from bench.engine import Round
from bench.engines import passthrough


def commands(round_: Round) -> list[list[str]]:
    """The command of `passthrough` with a source of Penstock's own."""
    return [[*command, "--packed"] for command in passthrough.commands(round_)]


ENGINE = replace(passthrough.ENGINE, name="passthrough_packed", commands=commands, by_default=False)
