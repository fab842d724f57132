"""Where `print` and `logging` of user functions go: the TaskManager's log, with job, attempt, epoch and subtask."""

import logging
import os
import sys
import threading
from collections import deque
from typing import Any, TextIO

from penstock.runtime.process.messages import TaskHeader

TAIL_LINES = 200


class SubtaskLog:
    """Prefixes each line with the subtask that wrote it, and remembers the last lines."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self.prefix = ""

    def set_subtask(self, header: TaskHeader | None) -> None:
        """Lines of this thread belong to that subtask's epoch from now on."""
        self._here.text = f"epoch={header.epoch.epoch} subtask={header.subtask} " if header is not None else ""

    def label(self) -> str:
        """The beginning of every line that this thread writes."""
        return self.prefix + getattr(self._here, "text", "")

    def remember(self, line: str) -> None:
        """Keep a line for `tail`."""
        self._lines.append(line)

    def tail(self, count: int) -> list[str]:
        """The last lines."""
        return list(self._lines)[-count:]


current_log = SubtaskLog()


class _LabelledStream:
    """Standard output of a TaskManager: whole lines, each with its label."""

    def __init__(self, file: TextIO, log: SubtaskLog) -> None:
        self._file = file
        self._log = log
        self._lock = threading.Lock()
        self._partial = threading.local()

    def write(self, text: str) -> int:
        pending = getattr(self._partial, "text", "") + text
        *lines, self._partial.text = pending.split("\n")
        for line in lines:
            self._write_line(line)
        return len(text)

    def _write_line(self, line: str) -> None:
        labelled = self._log.label() + line
        self._log.remember(labelled)
        with self._lock:
            self._file.write(labelled + "\n")
            self._file.flush()

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def redirect_output(path: str, job_id: str, attempt: int) -> None:
    """Send everything this process prints or logs to the file, line by line with its label."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    file = open(path, "a", encoding="utf-8", errors="backslashreplace")  # stays open until the process ends
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    current_log.prefix = f"job={job_id[:8]} attempt={attempt} "
    stream: Any = _LabelledStream(file, current_log)
    sys.stdout = sys.stderr = stream
    logging.basicConfig(stream=stream, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)
