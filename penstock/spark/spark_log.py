"""What the JVM of this process prints on standard error: a file of its own, which each job of the process shows.

The JVM starts before a job has an id. So the file is made in the folder of the registry, and a job links it into the
folder of its logs.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from penstock.model.ids import new_nonce
from penstock.runtime.process.log_lines import make_private_folder
from penstock.runtime.process.log_parts import SPARK_LOG, LogLimits, end_part

KEPT_LOGS = 10
"""Of processes that have ended."""
CHECK_INTERVAL_S = 60.0
KEPT_BYTES = 1 << 20
"""Of a log that is cut: its end."""
_file: Path | None = None
"""Of the JVM that this process has started last."""


def begin_spark_log(folder: Path, limits: LogLimits) -> int:
    """A file in this folder, to be passed to the JVM that starts next. It is cut when it is too large."""
    global _file
    _file = None
    make_private_folder(folder)
    remove_old_logs(folder)
    path = folder / f"spark-{os.getpid()}-{new_nonce()}.log"
    # Appended to: what the JVM writes after a cut follows what is left.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    _file = path
    if limits.max_bytes:
        threading.Thread(target=_keep_within, args=(path, limits), name="spark-log", daemon=True).start()
    return descriptor


def show_spark_log(log_dir: Path, limits: LogLimits) -> None:
    """Put the log of this process's JVM, if it has one, among the logs of a job. That of an earlier driver is kept."""
    shown = log_dir / SPARK_LOG
    with suppress(OSError):
        if _file is None or (shown.exists() and shown.samefile(_file)):
            return
        make_private_folder(log_dir)
        if shown.exists():
            with shown.open("rb") as earlier:
                end_part(shown, earlier.fileno(), limits)
        os.link(_file, shown)


def cut(path: Path, most_bytes: int) -> None:
    """Leave the last lines of a file that has this size, while others append to it; what they write now may be lost."""
    with open(path, "r+b", opener=lambda name, flags: os.open(name, flags | os.O_APPEND)) as file:
        size = file.seek(0, os.SEEK_END)
        if size >= most_bytes:
            file.seek(size - min(most_bytes // 2, KEPT_BYTES))
            file.readline()
            end = file.read()
            file.truncate(0)
            file.write(end)


def remove_old_logs(folder: Path) -> None:
    """Remove the logs of processes that have ended, but the newest."""
    with suppress(OSError):
        ended = [path for path in folder.glob("spark-*-*.log") if not _is_running(path)]
        for path in sorted(ended, key=lambda path: path.stat().st_mtime)[:-KEPT_LOGS]:
            path.unlink(missing_ok=True)


def _is_running(path: Path) -> bool:
    pid = path.name.split("-")[1]
    return pid.isdecimal() and psutil.pid_exists(int(pid))


def _keep_within(path: Path, limits: LogLimits) -> None:
    pause = threading.Event()
    while not pause.wait(CHECK_INTERVAL_S):
        try:
            cut(path, limits.max_bytes)
        except OSError:
            return  # it was removed
