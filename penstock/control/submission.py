"""How `penstock run` passes its flags to the environment that the user's program creates.

A program is the same whether it is started by `penstock run job.py`, by `python job.py` or in a notebook; only the
first makes a submission. A process runs one program, so the submission belongs to the process, not to a thread.
"""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.control.registry import JobRecord
from penstock.control.terminal import MODE


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
    resume_only: bool = False
    """With `resume`: refuse to start a new job."""
    allow_fallback: bool = False
    require_exactly_once: bool = False
    """Refuse a job that promises less."""
    spark_log: str | None = None
    pyflink: bool = False
    """The program imports pyflink and means penstock."""
    overrides: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Of the program."""
    suspends: bool = True
    """Ctrl-C and SIGTERM suspend the program's jobs."""
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


def to_arguments(submission: Submission) -> list[str]:
    """The arguments of a `penstock run` in the foreground with the same submission."""
    values = {
        "-p": submission.parallelism,
        "-s": submission.savepoint_path,
        "-cm": submission.claim_mode,
        "--name": submission.name,
        "--spark-log": submission.spark_log,
    }
    switches = {
        "-n": submission.allow_non_restored,
        "--resume": submission.resume and not submission.resume_only,
        "--resume-only": submission.resume_only,
        "--allow-fallback": submission.allow_fallback,
        "--require-exactly-once": submission.require_exactly_once,
        "--pyflink": submission.pyflink,
        "--json": MODE.json,
        "--debug": MODE.debug,
    }
    flags = [part for flag, value in values.items() if value is not None for part in (flag, str(value))]
    flags += [flag for flag, is_set in switches.items() if is_set]
    flags += [f"-D{key}={value}" for key, value in submission.overrides.items()]
    return [*flags, str(submission.job_file), *submission.arguments]


def resume_command() -> str:
    """The command that resumes the job of this program, however the program was started."""
    submission = current_submission()
    if submission is None:
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        submission = Submission(Path(sys.argv[0] if file else "job.py"), arguments=tuple(sys.argv[1:] if file else ()))
    again = replace(
        submission, resume=True, resume_only=False, savepoint_path=None, claim_mode=None, allow_non_restored=False
    )
    command = ["penstock"] if shutil.which("penstock") else [sys.executable, "-m", "penstock"]
    return shlex.join([*command, "run", *to_arguments(again)])
