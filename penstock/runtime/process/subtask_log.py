"""The log of a TaskManager: everything it prints or logs, user functions included, line by line with its context."""

import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from penstock.clock import SystemClock
from penstock.runtime.process.log_lines import LogContext, LogEvent, log_line, open_log
from penstock.runtime.process.log_parts import LogLimits, open_within, remove_old_attempts
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

    def line(self, event: LogEvent) -> str:
        """The event as a line of this thread, which is also kept for `tail` unless it is routine."""
        context = getattr(self._here, "context", None) or self.process
        written = log_line(self._clock.now_ms(), context, event)
        if not event.is_routine:
            self._lines.extend(written.split("\n"))
        return written

    def tail(self, count: int) -> list[str]:
        """The last lines that may explain a failure."""
        return list(self._lines)[-count:]


current_log = SubtaskLog()


class LogFile:
    """The file of a log: whole lines, from any thread."""

    def __init__(self, file: TextIO, log: SubtaskLog, before_write: Callable[[], object] | None = None) -> None:
        self._file = file
        self._log = log
        self._before_write = before_write
        self._lock = threading.Lock()

    def write(self, event: LogEvent) -> None:
        """Append an event, with the context of this thread."""
        with self._lock:
            if self._before_write is not None:
                self._before_write()
            self._file.write(self._log.line(event) + "\n")
            self._file.flush()


class _LoggedStream:
    """Standard output or error of a TaskManager: whole lines, each an event."""

    def __init__(self, file: TextIO, log: LogFile, subject: str, level: str) -> None:
        self._file = file
        self._log = log
        self._subject = subject
        self._level = level
        self._partial = threading.local()

    def write(self, text: str) -> int:
        pending = getattr(self._partial, "text", "") + text
        *lines, self._partial.text = pending.split("\n")
        for line in lines:
            self._log.write(LogEvent(self._subject, line, self._level))
        return len(text)

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _LogHandler(logging.Handler):
    """Python's logging, to the log of a TaskManager."""

    def __init__(self, log: LogFile) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.write(LogEvent.of(record, self.format(record)))
        except Exception:  # as every handler of the standard library does: a log must not stop what it reports
            self.handleError(record)


def redirect_output(path: str, job_id: str, attempt: int, limits: LogLimits) -> None:
    """Send everything this process prints or logs to the file, line by line with its context."""
    # It stays open until the process ends.
    file = io.TextIOWrapper(open_log(Path(path)), encoding="utf-8", errors="backslashreplace")
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    with suppress(OSError):
        remove_old_attempts(Path(path).parent)
    current_log.process = LogContext(job_id, attempt)
    log = LogFile(file, current_log, lambda: continue_log(Path(path), limits, (file.fileno(), 1, 2)))
    streams: list[Any] = [_LoggedStream(file, log, "stdout", "INFO"), _LoggedStream(file, log, "stderr", "WARN")]
    sys.stdout, sys.stderr = streams
    logging.basicConfig(handlers=[_LogHandler(log)], level=logging.INFO, format="%(message)s", force=True)


def continue_log(path: Path, limits: LogLimits, descriptors: Sequence[int]) -> None:
    """Let the descriptors of a log that is full lead to its next part; if that cannot be made, to the same file."""
    own, *standard = descriptors
    with suppress(OSError):
        if limits.is_full(own):
            with open_within(path, limits) as file:
                os.dup2(file.fileno(), own, inheritable=False)
                for descriptor in standard:
                    os.dup2(file.fileno(), descriptor)
