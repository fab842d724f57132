"""PyFlink in thread mode, its faster one: functions run in the JVM of the TaskManager; checkpoints every 5 s.

It is slow, so a run reads the first rows of the data only: those of two micro-batches of the engines on Spark.
"""

from bench.engine import PROGRAMS, Engine, Round, common_options, standalone_options
from bench.inputs import Form
from bench.venvs import Venv

BATCHES = 2


def commands(round_: Round, mode: str = "thread") -> list[list[str]]:
    """The client, which runs Flink in its own JVM."""
    own = standalone_options(round_) if round_.input is None else ["--input", str(round_.input.folder)]
    query = ["--query", round_.query] if round_.query else []
    backend = ["--backend", "rocksdb"] if round_.program == "w5" else []
    program = str(PROGRAMS / f"{round_.program}_pyflink.py")
    return [[str(round_.python), program, "--mode", mode, *own, *query, *backend, *common_options(round_)]]


ENGINE = Engine(
    name="pyflink_thread",
    venv=Venv("pyflink", ("apache-flink==2.3.0", "setuptools<81")),
    commands=commands,
    warmup_batches=0,
    steady_batches=BATCHES,
    workloads=("w1", "w2", "w3", "w5", "w6_q5", "w6_q7", "w8"),
    form=Form.LINES,
    typical_s=150.0,
)
