"""How `penstock run` passes its flags to the environment that the user's program creates.

A program is the same whether it is started by `penstock run job.py`, by `python job.py` or in a notebook; only the
first makes a submission. A process runs one program, so the submission belongs to the process, not to a thread.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.control.registry import JobRecord


@dataclass(frozen=True)
class Submission:
    """The flags of one `penstock run`."""

    job_file: Path
    parallelism: int | None = None
    savepoint_path: str | None = None
    allow_non_restored: bool = False
    claim_mode: str | None = None
    detached: bool = False
    name: str | None = None
    resume: bool = False
    allow_fallback: bool = False
    spark_log: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    report: Callable[[JobRecord], None] | None = None
    """Called by the JobManager with each new record of its job, about once a second and at every change of status."""
    announce: Callable[[str], None] | None = None
    """Called with what happens before there is a job, for example that Spark starts."""


_current: Submission | None = None


def current_submission() -> Submission | None:
    """The flags of the `penstock run` that runs in this process, or None without one."""
    return _current


@contextmanager
def submitted(submission: Submission) -> Iterator[None]:
    """Make `submission` the current one while the program runs."""
    global _current
    before, _current = _current, submission
    try:
        yield
    finally:
        _current = before
