"""Faults from below: a private mount namespace, full and read-only disks, strace, limits of a process, another clock.

What a machine lacks is said by `missing`, and cases that need it are skipped with that reason.
"""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.faults.jobs import ROOT
from tests.waiting import wait_until

CLONE_NEWNS = 0x00020000
CLOCK = Path(__file__).with_name("clock")
"""Holds a `sitecustomize` that every Python process loads which finds it on its path."""
_is_private = False


def missing(tool: str) -> str | None:
    """Why this machine cannot do it; None if it can."""
    if tool == "mount":
        return None if _is_private or enter_private_mounts() else "mounting a file system needs root"
    if tool == "strace":
        return None if shutil.which("strace") else "strace is not installed (apt-get install strace)"
    raise ValueError(tool)


def enter_private_mounts() -> bool:
    """From here on mounts are seen by this process and its children only, and go with them; False without the right."""
    global _is_private
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        return False
    _is_private = _mounts("--make-rprivate", "/")
    return _is_private


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A disk of that size at the folder; what is on it goes with it."""
    with _mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "small"):
        yield


@contextmanager
def own_mount(folder: Path) -> Iterator[None]:
    """The folder is a mount point meanwhile, so that it alone can become read-only."""
    with _mounted(folder, "--bind", str(folder)):
        yield


@contextmanager
def _mounted(folder: Path, *arguments: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    assert _mounts(*arguments, str(folder)), f"cannot mount {folder}"
    try:
        yield
    finally:
        # A process that was killed holds its files for a moment.
        wait_until(lambda: _succeeds("umount", str(folder)), timeout_s=60, pause_s=0.05)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Every write below this mount point fails with EROFS meanwhile."""
    # Files that are open for writing keep the mount busy for a moment.
    wait_until(lambda: _mounts("-o", "remount,bind,ro", str(folder)), timeout_s=30, pause_s=0.01)
    try:
        yield
    finally:
        assert _mounts("-o", "remount,bind,rw", str(folder)), f"cannot make {folder} writable again"


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """The disk of this folder has no byte left meanwhile."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def strace(pid: int, log: Path, *rules: str) -> Iterator[None]:
    """Disturb system calls of a process and its threads meanwhile; what was done is in the log, paths included."""
    injected = [part for rule in rules for part in ("-e", f"inject={rule}")]
    names = ",".join(rule.partition(":")[0] for rule in rules)
    command = ["strace", "-f", "-q", "-y", "-o", str(log), "-e", f"trace={names}", *injected, "-p", str(pid)]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: tracer.poll() is not None or "TracerPid:\t0" not in _status(pid), timeout_s=20)
        assert tracer.poll() is None, f"strace ended with {tracer.returncode}"
        yield
    finally:
        tracer.send_signal(signal.SIGINT)  # it lets the process go, if that still exists
        tracer.wait(20)


def injected(log: Path, word: str = "(INJECTED)") -> list[str]:
    """The disturbed calls in a log of strace."""
    if not log.exists():
        return []
    return [line for line in log.read_text(errors="replace").splitlines() if word in line]


@contextmanager
def limited(process: psutil.Process, limit: int, value: int) -> Iterator[None]:
    """A lower limit of a resource for a running process."""
    before = resource.prlimit(process.pid, limit)
    resource.prlimit(process.pid, limit, (value, before[1]))
    try:
        yield
    finally:
        if process.is_running():
            resource.prlimit(process.pid, limit, before)


def wrong_clock(offset: Path) -> dict[str, str]:
    """The environment in which the time of day is off by as many seconds as the file says, in every Python process.

    The JVM keeps the right time: what a job does with time, it does in Python.
    """
    return {"FAULT_CLOCK": str(offset), "PYTHONPATH": os.pathsep.join([str(CLOCK), str(ROOT)])}


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def _mounts(*arguments: str) -> bool:
    return _succeeds("mount", *arguments)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
