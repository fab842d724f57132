"""Bytewax without recovery: two processes of one worker each, its fastest set-up."""

import socket

from bench.engine import PARALLELISM, PROGRAMS, Engine, Round, standalone_options
from bench.inputs import Form
from bench.venvs import Venv


def commands(round_: Round) -> list[list[str]]:
    """One command per process of the cluster."""
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(PARALLELISM))
    program = [str(round_.python), str(PROGRAMS / f"{round_.program}_bytewax.py")]
    own = standalone_options(round_) if round_.input is None else ["--input", str(round_.input.folder)]
    return [
        [*program, *own, "--addresses", addresses, "--process", str(index), "--events", str(round_.events(index))]
        for index in range(PARALLELISM)
    ]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


ENGINE = Engine(
    name="bytewax",
    venv=Venv("bytewax", ("bytewax==0.21.1",)),
    commands=commands,
    warmup_batches=0,
    workloads=("w1", "w2", "w3", "w6_q11", "w8"),
    form=Form.LINES,
    notes=dict.fromkeys(("w1", "w2", "w3", "w6_q11", "w8"), "nothing that survives a failure"),
    typical_s=45.0,
)
