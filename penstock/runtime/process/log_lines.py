"""The form of every line in a job's logs: when, and for which job, attempt, epoch and subtask.

2026-05-04T10:11:12.345Z job=0123abcd attempt=2 epoch=17 subtask=s0/1 text
"""

from dataclasses import dataclass
from datetime import datetime, timezone

JOB_ID_CHARS = 8


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


def log_line(now_ms: int, context: LogContext, text: str) -> str:
    """One line of a log; the lines of a longer text follow the first as they are.

    >>> log_line(1_700_000_000_123, LogContext("0123abcd" * 4, 1), "the job restarts")
    '2023-11-14T22:13:20.123Z job=0123abcd attempt=1 the job restarts'
    """
    moment = datetime.fromtimestamp(now_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    return f"{moment.replace('+00:00', 'Z')} {context} {text}"
