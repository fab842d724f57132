"""The log of a TaskManager: everything it prints or logs, user functions included, line by line with its context."""

import logging
import os
import sys
import threading
from collections import deque
from dataclasses import replace
from typing import Any, TextIO

from penstock.clock import SystemClock
from penstock.runtime.process.log_lines import LogContext, log_line
from penstock.runtime.process.messages import TaskHeader

TAIL_LINES = 200


class SubtaskLog:
    """Knows which subtask each thread works for, and remembers the last lines of all."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._clock = SystemClock()
        self.process = LogContext()
        """The context of lines that no subtask writes."""

    def set_subtask(self, header: TaskHeader | None) -> None:
        """Lines of this thread belong to that subtask's epoch from now on."""
        self._here.context = (
            replace(self.process, epoch=header.epoch.epoch, subtask=str(header.subtask)) if header is not None else None
        )

    def line(self, text: str) -> str:
        """The text as a line of this thread, which is also kept for `tail`."""
        context = getattr(self._here, "context", None) or self.process
        written = log_line(self._clock.now_ms(), context, text)
        self._lines.append(written)
        return written

    def tail(self, count: int) -> list[str]:
        """The last lines."""
        return list(self._lines)[-count:]


current_log = SubtaskLog()


class _LoggedStream:
    """Standard output and error of a TaskManager: whole lines, each with its context."""

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

    def _write_line(self, text: str) -> None:
        line = self._log.line(text)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def redirect_output(path: str, job_id: str, attempt: int) -> None:
    """Send everything this process prints or logs to the file, line by line with its context."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    file = open(path, "a", encoding="utf-8", errors="backslashreplace")  # stays open until the process ends
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    current_log.process = LogContext(job_id, attempt)
    stream: Any = _LoggedStream(file, current_log)
    sys.stdout = sys.stderr = stream
    logging.basicConfig(stream=stream, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)
