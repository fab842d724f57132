"""Submission: a program's graph becomes a running job, a new one or one that is resumed."""

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET

from penstock.checkpoint.job_folders import UnreadableJob
from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.snapshot.event_time import has_ended
from penstock.clock import SystemClock
from penstock.connectors.read_path import plan_read_paths
from penstock.control.interrupts import INTERRUPTS, is_interactive
from penstock.control.job_guarantees import job_guarantees, start_lines
from penstock.control.registry import SUSPENDED, Registry
from penstock.control.submission import StartingJob, Submission, continues_job, current_submission
from penstock.control.takeover import require_free
from penstock.control.terminal import print_message, print_warning
from penstock.errors import JobConflictError, JobNotFoundError, UsageError
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.attempt import JobIdentity
from penstock.jobmanager.attempt.recovery import open_start
from penstock.jobmanager.attempt.sink_committer import check_sinks
from penstock.jobmanager.autoscaler import start_autoscaler
from penstock.jobmanager.control_server import JobControl, job_facts
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_request import JobRequest
from penstock.jobmanager.settings.batch_mode import refuse_start
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.jobmanager.settings.start_options import TIME_HAS_ENDED, start_options, start_warnings
from penstock.model.configuration import Configuration
from penstock.model.execution import JobExecutionResult
from penstock.model.ids import JobId, new_job_id
from penstock.model.options import checkpointing_options, execution_options
from penstock.spark.session import check_session, session_setting
from penstock.spark.spark_log import show_spark_log


def submit_job(graph: JobGraph, configuration: Configuration, name: str, spark: Any) -> Job:
    """Start the job in the background."""
    check_session(spark)
    graph = plan_read_paths(graph, configuration, partial(session_setting, spark))
    settings = JobSettings.of(name, configuration, batch=graph.batch)
    submission = current_submission()
    if graph.batch:
        refuse_start(configuration, resumes=continues_job(submission))
    start = start_options(configuration)
    for note in settings.notes:
        print_message(f"note: {note}")
    for warning in (*graph.warnings, *settings.warnings, *start_warnings(configuration)):
        print_warning(warning)
    guarantees = job_guarantees(graph, configuration)
    for line in start_lines(graph, guarantees):
        print_message(line)
    identity, resumed = _identify(settings, configuration, name)
    rescaled = _rescaled_parallelism(settings, identity.job_id) if resumed else None
    if rescaled is not None and graph.at_parallelism is not None:
        graph = graph.at_parallelism(rescaled)
    if not resumed:
        snapshot = open_start(graph, start)  # a start that must be refused is refused before anything exists
        if snapshot is not None and has_ended(snapshot.manifest):
            print_warning(TIME_HAS_ENDED)
    check_sinks(graph, resumed=resumed)
    if submission is not None and submission.starting is not None:
        submission.starting(_starting(settings, identity))
    log_dir = Registry(settings.registry_dir).log_dir(identity.job_id)
    control = JobControl.open(settings.rest, log_dir)
    request = JobRequest(
        identity=identity,
        graph=graph,
        settings=settings,
        allow_fallback=submission.allow_fallback if submission is not None else False,
        resumed=resumed,
        reopens=submission is None or submission.reopens,
        rescaled=rescaled,
        start=start,
        rest=control.address if control is not None else None,
        report=submission.report if submission is not None else None,
        claimed=control.claimed if control is not None else lambda: None,
    )
    if submission is None or submission.suspends:
        INTERRUPTS.install()  # a session that the program has made brings a handler of its own
    if control is None:
        job = Job(request, spark, SystemClock())
    else:
        with control.closed_on_error():
            job = Job(request, spark, SystemClock())
            control.serve(job, job_facts(request, guarantees), settings.otel)
    show_spark_log(log_dir, settings.log_limits)
    INTERRUPTS.add(job)
    start_autoscaler(job, configuration, spark)
    return job


def run_job(graph: JobGraph, configuration: Configuration, name: str, spark: Any) -> JobExecutionResult:
    """Run the job to its end; an interrupt suspends it."""
    job = submit_job(graph, configuration, name, spark)
    with INTERRUPTS.handled(only=job) if is_interactive() else nullcontext():
        try:
            return job.wait()
        except (KeyboardInterrupt, SystemExit) as interrupt:
            is_second = is_interactive() and INTERRUPTS.is_received  # the job is being suspended, and the cell ends
            if not (is_second or job.status().is_terminal_state()):  # the program's own handler has raised it
                job.suspend(interrupt)
                print_message(job.describe_end())
            raise


def _identify(settings: JobSettings, configuration: Configuration, name: str) -> tuple[JobIdentity, bool]:
    """The job that the program runs, and whether its log has begun already."""
    submission = current_submission()
    if submission is not None and submission.resume:
        _require_free(settings, configuration, name)
    if submission is not None and submission.job_id is not None:
        job_id = JobId(submission.job_id)
        has_begun = _has_begun(settings, job_id)
        if submission.resume and not (has_begun or submission.restarts):  # its driver died before it claimed the job
            _note_unclaimed(settings, configuration, name, submission)
        return JobIdentity(job_id, name, _program()), has_begun
    if submission is None or not submission.resume:
        _note_suspended(Registry(settings.registry_dir), name)
        return JobIdentity(new_job_id(), name, _program()), False
    found = _resumable(settings, name)
    if found is None:
        note_new_job(settings, name, is_allowed=not submission.resume_only)
    return JobIdentity(found or new_job_id(), name, _program()), found is not None


def _note_unclaimed(settings: JobSettings, configuration: Configuration, name: str, submission: Submission) -> None:
    """Say what a job starts from that was to be resumed, but has no state of its own yet."""
    path = start_options(configuration).path
    if path is None:
        note_new_job(settings, name, is_allowed=not submission.resume_only)
    else:
        print_message(f"job {submission.job_id} has not begun yet: it starts from {path}, as its first start was to")


