"""A Python that starts in hundredths of a second, for the processes that a job on the tests' Spark consists of.

Each job starts TaskManagers, readers of sources and Python workers, which import the same libraries for half a second
to two. Here one process has imported them, and forks. What starts a fork is a command like Python: it hands its
arguments, environment, folder and open files to that process, lives as long as the fork does, and ends as it ended. If
it is killed, the fork is ended too. What it does not know, it leaves to the real Python.
"""

import array
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("pandas", "pyarrow.compute", "penstock.spark.pipe", "penstock.spark.python_sources")
MODULES = (
    "penstock.runtime.taskmanager",
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
)
"""What is started with `-m`."""
COLD = ("PENSTOCK_FAILPOINT", "PENSTOCK_FAILPOINT_LOG")
"""Variables that are read when a module is imported."""
HASH_SEED = "0"
CLIENT = """#!{python} -ISs
import os, sys
arguments, environment = sys.argv[1:], os.environ
def is_known():
    return (
        len(arguments) > 1
        and arguments[0] == "-m"
        and arguments[1] in {modules}
        and environment.get("PYTHONHASHSEED") == {seed!r}
        and not any(name in environment for name in {cold})
    )
def forked():
    import _socket
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect({address!r})
    except OSError:  # it is not warm yet
        return None
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    variables = ["%s=%s" % item for item in environment.items()]
    group = 0 if os.getsid(0) == os.getpid() else os.getpgrp()
    texts = [os.getcwd(), str(group), str(len(arguments)), *arguments, *variables]
    message = "\\0".join(texts).encode("utf-8", "surrogateescape")
    server.sendmsg([len(message).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    server.sendall(message)
    for number in (0, 1, 2):
        os.close(number)
    try:
        return int(server.recv(16))
    except (OSError, ValueError):
        return 1
code = forked() if is_known() else None
if code is not None:
    os._exit(code)
os.execv({python!r}, [{python!r}, *arguments])
"""


@contextmanager
def warm_python(folder: Path) -> Iterator[str]:
    """The path of the command. Until the process behind it has imported everything, the command is the real Python."""
    address = str(folder / "warm.sock")
    executable = folder / "python"
    values = {"python": sys.executable, "address": address, "modules": MODULES, "cold": COLD, "seed": HASH_SEED}
    executable.write_text(CLIENT.format(**values), encoding="utf-8")
    executable.chmod(0o755)
    variables = {**os.environ, "PYTHONHASHSEED": HASH_SEED, "OMP_NUM_THREADS": "1"}
    variables.pop("PYTHONPATH", None)
    command = [sys.executable, "-m", __name__, address]
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdin=subprocess.PIPE) as server:
        yield str(executable)
        server.communicate()  # it ends, and what it has forked


@dataclass(frozen=True)
class Request:
    """What a client was started with."""

    files: Sequence[int]
    folder: str
    group: int
    """Its process group; 0 if it leads a session."""
    arguments: Sequence[str]
    variables: Sequence[str]

    @classmethod
    def receive(cls, client: socket.socket) -> "Request":
        files = array.array("i")
        head, ancillary, _, _ = client.recvmsg(8, socket.CMSG_LEN(3 * files.itemsize))
        files.frombytes(ancillary[0][2])
        missing, message = int.from_bytes(head, "big"), b""
        while missing > len(message):
            message += client.recv(missing - len(message))
        folder, group, count, *texts = message.decode("utf-8", "surrogateescape").split("\0")
        return cls(files, folder, int(group), texts[: int(count)], texts[int(count) :])

    def close(self) -> None:
        for number in self.files:
            os.close(number)


@dataclass(frozen=True)
class Fork:
    """A running fork. Its client is closed when it was killed."""

    pid: int
    handle: int
    """Readable when the fork has ended."""
    client: socket.socket


def serve(address: str) -> None:
    """Import, then fork whenever a client asks, until standard input ends. In a fork it ends as the program does."""
    base = sys.path[1:]
    for name in (*LIBRARIES, *MODULES):
        with suppress(ImportError):  # not every version of PySpark has every module
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(address)
        listener.listen(64)
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    _end_all(selector)
                    return
                if key.fileobj is listener:
                    client, _ = listener.accept()
                    request = Request.receive(client)
                    pid = os.fork()
                    if not pid:
                        client.close()
                        _leave(selector)
                        become(request, base)
                        return
                    request.close()
                    fork = Fork(pid, os.pidfd_open(pid), client)
                    selector.register(client, selectors.EVENT_READ, fork)
                    selector.register(fork.handle, selectors.EVENT_READ, fork)
                elif key.fileobj == key.data.handle:
                    _report(selector, key.data)
                elif key.data.client.fileno() >= 0:  # the client was killed
                    selector.unregister(key.data.client)
                    key.data.client.close()
                    os.kill(key.data.pid, signal.SIGTERM)


def _report(selector: selectors.BaseSelector, fork: Fork) -> None:
    """Tell the client how the fork has ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
    selector.unregister(fork.handle)
    os.close(fork.handle)
    if fork.client.fileno() >= 0:
        selector.unregister(fork.client)
        with fork.client, suppress(OSError):
            fork.client.sendall(str(code if code >= 0 else 128 - code).encode())


def _end_all(selector: selectors.BaseSelector) -> None:
    for key in selector.get_map().values():
        if isinstance(key.data, Fork) and key.fileobj == key.data.handle:
            os.kill(key.data.pid, signal.SIGKILL)


def _leave(selector: selectors.BaseSelector) -> None:
    """Close what a fork has inherited."""
    for key in list(selector.get_map().values()):
        resource: Any = key.fileobj
        if isinstance(resource, socket.socket):
            resource.close()
        elif resource:
            os.close(resource)
    selector.close()


def become(request: Request, base: list[str]) -> None:
    """Be the process that a client asks for."""
    if request.group:
        os.setpgid(0, request.group)
    else:
        os.setsid()
    for number, given in enumerate(request.files):
        os.dup2(given, number)
    request.close()
    os.chdir(request.folder)
    os.environ.clear()
    for variable in request.variables:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [request.folder, *filter(None, paths), *base]
    module = request.arguments[1]
    sys.argv = [module, *request.arguments[2:]]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(sys.argv[1])
