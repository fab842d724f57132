"""A TaskManager ends with its executor and its driver: no process is left behind, however they die."""

import logging
import os
import shutil
import threading
from pathlib import Path

import psutil

CHECK_S = 0.5
_folders: list[str] = []


class ProcessWatch(threading.Thread):
    """Ends this process as soon as one of the watched processes has ended."""

    def __init__(self, watched: list[tuple[int, float]]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._watched = watched
        self._pause = threading.Event()

    def run(self) -> None:
        while not self._pause.wait(CHECK_S):
            for pid, started in self._watched:
                if not is_same_process(pid, started):
                    exit_now(f"process {pid} has ended")


def is_same_process(pid: int, started: float) -> bool:
    """Whether the process with this pid still is the one that started then, and is not a zombie."""
    try:
        process = psutil.Process(pid)
        return bool(_started(process) == started and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def identity(pid: int) -> tuple[int, float]:
    """(pid, start time), which identifies one process forever."""
    return pid, _started(psutil.Process(pid))


def _started(process: psutil.Process) -> float:
    """In seconds since the system start, if known: the time of day may be set while the process runs."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return float(process.create_time())
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def remove_at_exit(folder: str) -> None:
    """Let `exit_now` remove this folder."""
    _folders.append(folder)


def exit_now(reason: str) -> None:
    """End the process immediately, without running any of the user's code."""
    logging.getLogger("penstock.taskmanager").warning("TaskManager ends: %s", reason)
    logging.shutdown()
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
