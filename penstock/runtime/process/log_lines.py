"""The form of every line in a job's logs: when, how serious, about what, and of which job, attempt, epoch and subtask.

2026-05-04T10:11:12.345Z INFO  checkpoint job=0123abcd attempt=2 epoch=17 subtask=s0/1 | text
"""

import logging
import os
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

JOB_ID_CHARS = 8
LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
_HEAD = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (?:(DEBUG|INFO|WARN|ERROR) )?")
_OWN_LOGGERS = "penstock."


@dataclass(frozen=True)
class LogContext:
    """What a line is about, as far as that is known."""

    job_id: str = ""
    attempt: int | None = None
    epoch: int | None = None
    subtask: str | None = None

    def __str__(self) -> str:
        """
        >>> str(LogContext("0123abcd" * 4, 2, subtask="s0/1"))
        'job=0123abcd attempt=2 subtask=s0/1'
        """
        fields = {
            "job": self.job_id[:JOB_ID_CHARS] or None,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "subtask": self.subtask,
        }
        return " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)


@dataclass(frozen=True)
class LogEvent:
    """A text to log: what it is about, for example `checkpoint`, and how serious it is."""

    subject: str
    text: str
    level: str = "INFO"
    is_routine: bool = False
    """It only says that Penstock does what it should."""

    @staticmethod
    def of(record: logging.LogRecord, text: str) -> "LogEvent":
        """A record of Python's logging. Penstock's own loggers are shown without their prefix."""
        is_routine = record.name.startswith(_OWN_LOGGERS) and record.levelno <= logging.INFO
        return LogEvent(record.name.removeprefix(_OWN_LOGGERS), text, level_name(record.levelno), is_routine)


@dataclass(frozen=True)
class LineHead:
    """The time and the level of a line."""

    time: str
    level: str


def log_line(now_ms: int, context: LogContext, event: LogEvent) -> str:
    """One line of a log; the lines of a longer text follow the first as they are.

    >>> log_line(1_700_000_000_123, LogContext("0123abcd" * 4, 1), LogEvent("job", "the job restarts", "WARN"))
    '2023-11-14T22:13:20.123Z WARN  job job=0123abcd attempt=1 | the job restarts'
    """
    moment = datetime.fromtimestamp(now_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    head = f"{moment.replace('+00:00', 'Z')} {event.level:<5} {event.subject} {context}"
    return f"{head.rstrip()} | {event.text}"


def line_head(line: str) -> LineHead | None:
    """The head of a line; None if it continues the line before it, or is not from a log.

    >>> line_head("2023-11-14T22:13:20.123Z WARN  job job=0123abcd attempt=1 | the job restarts")
    LineHead(time='2023-11-14T22:13:20.123Z', level='WARN')
    >>> line_head("Traceback (most recent call last):")
    """
    found = _HEAD.match(line)
    return LineHead(found[1], found[2] or "INFO") if found is not None else None


def level_name(number: int) -> str:
    """The level of a record of Python's logging.

    >>> level_name(logging.WARNING), level_name(logging.CRITICAL), level_name(5)
    ('WARN', 'ERROR', 'DEBUG')
    """
    limits = (logging.INFO, logging.WARNING, logging.ERROR)
    return LEVELS[sum(number >= limit for limit in limits)]


def open_log(path: Path) -> BinaryIO:
    """A log to append to, which only its owner can read: logs hold what users' functions print."""
    make_private_folder(path.parent)
    return open(path, "ab", opener=open_private)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, and in the same way all above it that are missing."""
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)


def open_private(path: str, flags: int) -> int:
    """For `open`: a new file can be read and written by its owner only."""
    return os.open(path, flags, 0o600)
