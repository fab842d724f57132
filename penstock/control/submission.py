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
class StartingJob:
    """A job that is about to claim its log."""

    job_id: str
    name: str
    checkpoints: str | None
    """The checkpoint folder; None: the job has no checkpoints that outlive its driver."""
    address: str | None
    """The job's own folder there."""


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
    ha: str | None = None
    """The folder through which a standby goes on if this process dies."""
    job_id: str | None = None
    """The job that is meant, whatever others of its name there are."""
    restarts: bool = False
    """In place of a driver that died: the flags are those of the first start."""
    reopens: bool = True
    """A job that is continued may be one that has failed."""
    overrides: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Of the program."""
    suspends: bool = True
    """Ctrl-C and SIGTERM suspend the program's jobs."""
    report: Callable[[JobRecord], None] | None = None
    """Called by the JobManager with each new record of its job, about once a second and at every change of status."""
    starting: Callable[[StartingJob], None] | None = None
    """Called before a job claims its log; what it raises keeps the job from starting."""
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
        "--ha": submission.ha,
        "--job-id": submission.job_id if submission.restarts else None,
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
        "--restart": submission.restarts,
    }
    flags = [part for flag, value in values.items() if value is not None for part in (flag, str(value))]
    flags += [flag for flag, is_set in switches.items() if is_set]
    flags += [f"-D{key}={value}" for key, value in submission.overrides.items()]
    return [*flags, str(submission.job_file), *submission.arguments]


def continues_job(submission: Submission | None) -> bool:
    """Whether the program's job may exist already."""
    return submission is not None and (submission.resume or submission.restarts)


def resume_command(*, sets_parallelism: bool = True) -> str:
    """The command that resumes the job of this program, however the program was started.

    Without `sets_parallelism` it leaves out `-p`, which would undo a rescale.
    """
    submission = current_submission()
    if submission is None:
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        submission = Submission(Path(sys.argv[0] if file else "job.py"), arguments=tuple(sys.argv[1:] if file else ()))
    again = replace(
        submission,
        parallelism=submission.parallelism if sets_parallelism else None,
        resume=True,
        resume_only=False,
        savepoint_path=None,
        claim_mode=None,
        allow_non_restored=False,
        job_id=None,
        restarts=False,
    )
    command = ["penstock"] if shutil.which("penstock") else [sys.executable, "-m", "penstock"]
    if submission.ha is not None and submission.restarts:
        return shlex.join([*command, "standby", "--resume", "--ha", submission.ha])  # its program is in that folder
    return shlex.join([*command, "run", *to_arguments(again)])
