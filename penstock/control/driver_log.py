"""`driver.log`: what happened to a job in its driver. One object per job writes it, for every part of the driver."""

import threading
import traceback
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Literal

from penstock.clock import Clock, SystemClock
from penstock.runtime.process.log_lines import LogContext, LogEvent, log_line
from penstock.runtime.process.log_parts import NO_LIMITS, LogLimits, open_within

FILE_NAME = "driver.log"
FIELD_CHARS = 300

Subject = Literal["job", "attempt", "restore", "checkpoint", "savepoint", "epoch", "rest", "audit"]
"""What a line is about."""
Level = Literal["DEBUG", "INFO", "WARN", "ERROR"]


class DriverLog:
    """Appends to the driver's log. Thread safe; a log that cannot be written changes nothing else."""

    def __init__(self, folder: Path, job_id: str, clock: Clock | None = None, limits: LogLimits = NO_LIMITS) -> None:
        self.folder = folder
        """Of this log and those of the TaskManagers."""
        self._path = folder / FILE_NAME
        self._job_id = job_id
        self._clock = clock or SystemClock()
        self._limits = limits
        self._lock = threading.Lock()

    def write(
        self,
        subject: Subject,
        text: str,
        *,
        level: Level = "INFO",
        attempt: int | None = None,
        epoch: int | None = None,
    ) -> None:
        """What happened, of which attempt and in which epoch as far as that is known."""
        context, event = LogContext(self._job_id, attempt, epoch), LogEvent(subject, text.rstrip("\n"), level)
        with self._lock, suppress(OSError):
            line = log_line(self._clock.now_ms(), context, event)
            with open_within(self._path, self._limits) as file:
                file.write((line + "\n").encode("utf-8", errors="backslashreplace"))

    def write_error(
        self, subject: Subject, text: str, error: BaseException, *, level: Level = "ERROR", attempt: int | None = None
    ) -> None:
        """What happened, with the traceback of the error that caused it."""
        trace = "".join(traceback.format_exception(error))
        self.write(subject, f"{text}\n{trace}", level=level, attempt=attempt)

    def audit(self, event: str, **fields: object) -> None:
        """Who requested what: one line for each request that may change something."""
        shown = (f"{name}={printable(str(value))}" for name, value in fields.items())
        self.write("audit", " ".join([event, *shown]))


def printable(text: str) -> str:
    """Untrusted text in one line, without control characters and changes of the text direction.

    >>> printable("a\\x1b[31mb\\nc")
    'a?[31mb?c'
    """
    shown = "".join("?" if unicodedata.category(letter)[0] in "CZ" and letter != " " else letter for letter in text)
    return shown if len(shown) <= FIELD_CHARS else shown[:FIELD_CHARS] + "…"
