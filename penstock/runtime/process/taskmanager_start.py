"""Starts TaskManager processes on this machine, and has some ready before they are needed.

A process that is ready has imported everything and waits for its configuration on standard input. If the driver ends
without sending one, however it dies, the input ends and so does the process.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from penstock.runtime.process.log_lines import open_log
from penstock.runtime.process.passed_environment import without_secrets
from penstock.runtime.process.taskmanager_config import TaskManagerConfig

READY = "ready"
"""The last argument of a process that does not know yet which TaskManager it is."""
WORKER_VARIABLES = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"), "OMP_NUM_THREADS": "1"}
"""What Spark sets for its Python workers: the same hashes in all processes, and one thread per core."""
_ready: list["subprocess.Popen[bytes]"] = []
_lock = threading.Lock()


def prepare_taskmanagers(count: int) -> None:
    """Have `count` processes ready. Returns at once; they import while this process does something else."""
    with _lock:
        while len(_ready) < count:
            _ready.append(_start(READY, sys.path, subprocess.DEVNULL, {}))


def end_ready_taskmanagers() -> None:
    """End the processes that are ready and not needed."""
    with _lock:
        waiting = _ready.copy()
        _ready.clear()
    for process in waiting:
        _send(process, b"")


def start_here(config: TaskManagerConfig, variables: Mapping[str, str]) -> int:
    """Start a TaskManager on this machine, or use a process that is ready; its pid.

    `variables` are added to its environment. The process is no part of the driver's process group: an interrupt of the
    terminal is the driver's to handle.
    """
    process = None if variables else _take_ready()
    if process is None:
        with _open_log(config) as log:
            process = _start(config.taskmanager, config.sys_path, log.fileno(), variables)
    _send(process, msgspec.json.encode(config))
    return process.pid


def start_in_worker(config: TaskManagerConfig) -> int:
    """Start a TaskManager from a Python worker of Spark, in the process group of the worker's daemon; its pid."""
    with _open_log(config) as log:
        paths, inherited = [*config.sys_path, *sys.path], dict(os.environ)
        process = _start(config.taskmanager, paths, log.fileno(), inherited, own_session=False)
    _send(process, msgspec.json.encode(config))
    return process.pid


def _take_ready() -> "subprocess.Popen[bytes] | None":
    """A process that is ready and alive, if there is one."""
    with _lock:
        while _ready:
            process = _ready.pop(0)
            if process.poll() is None:
                return process
            _send(process, b"")
    return None


def _start(
    name: str, paths: Sequence[str], output: int, variables: Mapping[str, str], *, own_session: bool = True
) -> "subprocess.Popen[bytes]":
    """A process that reads its configuration from standard input. It is reaped when it ends."""
    path = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.runtime.taskmanager", name],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env={**without_secrets(os.environ), **WORKER_VARIABLES, **variables, "PYTHONPATH": path},
        start_new_session=own_session,
    )
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    return process


def _send(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """Write all that the process reads. One that has died does not register, which is noticed then."""
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(data)


def _open_log(config: TaskManagerConfig) -> BinaryIO:
    """The log file of a TaskManager, for what it prints before it opens the file itself."""
    return open_log(Path(config.log_path))