def _has_begun(settings: JobSettings, job_id: JobId) -> bool:
    """Whether an older driver has claimed this job. Raises JobConflictError if it has ended."""
    if not settings.is_resumable:
        raise UsageError(f"job {job_id} cannot go on: the program has no checkpoints that outlive its driver")
    view = read_log(settings.storage.open(job_id, resumed=True))
    if view.status is not None and view.status.status in ("finished", "cancelled"):
        raise JobConflictError(f"job {job_id} has ended as {view.status.status!r}: there is nothing to go on with")
    if _has_nothing_left(view):
        raise _nothing_to_resume(job_id)
    return view.attempt > 0


def _starting(settings: JobSettings, identity: JobIdentity) -> StartingJob:
    address = settings.storage.address if settings.is_resumable else None
    folder = settings.storage.job_address(identity.job_id) if address is not None else None
    return StartingJob(identity.job_id, identity.name, address, folder)


def note_new_job(settings: JobSettings, name: str, *, is_allowed: bool) -> None:
    """Say that there is no job to resume, and where it was looked for; JobNotFoundError if a new one is not allowed."""
    where = f"no job named {name!r} to resume under {settings.storage.address}"
    if not is_allowed:
        raise JobNotFoundError(f"{where}; check the job's name and the folder, or use --resume, which starts a new job")
    print_message(f"*** {where}: THIS IS A NEW JOB, with empty state ***")


def _note_suspended(registry: Registry, name: str) -> None:
    """Say that this is a new job although one of the same name could be resumed."""
    suspended = [record.job_id for record in registry.list() if record.name == name and record.status == SUSPENDED]
    if suspended:
        print_message(
            f"job {suspended[-1]} of the same name is suspended: this is a new job, with empty state; to continue that "
            f"one, use --resume; to end it, `penstock cancel {suspended[-1]}`"
        )


def _require_free(settings: JobSettings, configuration: Configuration, name: str) -> None:
    """Return if no driver runs the job; one that has been silent for too long is replaced, with a message."""
    limit_ms = configuration.get(execution_options.DRIVER_TIMEOUT)
    for record in require_free(Registry(settings.registry_dir), name, limit_ms):
        print_message(
            f"the driver of job {record.job_id} (process {record.pid} on {record.host}) has been silent for "
            f"{limit_ms / 1000:g} s or more: this one takes the job over"
        )


def _resumable(settings: JobSettings, name: str) -> str | None:
    """The job of that name that has not finished or been cancelled. Raises JobConflictError if there are several."""
    if not settings.takes_checkpoints:
        raise UsageError("--resume needs checkpoints: call env.enable_checkpointing(…) in the program")
    open_jobs = [
        (job_id, view)
        for job_id, view in settings.storage.jobs(partial(_skip_unreadable, name))
        if view.claim is not None
        and view.claim.name == name
        and (view.status is None or view.status.status not in ("finished", "cancelled"))
    ]
    resumable = _worth_resuming([(job_id, view) for job_id, view in open_jobs if not _has_nothing_left(view)])
    if len(resumable) > 1:
        raise JobConflictError(
            f"several jobs named {name!r} can be resumed: {', '.join(resumable)}; end the others with "
            f"`penstock cancel ID`, or move their folders away from {settings.storage.address}"
        )
    if open_jobs and not resumable:
        raise _nothing_to_resume(open_jobs[-1][0])
    return resumable[0] if resumable else None


def _nothing_to_resume(job_id: JobId) -> UsageError:
    return UsageError(
        f"job {job_id} has failed, and its checkpoints were deleted with it, as "
        f"{checkpointing_options.RETENTION.key} asked for: there is nothing to resume; start it without --resume, "
        f"and with RETAIN_ON_CANCELLATION if it is to be resumed after the next failure"
    )


def _rescaled_parallelism(settings: JobSettings, job_id: str) -> int | None:
    """The parallelism that a rescale has set, unless `-p` says another now."""
    submission = current_submission()
    claim = read_log(settings.storage.open(job_id, resumed=True)).claim
    is_set = submission is not None and submission.parallelism is not None and not submission.restarts
    if claim is None or claim.rescaled is UNSET or is_set:
        return None
    print_message(f"the job was rescaled to parallelism {claim.rescaled} and resumes at it; -p N sets another")
    return claim.rescaled


def _worth_resuming(jobs: list[tuple[JobId, LogView]]) -> list[JobId]:
    """Without jobs that ended while they started: none of their epochs has run. Without others, the newest of them."""
    begun = [job_id for job_id, view in jobs if view.started or (view.claim is not None and view.claim.start_from)]
    return begun or [job_id for job_id, _ in sorted(jobs, key=lambda job: job[1].updated_ms)[-1:]]


def _has_nothing_left(view: LogView) -> bool:
    """The job has ended, and its checkpoints were deleted with it."""
    is_empty = view.started and not view.retained and view.origin is None
    return is_empty and view.status is not None


def _skip_unreadable(name: str, job: UnreadableJob) -> None:
    """PROTOCOL R6: warn about a job that cannot be read; refuse if it may be the one to resume."""
    if job.may_be(name):
        raise job.refusal(
            f"; it may be the job {name!r} that is to be resumed: bring its log back, or move {job.address} away if it "
            f"is another one"
        ) from job.error
    print_warning(f"{job}; it is not {name!r} and is left alone")


def _program() -> str:
    submission = current_submission()
    if submission is not None:
        return str(submission.job_file)
    main = sys.modules.get("__main__")
    return Path(getattr(main, "__file__", None) or "notebook").name
