"""A running service: found by its folder; stopped, killed and resumed through its supervisor."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from penstock.errors import ServiceError
from penstock.services.service import cache_folder, load_service

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.05
STATE_FILE = "service.json"
LOG_FILE = "service.log"
STARTING, READY, DOWN, FAILED = "starting", "ready", "down", "failed"


class ServiceState(msgspec.Struct, frozen=True):
    """What a supervisor writes about its service, in `service.json`."""

    name: str
    state: str
    address: str
    supervisor_pid: int
    supervisor_created_s: float
    message: str = ""


@dataclass(frozen=True)
class RunningService:
    """A started service. It ends when its owner ends, whichever process holds this object."""

    name: str
    address: str
    folder: Path

    def stop(self) -> None:
        """End the service and remove its data. Does nothing if it has ended."""
        state = read_state(self.folder)
        if state is None or not is_alive(state.supervisor_pid, state.supervisor_created_s):
            return
        _signal(state, signal.SIGTERM)
        _wait(lambda: not is_alive(state.supervisor_pid, state.supervisor_created_s), STOP_TIMEOUT_S, self.name, "stop")

    def kill(self) -> None:
        """Kill the programs of the service with SIGKILL. Its data stays, and `resume` starts them again."""
        self._change(signal.SIGUSR1, DOWN, "be killed")

    def resume(self) -> None:
        """Start the programs again after `kill`, at the same address and on the same data."""
        self._change(signal.SIGUSR2, READY, "start again")

    def _change(self, signal_number: int, wanted: str, verb: str) -> None:
        state = read_state(self.folder)
        if state is None:
            raise ServiceError(f"the service {self.name!r} does not run")
        if state.state != wanted:
            _signal(state, signal_number)
            _wait(lambda: _reached(self.folder, wanted), START_TIMEOUT_S, self.name, verb)


def start_service(name: str, folder: Path | None = None, owner_pid: int | None = None) -> RunningService:
    """Start a service in `folder` (the account's own by default), unless it already runs there.

    It stops when the process `owner_pid` has ended, by default the calling process.
    """
    service = load_service(name)
    folder = default_folder(name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        running = find_running(name, folder)
        if running is not None:
            return running
        with locked(cache / "lock"):
            service.fetch(cache)
        (folder / STATE_FILE).unlink(missing_ok=True)
        _start_supervisor(name, folder, cache, os.getpid() if owner_pid is None else owner_pid)
        _wait(lambda: _reached(folder, READY), START_TIMEOUT_S, name, "start")
        running = find_running(name, folder)
    if running is None:
        raise ServiceError(f"the service {name!r} ended right after its start; see {folder / LOG_FILE}")
    return running


def find_running(name: str, folder: Path | None = None) -> RunningService | None:
    """The service of that name in `folder` if its supervisor runs, even while its programs are killed."""
    folder = default_folder(name) if folder is None else folder
    state = read_state(folder)
    if state is None or state.state not in (READY, DOWN):
        return None
    if not is_alive(state.supervisor_pid, state.supervisor_created_s):
        return None
    return RunningService(name, state.address, folder)


def default_folder(name: str) -> Path:
    """Where the account's own service of that name keeps its state and its log."""
    return cache_folder() / "running" / name


def read_state(folder: Path) -> ServiceState | None:
    """What the supervisor wrote last; None before it has started and after it has ended."""
    try:
        return msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=ServiceState)
    except FileNotFoundError:
        return None


def is_alive(pid: int, created_s: float) -> bool:
    """Return whether the process still runs; another process with the same pid does not count."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - created_s) < 1
    except psutil.NoSuchProcess:
        return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes respect, for example two tests that start one service."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_supervisor(name: str, folder: Path, cache: Path, owner_pid: int) -> None:
    module = "penstock.services.supervisor"
    with open(folder / LOG_FILE, "ab") as log:
        run = subprocess.run(
            [sys.executable, "-m", module, name, str(folder), str(cache), str(owner_pid)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
            start_new_session=True,
        )
    if run.returncode:
        raise ServiceError(f"the supervisor of the service {name!r} does not start; see {folder / LOG_FILE}")


def _signal(state: ServiceState, number: int) -> None:
    try:
        os.kill(state.supervisor_pid, number)
    except ProcessLookupError:
        raise ServiceError(f"the service {state.name!r} does not run") from None


def _reached(folder: Path, wanted: str) -> bool:
    state = read_state(folder)
    if state is None:
        return False
    if state.state == FAILED:
        raise ServiceError(f"the service {state.name!r} failed: {state.message}")
    if not is_alive(state.supervisor_pid, state.supervisor_created_s):
        raise ServiceError(f"the supervisor of the service {state.name!r} has ended; see {folder / LOG_FILE}")
    return state.state == wanted


def _wait(condition: Callable[[], bool], timeout_s: float, name: str, verb: str) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise ServiceError(f"the service {name!r} did not {verb} within {timeout_s:.0f} s")
        time.sleep(POLL_S)
