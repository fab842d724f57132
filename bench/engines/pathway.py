"""Pathway with two threads, without persistence."""

from bench.engine import PROGRAMS, Engine, Round, common_options
from bench.inputs import Form
from bench.venvs import Venv


def commands(round_: Round) -> list[list[str]]:
    """One process."""
    assert round_.input is not None
    own = ["--input", str(round_.input.folder), "--rows", str(round_.input.expected.rows)]
    program = str(PROGRAMS / f"{round_.program}_pathway.py")
    return [[str(round_.python), program, *own, *common_options(round_)]]


ENGINE = Engine(
    name="pathway",
    venv=Venv("pathway", ("pathway==0.33.0",)),
    commands=commands,
    warmup_batches=1,
    by_default=False,
    workloads=("w1", "w3"),
    form=Form.HEADED,
    notes={
        "w1": "one row out for each key and commit, not for each row in, and nothing that survives a failure",
        "w3": "nothing that survives a failure",
    },
    typical_s=40.0,
)
