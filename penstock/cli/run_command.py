"""`penstock run`: runs the user's program with the flags of the command."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from penstock import compat
from penstock.checkpoint.snapshot.snapshot_location import locate
from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_choice, parse_settings
from penstock.cli.job_registry import open_registry
from penstock.cli.job_target import TOKEN_VARIABLE
from penstock.cli.program import require_job_file, run_program
from penstock.cli.progress import Progress, submitted_line
from penstock.clock import Clock, SystemClock
from penstock.control.effective_settings import load_settings
from penstock.control.interrupts import INTERRUPTS
from penstock.control.registry import JobRecord, Registry
from penstock.control.submission import Submission, submitted, to_arguments
from penstock.control.terminal import print_message, print_result
from penstock.errors import JobError, StorageError, UsageError
from penstock.model.configuration import Configuration
from penstock.model.ids import new_nonce
from penstock.model.options.availability_options import HA_TIMEOUT
from penstock.model.options.checkpointing_options import RECOVERY_PATH
from penstock.model.options.rest_options import REGISTRY_DIRECTORY
from penstock.runtime.process.log_lines import make_private_folder, open_log

if TYPE_CHECKING:
    from penstock.control.standby.active_driver import ActiveDriver

LOG_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
CLAIM_MODES = ("claim", "no_claim", "legacy")
START_KEYS = frozenset((RECOVERY_PATH.key, *RECOVERY_PATH.old_keys))
START_LIMIT_S = 300.0


def run(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job_file: Annotated[Path, typer.Argument(metavar="job.py", help="The program.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="args", help="Arguments of the program.")] = None,
    parallelism: Annotated[int | None, typer.Option("-p", "--parallelism", help="Subtasks per operator.")] = None,
    savepoint: Annotated[
        str | None,
        typer.Option("-s", "--from-savepoint", "--fromSavepoint", help="Start from a savepoint or checkpoint."),
    ] = None,
    allow_non_restored: Annotated[
        bool,
        typer.Option(
            "-n", "--allow-non-restored-state", "--allowNonRestoredState", help="Skip state that has no operator."
        ),
    ] = False,
    claim_mode: Annotated[
        str | None,
        typer.Option("-cm", "--claim-mode", "--claimMode", metavar="claim|no_claim", help="Who owns the snapshot."),
    ] = None,
    detached: Annotated[
        bool, typer.Option("-d", "--detached", help="Leave the job running in the background.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="The job's name, if the program gives none.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the job of this name that has not ended; start a new one if none.")
    ] = False,
    resume_only: Annotated[
        bool, typer.Option("--resume-only", help="As --resume, but fail (exit code 3) if there is no such job.")
    ] = False,
    allow_fallback: Annotated[
        bool, typer.Option("--allow-fallback", help="Restore an older checkpoint if the newest is damaged.")
    ] = False,
    require_exactly_once: Annotated[
        bool, typer.Option("--require-exactly-once", help="Refuse a job whose output is not exactly once, end to end.")
    ] = False,
    spark_log: Annotated[
        str | None, typer.Option("--spark-log", metavar="LEVEL", help="Show Spark's own log, from this level up.")
    ] = None,
    pyflink: Annotated[
        bool, typer.Option("--pyflink", help="Run a program written for PyFlink: `import pyflink` means penstock.")
    ] = False,
    ha: Annotated[
        str | None, typer.Option("--ha", metavar="DIR", help="Let `penstock standby` go on if this process dies.")
    ] = None,
    job_id: Annotated[str | None, typer.Option("--job-id", hidden=True)] = None,
    restart: Annotated[bool, typer.Option("--restart", hidden=True)] = False,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> int:
    """Run a program as a job."""
    os.environ.pop(TOKEN_VARIABLE, None)  # the token is for the servers of other jobs; no process of this job needs it
    submission = Submission(
        job_file=job_file,
        parallelism=parallelism,
        savepoint_path=savepoint,
        allow_non_restored=allow_non_restored,
        claim_mode=parse_choice("-cm", claim_mode, CLAIM_MODES),
        detached=detached,
        name=name,
        resume=resume or resume_only,
        resume_only=resume_only,
        allow_fallback=allow_fallback,
        require_exactly_once=require_exactly_once,
        spark_log=parse_choice("--spark-log", spark_log, LOG_LEVELS),
        pyflink=pyflink,
        ha=ha,
        job_id=job_id,
        restarts=restart,
        overrides=parse_settings(settings),
        arguments=tuple(arguments or ()),
    )
    check(submission)
    if detached:
        return run_detached(submission, open_registry(submission.overrides))
    return run_attached(submission) if ha is None else run_highly_available(submission, ha)


def check(submission: Submission) -> None:
    """Raise UsageError for flags that contradict each other, or an error with exit code 3 if a path is missing."""
    if submission.parallelism is not None and submission.parallelism < 1:
        raise UsageError(f"-p {submission.parallelism}: the parallelism must be at least 1")
    if submission.savepoint_path is not None and submission.resume:
        raise UsageError("-s and --resume are mutually exclusive: a job starts from a snapshot or is resumed")
    has_path = submission.savepoint_path is not None or not START_KEYS.isdisjoint(submission.overrides)
    if submission.claim_mode is not None and not has_path:
        raise UsageError("-cm sets who owns the savepoint that the job starts from; it needs -s PATH")
    if submission.allow_non_restored and not (has_path or submission.resume):
        raise UsageError("-n allows state without an operator; it needs -s PATH or --resume")
    require_job_file(submission.job_file)
    if submission.savepoint_path is not None:
        locate(submission.savepoint_path)


def run_highly_available(submission: Submission, address: str) -> int:
    """Run the program so that a standby can go on with its job."""
    from penstock.control.standby.active_driver import begin  # few runs need it
    from penstock.control.standby.ha_folder import HaFolder

    timeout_ms = load_settings(Configuration(), submission.overrides).configuration.get(HA_TIMEOUT)
    resumes = submission.resume or submission.restarts
    driver = begin(HaFolder.open(address), timeout_ms, SystemClock(), threading.Event().wait, resumes=resumes)
    try:
        submission = driver.continued(submission)
        driver.stores(submission, load_settings(Configuration(), submission.overrides).configuration.to_dict())
        return run_attached(submission, driver)
    finally:
        driver.close()


def run_attached(submission: Submission, driver: "ActiveDriver | None" = None) -> int:
    """Run the program and return its exit code; 1 if it is 0 but a job has failed."""
    progress = Progress()

    def report(record: JobRecord) -> None:
        if driver is not None:
            driver.report(record)
        progress(record)

    try:
        shown = replace(submission, report=report, announce=progress.announce)
        if driver is not None:
            shown = replace(shown, starting=driver.starting)
        if submission.pyflink:
            compat.install()
        with INTERRUPTS.handled(progress.close), submitted(shown):
            exit_code = run_program(submission.job_file, submission.arguments)
    finally:
        progress.close()
        INTERRUPTS.print_lines()
    return exit_code or int(progress.any_failed)


def run_detached(submission: Submission, registry: Registry, clock: Clock | None = None) -> int:
    """Start a background process. Returns 0 once it has submitted its job, or its exit code if it ends before that."""
    clock = clock or SystemClock()
    output = registry.folder / f"detached-{new_nonce()}.out"
    started_ms = clock.now_ms()
    with open_output(output) as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "penstock", "run", *to_arguments(submission)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    record = wait_for_record(child, registry, started_ms, clock)
    if record is None:
        print_message(output.read_text(encoding="utf-8", errors="replace").rstrip("\n"))
        output.unlink()
        return child.returncode or 1
    log_dir = Path(record.log_dir)
    make_private_folder(log_dir)
    output.rename(log_dir / "output.log")  # the child keeps writing to the same file
    print_result(submitted_line(record), {"job_id": record.job_id, "name": record.name, "pid": child.pid})
    return 0


def open_output(path: Path) -> BinaryIO:
    """The file for what a background process prints. Raises StorageError."""
    try:
        return open_log(path)
    except OSError as error:
        raise StorageError(
            f"cannot write into the registry {str(path.parent)!r}: {error}; free disk space, or set "
            f"{REGISTRY_DIRECTORY.key} to a writable folder"
        ) from error


def wait_for_record(
    child: "subprocess.Popen[bytes]", registry: Registry, started_ms: int, clock: Clock
) -> JobRecord | None:
    """The first record of the child's job, or None if the child ended without one."""
    limit_s = clock.monotonic_s() + START_LIMIT_S
    pause = threading.Event()
    while True:
        ended = child.poll() is not None  # checked first: a job may be submitted and end within one pause
        for record in registry.list():
            if record.pid == child.pid and record.updated_ms >= started_ms:
                return record
        if ended:
            return None
        if clock.monotonic_s() > limit_s:
            raise JobError(
                f"the job was not submitted within {START_LIMIT_S:.0f} s; its process {child.pid} is still starting, "
                f"see `penstock list`"
            )
        pause.wait(0.1)
